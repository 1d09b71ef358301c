/**
 * The inspections of single pods that are under way or were just made, so that one look serves all who ask for it.
 *
 * A pod's actor looks at itself after each of its calls; the runtime's event about that call comes at about the same
 * time and asks for the same. Invariant: whoever asks gets only what was looked at after it asked.
 */
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';

/** How long what was seen serves others; longer than an event waits for a look to share. */
const KEEP_MS = 500;

interface Look {
  readonly began: number;
  readonly status: Promise<PodRuntimeStatus>;
}

export class Looks {
  readonly #latest = new Map<string, Look>();
  #moment = 0;

  /** Something happened: a look that begins after this moment shows it. */
  moment(): number {
    return ++this.#moment;
  }

  /** A new look, which others may share. */
  async take(uid: string, inspect: () => Promise<PodRuntimeStatus>): Promise<PodRuntimeStatus> {
    const look = { began: this.moment(), status: inspect() };
    this.#latest.set(uid, look);
    try {
      return await look.status;
    } finally {
      setTimeout(() => this.#forget(uid, look), KEEP_MS).unref();
    }
  }

  /** A look at the pod that began after the moment; undefined when there is none to share. */
  after(uid: string, moment: number): Promise<PodRuntimeStatus> | undefined {
    const look = this.#latest.get(uid);
    return look && look.began > moment ? look.status : undefined;
  }

  #forget(uid: string, look: Look): void {
    if (this.#latest.get(uid) === look) this.#latest.delete(uid);
  }
}
