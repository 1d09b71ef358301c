/**
 * The health check `syncloop`: whether the loop that carries what is wanted to the pods still goes round.
 *
 * Owns: when it last did. A turn of the kernel with the loop there and the runtime up is one round; the loop's own
 * housekeeping makes one each minute on a node where nothing happens. While the runtime is down rounds are skipped.
 * Upstream: pkg/kubelet, SyncLoopHealthCheck and syncLoopMonitor.
 */
/** Upstream's: shorter periods of synchronizing do not make the check stricter. */
const AGE_MIN_MS = 5 * 60_000;

interface LoopSnapshot {
  readonly status: string;
  readonly context: { readonly runtimeUp: boolean };
}

export class SyncLoopCheck {
  private readonly nowMs: () => number;
  private enteredMs: number | undefined;

  /** @param nowMs a clock that never goes back */
  constructor(nowMs: () => number = () => performance.now()) {
    this.nowMs = nowMs;
  }

  /** After each turn, with the loop's snapshot; `undefined` while there is no loop. */
  turned(loop: LoopSnapshot | undefined): void {
    if (loop?.status === 'active' && loop.context.runtimeUp) this.enteredMs = this.nowMs();
  }

  /** Why it fails, or `null`. A loop that was never entered is only starting. */
  problem(syncFrequencyMs: number): string | null {
    if (this.enteredMs === undefined) return null;
    const limitMs = Math.max(AGE_MIN_MS, 2 * syncFrequencyMs);
    return this.nowMs() - this.enteredMs > limitMs ? 'sync Loop took longer than expected' : null;
  }
}
