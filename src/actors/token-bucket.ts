/**
 * A token bucket: a burst of `burst` requests, then `qps` per second, in order of arrival. Requests of several lanes
 * take turns, so that a thousand of one kind delay one of another kind by a few tokens only.
 */

const SECOND_MS = 1_000;

type Waiting = () => void;

export class TokenBucket {
  private readonly qps: number;
  private readonly burst: number;
  private tokens: number;
  private filledAtMs = performance.now();
  /** The requests that wait, by lane; the first lane gets the next token, and goes to the end. */
  private readonly lanes = new Map<string, Set<Waiting>>();
  private timer: NodeJS.Timeout | undefined;

  /** `qps` of 0 or less: no limit. */
  constructor(qps: number, burst: number) {
    this.qps = qps;
    this.burst = Math.max(1, burst);
    this.tokens = this.burst;
  }

  /** Waits for this request's turn; rejects if it is aborted. */
  async take(signal: AbortSignal, lane = ''): Promise<void> {
    if (this.qps <= 0 || (this.lanes.size === 0 && this.takeNow())) return;
    signal.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const waiting = (): void => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        this.leave(lane, waiting);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', leave, { once: true });
      this.lanes.set(lane, (this.lanes.get(lane) ?? new Set()).add(waiting));
      if (this.timer === undefined) this.serve();
    });
  }

  /** Takes a token if one is available now: for callers that reject instead of waiting. */
  takeNow(): boolean {
    this.fill();
    if (this.tokens < 1) return false;
    this.tokens -= 1;
    return true;
  }

  private serve(): void {
    this.timer = undefined;
    for (const [lane, requests] of this.lanes) {
      if (!this.takeNow()) break;
      const [next] = requests;
      this.lanes.delete(lane);
      if (next === undefined) continue;
      requests.delete(next);
      if (requests.size > 0) this.lanes.set(lane, requests);
      next();
    }
    if (this.lanes.size === 0) return;
    const waitMs = ((1 - this.tokens) / this.qps) * SECOND_MS;
    this.timer = setTimeout(() => this.serve(), Math.max(1, waitMs));
  }

  private leave(lane: string, waiting: Waiting): void {
    const requests = this.lanes.get(lane);
    requests?.delete(waiting);
    if (requests?.size === 0) this.lanes.delete(lane);
    if (this.lanes.size > 0) return;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private fill(): void {
    const nowMs = performance.now();
    this.tokens = Math.min(this.burst, this.tokens + ((nowMs - this.filledAtMs) / SECOND_MS) * this.qps);
    this.filledAtMs = nowMs;
  }
}
