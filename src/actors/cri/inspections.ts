/**
 * The inspections of single pods that are under way or just finished, so that one inspection serves several callers.
 *
 * A pod's actor inspects its pod after each of its calls; the runtime's event about that call comes at about the same
 * time and wants the same. Invariant: a caller gets only an inspection that began after its request.
 */
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';

/** How long a result serves others; longer than an event waits for an inspection to share. */
const KEEP_MS = 500;

interface Inspection {
  readonly began: number;
  readonly status: Promise<PodRuntimeStatus>;
}

export class Inspections {
  readonly #latest = new Map<string, Inspection>();
  #moment = 0;

  /** Marks an event of the runtime: an inspection that begins after this moment shows it. */
  moment(): number {
    return ++this.#moment;
  }

  /** Inspects the pod anew; others may share the result. */
  async take(uid: string, inspect: () => Promise<PodRuntimeStatus>): Promise<PodRuntimeStatus> {
    const inspection = { began: this.moment(), status: inspect() };
    this.#latest.set(uid, inspection);
    try {
      return await inspection.status;
    } finally {
      setTimeout(() => this.#forget(uid, inspection), KEEP_MS).unref();
    }
  }

  /** An inspection of the pod that began after the moment; `undefined` when there is none to share. */
  after(uid: string, moment: number): Promise<PodRuntimeStatus> | undefined {
    const inspection = this.#latest.get(uid);
    return inspection && inspection.began > moment ? inspection.status : undefined;
  }

  #forget(uid: string, inspection: Inspection): void {
    if (this.#latest.get(uid) === inspection) this.#latest.delete(uid);
  }
}
