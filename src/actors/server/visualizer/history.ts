/**
 * The first and last records of a kernel, each with its time, turn and cause.
 *
 * The journal writes a cause only if it cannot be derived; others follow from the record itself: a result from its
 * request, a timer from the entry into the state that armed it, a change of state from the actor's last message.
 * Invariants: numbers increase; a cause is always smaller than its effect; at most {@link START_RECORDS_MAX} records of
 * the start are kept, and the last {@link RECORDS_MAX} after it.
 */
import { type Address, parentOf } from '../../../kernel/address.ts';
import type { InRecord, KernelRecord } from '../../../kernel/records.ts';
import type { RecordsView, ShownRecord } from './protocol.ts';

/** Kept records of a running node, about 2 MB. */
const RECORDS_MAX = 2_000;
/** Kept records of its start: the boot with a dozen pods, about 4 MB. */
const START_RECORDS_MAX = 4_000;

export interface SeenTurn {
  readonly n: number;
  readonly turn: number;
  readonly t: number;
  readonly records: readonly ShownRecord[];
  /** Actors whose view changed. */
  readonly touched: ReadonlySet<Address>;
  /** Actors that are no longer shown. */
  readonly gone: readonly Address[];
}

/** The facts about actors that determine causes. */
export interface CauseSource {
  /** Number of the record by which an actor entered the state whose delay ended: `xstate.after.<delay>.<state id>`. */
  armedBy(address: Address, event: string): number | undefined;
  /** Number of the record of a request that is still open. */
  requestedBy(id: number): number | undefined;
}

/** The entry into the innermost active state whose delay the event ends. */
export function entryArming<Entry>(active: ReadonlyMap<string, Entry> | undefined, event: string): Entry | undefined {
  const states = [...(active ?? [])].filter(([id]) => event.endsWith(`.${id}`));
  return states.sort(([a], [b]) => b.length - a.length)[0]?.[1];
}

/** The subject of a record: for requests and results the requesting actor. */
export function actorOf(record: KernelRecord): Address | undefined {
  if (record.k === 'in' || record.k === 'message') return record.to;
  if (record.k === 'effect' || record.k === 'result') return parentOf(record.at);
  return 'at' in record ? record.at : undefined;
}

const STREAM = 'effect:';

/** The stream that delivered an input, if any. */
export const streamOf = ({ via }: InRecord): number | undefined =>
  via.startsWith(STREAM) ? Number(via.slice(STREAM.length)) : undefined;

/** The error reported by a stream that goes on: a port in use. */
export const streamError = ({ event }: InRecord): string | undefined =>
  /failed$/i.test(event.type) && typeof event['message'] === 'string' ? event['message'] : undefined;

export class History {
  private readonly start: SeenTurn[] = [];
  private startHeld = 0;
  private turns: SeenTurn[] = [];
  private recordCount = 0;
  private readonly source: CauseSource;
  /** The record that each actor received last in the current turn. */
  private lastReceived = new Map<Address, number>();

  constructor(source: CauseSource) {
    this.source = source;
  }

  /** Determines the cause of a record. Must be called before the actors process the record. */
  read(record: KernelRecord, turn: number, t: number, root: Address): ShownRecord {
    const cause = this.causeOf(record);
    const receiver = record.k === 'header' ? root : actorOf(record);
    const isReceived = record.k !== 'state' && record.k !== 'log' && record.k !== 'effect';
    if (isReceived && receiver !== undefined) this.lastReceived.set(receiver, record.n);
    return { n: record.n, t, turn, ...(cause === undefined ? {} : { cause }), record };
  }

  private causeOf(record: KernelRecord): number | undefined {
    switch (record.k) {
      case 'message':
      case 'effect':
        return record.cause;
      case 'result':
      case 'cancel':
        return this.source.requestedBy(record.id);
      case 'in':
        return this.sourceOf(streamOf(record));
      case 'timer':
        return this.source.armedBy(record.at, record.event);
      case 'state':
      case 'log':
        return this.handledBy(record.at);
      default:
        return undefined;
    }
  }

  private sourceOf(id: number | undefined): number | undefined {
    return id === undefined ? undefined : this.source.requestedBy(id);
  }

  /** The record that the actor handled last in this turn; without one, its parent's. */
  private handledBy(address: Address): number | undefined {
    for (let at = address; at !== ''; at = parentOf(at)) {
      const n = this.lastReceived.get(at);
      if (n !== undefined) return n;
    }
    return undefined;
  }

  endTurn(turn: SeenTurn): void {
    this.lastReceived.clear();
    const records = turn.records.slice(-RECORDS_MAX);
    this.turns.push({ ...turn, records });
    this.recordCount += records.length;
    while (this.recordCount > RECORDS_MAX) {
      const oldest = this.turns.shift();
      if (!oldest) break;
      this.leave(oldest);
    }
  }

  private leave(turn: SeenTurn): void {
    const { length } = turn.records;
    this.recordCount -= length;
    if (this.startHeld + length > START_RECORDS_MAX) this.startHeld = START_RECORDS_MAX;
    else {
      this.start.push(turn);
      this.startHeld += length;
    }
  }

  /** The turns after record `n`, or undefined if some of them are already forgotten. */
  turnsAfter(n: number): SeenTurn[] | undefined {
    const oldest = this.turns[0]?.records[0]?.n ?? 0;
    if (n + 1 < oldest) return undefined;
    return this.turns.filter((turn) => turn.n > n);
  }

  recordsAfter(n: number, limit: number): RecordsView {
    const records: ShownRecord[] = [];
    for (const turn of [...this.start, ...this.turns]) {
      if (turn.n <= n) continue;
      for (const shown of turn.records) {
        if (shown.n <= n) continue;
        if (records.length === limit) return { records, more: true };
        records.push(shown);
      }
    }
    return { records, more: false };
  }
}
