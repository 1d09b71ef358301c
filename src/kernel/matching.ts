/**
 * Matches requests and timers of the replayed actors with those of the log when numbers or addresses differ.
 *
 * Owns: the pairs found so far. Hears: each turn of the log and of the replay. Translates inputs for the replayed
 * actors, and their records into the names of the log.
 * Invariants: a request is matched by name and input, else by name alone; of several candidates, the one at the
 * recorded address is used, else the first. A timer is matched by the turn that set it and its time, then by event and
 * address. A request or timer without a match keeps its own name.
 */
import { type Address, parentOf } from './address.ts';
import type { PendingTimer } from './clock.ts';
import type {
  EffectRecord,
  EndRecord,
  InputRecord,
  JournalRecord,
  KernelRecord,
  LogRecord,
  TimerRecord,
} from './records.ts';

/** The kernel's prefix for the stream that delivered an event. */
const VIA = 'effect:';
/** A number that no timer has. */
const NO_TIMER = -1;

type Place = Pick<EffectRecord, 'id' | 'at'>;

export class Matching {
  /** By the log's number: requests whose number differs in the replay. */
  readonly #requests = new Map<number, Place>();
  /** By the replay's number: the request in the log. */
  readonly #logged = new Map<number, Place>();
  /** By the log's number: replayed timers that were set in the same turn for the same time. */
  readonly #timers = new Map<number, number[]>();
  readonly #pending: () => readonly PendingTimer[];

  constructor(pending: () => readonly PendingTimer[]) {
    this.#pending = pending;
  }

  /** An input of the log, translated for the replayed actors. */
  today(record: InputRecord): InputRecord {
    if (record.k === 'timer') return this.#timer(record);
    if (record.k === 'result') {
      const found = this.#requests.get(record.id);
      return found ? { ...record, id: found.id, at: found.at } : record;
    }
    const stream = record.via.startsWith(VIA) ? this.#requests.get(Number(record.via.slice(VIA.length))) : undefined;
    return stream ? { ...record, to: parentOf(stream.at), via: `${VIA}${stream.id}` } : record;
  }

  #timer(record: TimerRecord): TimerRecord {
    const set = this.#timers.get(record.id);
    if (!set) return record;
    const score = ({ target, event }: PendingTimer): number =>
      2 * Number(event.type === record.event) + Number(target === record.at);
    const candidates = this.#pending().filter(({ id }) => set.includes(id));
    const [best] = candidates.toSorted((one, other) => score(other) - score(one));
    if (!best) return { ...record, id: NO_TIMER };
    set.splice(set.indexOf(best.id), 1);
    return { ...record, id: best.id, at: best.target, event: best.event.type };
  }

  /** The replayed records of a turn in the names of the log, as far as there are matches. */
  inLogNames(expected: readonly JournalRecord[], actual: readonly KernelRecord[]): readonly KernelRecord[] {
    const [first, last] = [expected[0], expected.at(-1)];
    const begun = actual[0];
    if (!first || !last || !begun) return actual;
    const shift = first.n - begun.n;
    this.#pairRequests(expected, actual);
    const places = placesOfLines(expected, actual);
    return actual.map((record, at) => {
      const cause = 'cause' in record ? record.cause : undefined;
      const moved = { ...record, n: record.n + shift, ...(cause === undefined ? {} : { cause: cause + shift }) };
      if (at === 0 && first.k === moved.k && moved.k !== 'header') return { ...first, n: moved.n };
      if (moved.k === 'effect' || moved.k === 'cancel') return { ...moved, ...this.#placeOf(moved) };
      if (moved.k === 'log') return { ...moved, at: (record.k === 'log' && places.get(record)) || moved.at };
      return moved.k === 'end' ? this.#withTimers(last, moved) : moved;
    });
  }

  #placeOf({ k, id }: { readonly k: 'effect' | 'cancel'; readonly id: number }): Partial<Place> {
    const place = this.#logged.get(id);
    if (!place) return {};
    return k === 'cancel' ? { id: place.id } : place;
  }

  #pairRequests(expected: readonly JournalRecord[], actual: readonly KernelRecord[]): void {
    const open = actual.filter((record) => record.k === 'effect');
    const requests = expected.filter((record) => record.k === 'effect');
    const contents = new Map([...open, ...requests].map((record) => [record, contentOf(record)]));
    const pair = (isSame: (one: EffectRecord, other: EffectRecord) => boolean) => (request: EffectRecord) => {
      const same = open.filter((other) => isSame(request, other));
      const found = same.find(({ at }) => at === request.at) ?? same[0];
      if (!found) return true;
      open.splice(open.indexOf(found), 1);
      this.#pair(request, found);
      return false;
    };
    requests
      .filter(pair((one, other) => contents.get(one) === contents.get(other)))
      .forEach(pair((one, other) => one.name === other.name));
  }

  #pair(logged: EffectRecord, today: EffectRecord): void {
    if (today.id === logged.id && today.at === logged.at) return;
    this.#requests.set(logged.id, { id: today.id, at: today.at });
    this.#logged.set(today.id, { id: logged.id, at: logged.at });
  }

  /** Timers with the same deadline are interchangeable until they are due. */
  #withTimers(expected: JournalRecord, end: EndRecord): EndRecord {
    const logged = expected.k === 'end' ? (expected.armed ?? {}) : {};
    const timers = Object.entries(end.armed ?? {});
    const todays = Map.groupBy(timers, ([, ms]) => ms);
    for (const [id, ms] of Object.entries(logged)) {
      this.#timers.set(
        Number(id),
        (todays.get(ms) ?? []).map(([today]) => Number(today)),
      );
    }
    const isSame = timesOf(logged) === timesOf(end.armed ?? {});
    return isSame && timers.length > 0 ? { ...end, armed: logged } : end;
  }
}

const contentOf = ({ name, input }: EffectRecord): string => `${name} ${JSON.stringify(input)}`;

const timesOf = (armed: Readonly<Record<string, number>>): string =>
  Object.values(armed)
    .toSorted((a, b) => a - b)
    .join();

/** The position of each replayed log line in the log: the first line with the same content that is not matched yet. */
function placesOfLines(
  expected: readonly JournalRecord[],
  actual: readonly KernelRecord[],
): ReadonlyMap<LogRecord, Address> {
  const logged = Map.groupBy(
    expected.filter((record) => record.k === 'log'),
    lineOf,
  );
  const places = new Map<LogRecord, Address>();
  for (const record of actual) {
    if (record.k !== 'log') continue;
    const same = logged.get(lineOf(record)) ?? [];
    const sameAddress = same.findIndex(({ at }) => at === record.at);
    const [taken] = same.splice(Math.max(0, sameAddress), 1);
    if (taken) places.set(record, taken.at);
  }
  return places;
}

const lineOf = ({ level, text, fields }: LogRecord): string => JSON.stringify([level, text, fields]);
