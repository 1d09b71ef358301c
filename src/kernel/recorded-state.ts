/**
 * The last state and the open requests of every actor, as a log has recorded them so far.
 *
 * Takes every record of the log, a turn behind the replay, and begins with the state of a checkpoint.
 */
import type { Address } from './address.ts';
import type { Checkpoint } from './checkpoint.ts';
import type { Before } from './divergence.ts';
import type { EffectRecord, JournalRecord } from './records.ts';

/** The part of XState's persisted snapshot that is read here. */
interface PersistedSnapshot {
  readonly value?: unknown;
  readonly children?: Readonly<Record<string, { readonly snapshot: PersistedSnapshot }>>;
}

export class RecordedState implements Omit<Before, 'isUnchanged'> {
  private readonly states = new Map<Address, unknown>();
  private readonly requests = new Map<number, EffectRecord>();

  adopt(checkpoint: Checkpoint, root: Address): void {
    this.seed(root, checkpoint.root as PersistedSnapshot);
    for (const request of checkpoint.effects)
      this.requests.set(request.id, { ...request, n: checkpoint.n, k: 'effect' });
  }

  private seed(address: Address, { value, children = {} }: PersistedSnapshot): void {
    if (value !== undefined) this.states.set(address, value);
    for (const [id, { snapshot }] of Object.entries(children)) this.seed(`${address}/${id}`, snapshot);
  }

  apply(record: JournalRecord): void {
    if (record.k === 'effect') this.requests.set(record.id, record);
    else if (record.k === 'result' || record.k === 'cancel') this.requests.delete(record.id);
    else if (record.k !== 'state') return;
    else if (record.status === undefined) this.states.set(record.at, record.value);
    else this.states.delete(record.at);
  }

  stateOf(address: Address): unknown {
    return this.states.get(address);
  }

  /** Whether the log has a living actor at this address. */
  knows(address: Address): boolean {
    return this.states.has(address);
  }

  requestOf(id: number): EffectRecord | undefined {
    return this.requests.get(id);
  }
}
