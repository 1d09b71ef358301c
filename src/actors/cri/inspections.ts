/**
 * Inspections of pods in progress or just finished, so that one inspection serves several callers.
 *
 * A pod's actor inspects its pod after its calls; the runtime's event about the call arrives at about the same time and
 * needs the same inspection. Invariant: a caller gets only an inspection that began after its request.
 */
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';

/** How long a result is shared; longer than an event waits for one. */
const KEEP_MS = 500;

interface Inspection {
  readonly began: number;
  readonly status: Promise<PodRuntimeStatus>;
}

export class Inspections {
  readonly #latest = new Map<string, Inspection>();
  #moment = 0;

  /** Marks the arrival of an event: an inspection that begins later shows it. */
  moment(): number {
    return ++this.#moment;
  }

  /** Inspects the pod; later callers may share the result. */
  async take(uid: string, inspect: () => Promise<PodRuntimeStatus>): Promise<PodRuntimeStatus> {
    const inspection = { began: this.moment(), status: inspect() };
    this.#latest.set(uid, inspection);
    try {
      return await inspection.status;
    } finally {
      setTimeout(() => this.#forget(uid, inspection), KEEP_MS).unref();
    }
  }

  /** An inspection of the pod that began after the moment; `undefined` if there is none to share. */
  after(uid: string, moment: number): Promise<PodRuntimeStatus> | undefined {
    const inspection = this.#latest.get(uid);
    return inspection && inspection.began > moment ? inspection.status : undefined;
  }

  #forget(uid: string, inspection: Inspection): void {
    if (this.#latest.get(uid) === inspection) this.#latest.delete(uid);
  }
}
