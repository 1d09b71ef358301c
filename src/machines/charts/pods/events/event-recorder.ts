/**
 * The event recorder: writes events about pods and the node as log lines and, on a node with an API server, as Event
 * objects (`kubectl describe`).
 *
 * Correlates events before they are written: similar ones are combined, equal ones are counted, and no source floods
 * the others. Pure; limits as in upstream's correlator.
 *
 * Decides: which events are combined, counted or dropped (below).
 * Owns: small counters by object, the writers that run.
 * Hears: `event.recorded` of every actor.
 * Asks: nothing; its writers do (`event-writer.ts`).
 * Invariants:
 *   R1 an object gets at most 25 events of one type at once, then one every five minutes.
 *   R2 equal events are one with a count; similar ones within ten minutes become `(combined from similar events)`.
 *   R3 an API server that does not answer delays no actor; beyond {@link WRITERS_MAX} events are log lines only.
 */
import { type AnyActorRef, type Ended, type EnqueueOf, line, now, setup, typed } from '../../../../kernel/xstate.ts';
import type { EventRecorded } from '../../../model/pods/pod-messages.ts';
import { fnv1a32 } from '../../../model/spec/hash.ts';
import { rfc3339 } from '../../../model/values/time.ts';
import { type EventSeries, eventWriterMachine } from './event-writer.ts';

/** Events that may wait for the API server; as many as upstream's queue holds. */
const WRITERS_MAX = 1_000;

export interface EventRecorderInput {
  readonly nodeName: string;
  /** There is an API server. */
  readonly publishes: boolean;
  /** Tokens are counted for each type of event: behavior `eventsOfEachType`. */
  readonly ofEachType: boolean;
  /** Events carry their annotations: behavior `evictionAsKubelet`. */
  readonly annotates: boolean;
}

interface Context extends Correlation, EventRecorderInput {
  /** Keys of the series that are being written. */
  readonly writing: readonly string[];
}

const s = setup({
  types: typed<{ input: EventRecorderInput; context: Context; events: EventRecorded | Ended }>(),
  actors: { writer: eventWriterMachine },
});

type Enqueue = EnqueueOf<typeof s>;

const handleEvent = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'event.recorded') return;
  const nowMs = now(args);
  const correlated = correlate(context, event, nowMs, context.ofEachType);
  const { correlation, key, isSpam, count, firstMs, serial, message, isCombined } = correlated;
  enqueue.assign(correlation);
  if (isSpam) return;
  const { ref, eventType, reason } = event;
  const fields = {
    object: ref.namespace === '' ? ref.name : `${ref.namespace}/${ref.name}`,
    kind: ref.kind,
    ...(ref.fieldPath === undefined ? {} : { fieldPath: ref.fieldPath }),
    type: eventType,
    reason,
    message,
    ...(count > 1 ? { count } : {}),
  };
  enqueue(line('info', ['Event occurred', fields]));
  if (!context.publishes) return;
  const [firstTimestamp, lastTimestamp] = [rfc3339(firstMs), rfc3339(nowMs)];
  const name = nameOf(ref.name, firstMs, serial);
  const series = { name, ref, eventType, reason, message, firstTimestamp, lastTimestamp, count };
  const annotations = context.annotates && event.annotations ? { annotations: event.annotations } : {};
  write(enqueue, context, key, isCombined ? { ...series, isCombined } : { ...series, ...annotations });
});

function write(enqueue: Enqueue, context: Context, key: string, series: EventSeries): void {
  const { writing, nodeName } = context;
  if (writing.includes(key)) {
    enqueue.sendTo<AnyActorRef>(idOf(key), { type: 'event.counted', series });
  } else if (writing.length < WRITERS_MAX) {
    enqueue.spawnChild('writer', { id: idOf(key), input: { nodeName, series } });
    enqueue.assign({ writing: [...writing, key] });
  } else {
    enqueue(
      line('warn', ['Unable to record event: too many wait for the API server, dropped', { reason: series.reason }]),
    );
  }
}

