/**
 * Changes of a watch that were read and are not reported yet, because the decisions about earlier ones take their time.
 *
 * Decides: which changes become one. An object is reported as it is by then, so that objects that change faster than
 * decisions, such as pods that are created and deleted a hundred times a second, do not hold up all others.
 * Invariants:
 *   C1 of one object only the newest state is reported; its deletion is always reported, and nothing is merged into it.
 *      Of an object that was reported before, the state with its time of deletion is reported as well: it has the grace
 *      period, which no deletion has.
 *   C2 one change is reported at a time, and everything else has its turn before the next one.
 *   C3 changes are reported in the order of the versions of their objects: a watch that continues after the last
 *      reported one misses none of the others.
 *   C4 at most {@link CHANGES_MAX} changes of {@link WAITING_MAX_BYTES} wait; the others stay in the server.
 */
import { setImmediate } from 'node:timers/promises';
import type { KubeObject } from '../../machines/model/operations/kube.ts';

export type Change = 'ADDED' | 'MODIFIED' | 'DELETED';

/** Enough for what arrives during the longest decision. */
const CHANGES_MAX = 1_000;
/** As text: in memory an object takes several times as much. */
const WAITING_MAX_BYTES = 4 * 1_048_576;

interface Waiting {
  readonly key: string;
  readonly change: Change;
  readonly object: KubeObject;
  readonly bytes: number;
}

/** The object was reported before, and is told now to end. */
const hasTimeOfDeletion = ({ change, object }: Waiting): boolean =>
  change === 'MODIFIED' && object.metadata['deletionTimestamp'] !== undefined;

const keyOf = ({ metadata: { namespace, name, uid } }: KubeObject): string => JSON.stringify([namespace, name, uid]);

export class WaitingChanges {
  private readonly onChange: (change: Change, object: KubeObject) => void;
  /** In the order in which they are reported. */
  private readonly waiting = new Set<Waiting>();
  /** By object, the change that the next one is merged into. */
  private readonly open = new Map<string, Waiting>();
  private bytes = 0;
  private reporting: Promise<void> = Promise.resolve();
  private isReporting = false;
  private failure: { readonly error: unknown } | undefined;

  constructor(onChange: (change: Change, object: KubeObject) => void) {
    this.onChange = onChange;
  }

  /** Resolves when the next change may be read. Throws what reporting threw. */
  async add(change: Change, object: KubeObject, bytes: number): Promise<void> {
    this.put(change, object, bytes);
    if (!this.isReporting) this.reporting = this.report();
    while (this.waiting.size >= CHANGES_MAX || this.bytes > WAITING_MAX_BYTES) await setImmediate();
    this.throwFailure();
  }

  /** Resolves when nothing waits any more. Throws what reporting threw. */
  async reported(): Promise<void> {
    await this.reporting;
    this.throwFailure();
  }

  private put(change: Change, object: KubeObject, bytes: number): void {
    const key = keyOf(object);
    const earlier = this.open.get(key);
    const before = earlier && change === 'DELETED' && hasTimeOfDeletion(earlier) ? undefined : earlier;
    this.bytes += bytes - (before?.bytes ?? 0);
    if (before !== undefined) this.waiting.delete(before);
    const next = { key, change: before && change === 'MODIFIED' ? before.change : change, object, bytes };
    this.waiting.add(next);
    if (change === 'DELETED') this.open.delete(key);
    else this.open.set(key, next);
  }

  private async report(): Promise<void> {
    this.isReporting = true;
    try {
      for (const next of this.waiting) {
        this.waiting.delete(next);
        this.bytes -= next.bytes;
        if (this.open.get(next.key) === next) this.open.delete(next.key);
        this.onChange(next.change, next.object);
        await setImmediate();
      }
    } catch (error) {
      this.failure = { error };
      this.waiting.clear();
      this.bytes = 0;
    } finally {
      this.isReporting = false;
    }
  }

  private throwFailure(): void {
    if (this.failure) throw this.failure.error;
  }
}
