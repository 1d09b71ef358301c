/**
 * The actors as they were after one turn, read from the records that are held. Pure.
 *
 * Each `state` record says what an actor was in before and after it, so the last one up to the moment says what it was
 * in then, and the first one after it says the same of an actor that did not move before.
 */
import type { ActorView, RequestView, ShownRecord, StatesView } from '../actors/server/visualizer/protocol.ts';
import { parentOf } from './words.ts';

export class Past {
  /** The last record of the turn. */
  readonly moment: ShownRecord;
  /** Up to the moment. */
  readonly records: readonly ShownRecord[];
  readonly actors: ReadonlyMap<string, ActorView>;

  /** `turn` is the one of some of `records`, which rise by number; `present` are the actors after the last of them. */
  constructor(turn: number, records: readonly ShownRecord[], present: ReadonlyMap<string, ActorView>) {
    const end = records.findLastIndex((shown) => shown.turn === turn) + 1;
    this.moment = records[end - 1] as ShownRecord;
    this.records = records.slice(0, end);
    const open = openRequests(this.records, present);
    const last = lastStates(this.records);
    const next = nextStates(records.slice(end));
    const views = [...new Set([...present.keys(), ...last.keys()])].flatMap((address) => {
      const states = last.get(address) ?? (next.has(address) ? next.get(address) : present.get(address));
      const known = present.get(address);
      if (!states || !known) return [];
      const { error: _error, ...facts } = known;
      const status = { status: 'active' as const, ...states };
      return [[address, { ...facts, ...status, requests: open.get(address) ?? [] }] as const];
    });
    this.actors = new Map(views);
  }
}

type States = StatesView & Partial<Pick<ActorView, 'status' | 'error'>>;

/** What each actor that moved was in at the end. */
function lastStates(records: readonly ShownRecord[]): Map<string, States> {
  const found = new Map<string, States>();
  for (const { record, active = [] } of records) {
    if (record.k !== 'state') continue;
    const { value, status = 'active', error } = record;
    found.set(record.at, { value, active, status, ...(error ? { error: error.message } : {}) });
  }
  return found;
}

/** What each actor that will move was in before; undefined: it was not there. */
function nextStates(records: readonly ShownRecord[]): Map<string, States | undefined> {
  const found = new Map<string, States | undefined>();
  for (const { record, was } of records) if (record.k === 'state' && !found.has(record.at)) found.set(record.at, was);
  return found;
}

/** Requests without an answer, by the actor that asked. One from before the first record is known if it is open now. */
function openRequests(
  records: readonly ShownRecord[],
  present: ReadonlyMap<string, ActorView>,
): Map<string, RequestView[]> {
  const open = new Map<number, readonly [string, RequestView]>();
  const first = records[0]?.n ?? 0;
  for (const { address, requests } of present.values())
    for (const request of requests) if (request.n < first) open.set(request.id, [address, request]);
  for (const { record, t, n } of records) {
    if (record.k === 'effect') {
      const { id, name, class: cls } = record;
      open.set(id, [parentOf(record.at), { id, name, class: cls, since: t, n }]);
    } else if (record.k === 'result' || record.k === 'cancel') open.delete(record.id);
  }
  const byAsker = new Map<string, RequestView[]>();
  for (const [asker, request] of open.values()) byAsker.set(asker, [...(byAsker.get(asker) ?? []), request]);
  return byAsker;
}