const idOf = (key: string): string => `event-${key}`;

/** A writer has finished, or crashed. */
const reap = s.enqueueActions(({ context, event, enqueue }) => {
  const key = event.type.replace(/^xstate\.(done|error)\.actor\.event-/, '');
  enqueue.stopChild(idOf(key));
  enqueue.assign({ writing: context.writing.filter((each) => each !== key) });
});

export const eventRecorderMachine = s.createMachine({
  id: 'eventRecorder',
  context: ({ input }) => ({
    ...nothingRecorded,
    ...input,
    writing: [],
  }),
  on: {
    'event.recorded': { actions: handleEvent },
    'xstate.done.actor.*': { actions: reap },
    'xstate.error.actor.*': { actions: reap },
  },
});

/** The number of lists: together they hold as many entries as the caches of upstream's event correlator. */
const LISTS = 128;
const LENGTH_MAX = 32;

/**
 * One line of JSON per entry, newest last. A text, because each turn's digest serializes the whole list, which is
 * fastest for text.
 */
type List<Value> = string & { readonly value?: Value };
/**
 * Recent entries by key: bounded, and cheap to change by copying. Pure.
 *
 * Invariant: the hash of its key selects one of many short lists for an entry; adding one copies only that list, and a
 * full list drops its oldest entry.
 */
export type Recent<Value> = readonly List<Value>[];

export const noneRecent: Recent<never> = Array.from({ length: LISTS }, () => '');

const placeOf = (key: string): number => fnv1a32(key) % LISTS;

/** The index at which the line of a key begins in a list, or -1. Line feeds in texts are escaped. */
function startOf(list: List<unknown>, key: string): number {
  const start = `[${JSON.stringify(key)},`;
  if (list.startsWith(start)) return 0;
  return list.indexOf(`\n${start}`) + 1 || -1;
}

function endOf(list: List<unknown>, start: number): number {
  const end = list.indexOf('\n', start);
  return end === -1 ? list.length : end;
}

export function recentOf<Value>(recent: Recent<Value>, key: string): Value | undefined {
  const list = recent[placeOf(key)] ?? '';
  const start = startOf(list, key);
  if (start === -1) return undefined;
  return (JSON.parse(list.slice(start, endOf(list, start))) as [key: string, value: Value])[1];
}

export function withRecent<Value>(recent: Recent<Value>, key: string, value: Value): Recent<Value> {
  const place = placeOf(key);
  const others = othersOf(recent[place] ?? '', key);
  const line = JSON.stringify([key, value]);
  return recent.with(place, others === '' ? line : `${others}\n${line}`);
}

/** The other entries of the list, without the oldest ones that must make room. */
function othersOf(list: List<unknown>, key: string): string {
  const start = startOf(list, key);
  if (start === 0) return list.slice(endOf(list, 0) + 1);
  if (start > 0) return list.slice(0, start - 1) + list.slice(endOf(list, start));
  let count = list === '' ? 0 : 1;
  for (let at = list.indexOf('\n'); at !== -1; at = list.indexOf('\n', at + 1)) count++;
  return count < LENGTH_MAX ? list : list.slice(endOf(list, 0) + 1);
}

/**
 * As upstream's spam filter: tokens by source, object and type, so that warnings do not use up the tokens of normal
 * events.
 */
const SPAM_BURST = 25;
const SPAM_REFILL_MS = 300_000;
/** As upstream's aggregation: this many different messages under one reason are combined into one. */
const SIMILAR_MAX = 10;
const SIMILAR_WINDOW_MS = 600_000;

/** Tuples, because each checkpoint has thousands of them. */
type Tokens = readonly [left: number, atMs: number];
/** Hashes of different messages under one object and reason. */
type Similar = readonly [atMs: number, ...messages: readonly string[]];
/** Equal events so far. `serial` and `firstMs` are part of the Event object's name. */
type Counter = readonly [count: number, firstMs: number, serial: number];

