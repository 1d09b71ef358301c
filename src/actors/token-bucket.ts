/** A token bucket: a burst of `burst` requests, then `qps` per second, in order of arrival. */
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

  /** Waits for this request's turn; rejects if it is aborted. */
  async take(signal: AbortSignal): Promise<void> {
    if (this.qps <= 0) return;
    this.fill();
    this.tokens -= 1;
    // A negative balance counts the waiting requests: a later request waits longer.
    if (this.tokens >= 0) return;
    try {
      await sleep((-this.tokens / this.qps) * SECOND_MS, undefined, { signal });
    } catch (error) {
      this.tokens += 1;
      throw error;
    }
  }

  /** Takes a token if one is available now: for callers that reject instead of waiting. */
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
