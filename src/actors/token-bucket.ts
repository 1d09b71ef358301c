/** A token bucket: `burst` requests at once, `qps` a second in the long run, in the order in which they came. */
import { setTimeout as sleep } from 'node:timers/promises';

const SECOND_MS = 1_000;

export class TokenBucket {
  private readonly qps: number;
  private readonly burst: number;
  private tokens: number;
  private filledAtMs = performance.now();

  /** `qps` of 0 or less: no limit. */
  constructor(qps: number, burst: number) {
    this.qps = qps;
    this.burst = Math.max(1, burst);
    this.tokens = this.burst;
  }

  /** Waits for this request's turn; rejects when it is not wanted any more. */
  async take(signal: AbortSignal): Promise<void> {
    if (this.qps <= 0) return;
    this.fill();
    this.tokens -= 1;
    // A debt is a place in the queue: a later request waits longer.
    if (this.tokens >= 0) return;
    try {
      await sleep((-this.tokens / this.qps) * SECOND_MS, undefined, { signal });
    } catch (error) {
      this.tokens += 1;
      throw error;
    }
  }

  /** A turn now, or none: for those who rather refuse than wait. */
  takeNow(): boolean {
    this.fill();
    if (this.tokens < 1) return false;
    this.tokens -= 1;
    return true;
  }

  private fill(): void {
    const nowMs = performance.now();
    this.tokens = Math.min(this.burst, this.tokens + ((nowMs - this.filledAtMs) / SECOND_MS) * this.qps);
    this.filledAtMs = nowMs;
  }
}