interface Correlation {
  readonly tokens: Recent<Tokens>;
  readonly similar: Recent<Similar>;
  readonly counters: Recent<Counter>;
  /** Distinguishes the names of two events of the same millisecond. */
  readonly serial: number;
}

const nothingRecorded: Correlation = {
  tokens: noneRecent,
  similar: noneRecent,
  counters: noneRecent,
  serial: 0,
};

export interface Correlated {
  readonly count: number;
  /** Names the Event object in the API server, with {@link nameOf}. */
  readonly firstMs: number;
  readonly serial: number;
  readonly correlation: Correlation;
  readonly key: string;
  readonly message: string;
  /** The event stands for several different events. */
  readonly isCombined: boolean;
  /** The object of the event has used up its tokens, so the event is not published. */
  readonly isSpam: boolean;
}

function takeToken(tokens: Tokens | undefined, nowMs: number): { readonly isSpam: boolean; readonly tokens: Tokens } {
  const [left, atMs] = tokens ?? [SPAM_BURST, nowMs];
  const refilled = Math.min(SPAM_BURST, left + (nowMs - atMs) / SPAM_REFILL_MS);
  const isSpam = refilled < 1;
  return { isSpam, tokens: [isSpam ? refilled : refilled - 1, nowMs] };
}

/** A short hash keeps the counters small; a collision only shares a counter. */
const hashOf = (text: string): string => fnv1a32(text).toString(36);

/** Longest name of an object (RFC 1123). */
const NAME_MAX = 253;

/**
 * The name of the Event object in the API server: with nanoseconds since the epoch in hexadecimal, as upstream; if that
 * is too long, a UUID.
 */
function nameOf(name: string, nowMs: number, serial: number): string {
  const timed = `${name}.${(BigInt(nowMs) * 1_000_000n + BigInt(serial % 1_000_000)).toString(16)}`;
  return timed.length > NAME_MAX ? uuidOf(timed) : timed;
}

/** A UUID of version 8, from the hash of the text. */
function uuidOf(text: string): string {
  const words = ['a', 'b', 'c', 'd'].map((salt) =>
    fnv1a32(salt + text)
      .toString(16)
      .padStart(8, '0'),
  );
  const hex = words.join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
}

/** `ofEachType`: behavior `eventsOfEachType`. */
function correlate(before: Correlation, event: EventRecorded, nowMs: number, ofEachType: boolean): Correlated {
  const { ref, reason, eventType, message } = event;
  const object = hashOf(`${ref.kind}/${ref.namespace}/${ref.name}/${ref.uid}`);
  const tokenKey = ofEachType ? hashOf(`${object}/${eventType}`) : object;
  const spent = takeToken(recentOf(before.tokens, tokenKey), nowMs);
  const group = hashOf(`${object}/${eventType}/${reason}`);
  const [similarMs, ...known] = recentOf(before.similar, group) ?? [nowMs];
  const fresh = nowMs - similarMs < SIMILAR_WINDOW_MS ? known : [];
  const hash = hashOf(message);
  const messages = fresh.includes(hash) ? fresh : [...fresh, hash];
  const isCombined = messages.length >= SIMILAR_MAX;
  const key = isCombined ? group : `${group}-${hashOf(`${ref.fieldPath ?? ''}/${message}`)}`;
  const [counted, firstMs, serial] = recentOf(before.counters, key) ?? [0, nowMs, before.serial + 1];
  const count = counted + 1;
  return {
    count,
    firstMs,
    serial,
    key,
    message: isCombined ? `(combined from similar events): ${message}` : message,
    isCombined,
    isSpam: spent.isSpam,
    correlation: {
      tokens: withRecent(before.tokens, tokenKey, spent.tokens),
      // Upstream drops one entry of a full set, so that the remaining entries are still counted.
      similar: withRecent(before.similar, group, [nowMs, ...(isCombined ? messages.slice(1) : messages)]),
      counters: withRecent(before.counters, key, [count, firstMs, serial]),
      serial: before.serial + 1,
    },
  };
}
