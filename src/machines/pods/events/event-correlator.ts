/**
 * What becomes of an event before anybody reads it: similar ones are told as one, equal ones are counted, and nobody
 * floods the others. Pure; bounds as upstream's correlator.
 */
import type { EventRecorded } from '../messages.ts';
import { fnv1a32 } from '../spec/hash.ts';

/** As upstream's spam filter: tokens by source and object. */
const SPAM_BURST = 25;
const SPAM_REFILL_MS = 300_000;
/** As upstream's aggregation: from this many different messages under one reason on, they are told as one. */
const SIMILAR_MAX = 10;
const SIMILAR_WINDOW_MS = 600_000;
/** Objects and reasons with counters; far more than a node has pods that say something at one time. */
const COUNTERS_MAX = 256;

interface Tokens {
  readonly left: number;
  readonly atMs: number;
}

interface Similar {
  /** Hashes of different messages under one object and reason. */
  readonly messages: readonly string[];
  readonly atMs: number;
}

/** Equal events so far. */
interface Counter {
  /** Of the Event object in the API server. */
  readonly name: string;
  readonly count: number;
  readonly firstMs: number;
}

/** By key, newest last. A list, for an object with hundreds of changing names is slow to copy. */
type Table<Value> = readonly (readonly [key: string, value: Value])[];

export interface Correlation {
  readonly tokens: Table<Tokens>;
  readonly similar: Table<Similar>;
  readonly counters: Table<Counter>;
  /** Makes names of two events of one millisecond different. */
  readonly serial: number;
}

export const nothingSaid: Correlation = { tokens: [], similar: [], counters: [], serial: 0 };

export interface Correlated extends Counter {
  readonly correlation: Correlation;
  /** Of the series. */
  readonly key: string;
  readonly message: string;
  /** Its object has said too much. */
  readonly isSpam: boolean;
}

function spend(tokens: Tokens | undefined, nowMs: number): { readonly isSpam: boolean; readonly tokens: Tokens } {
  const { left, atMs } = tokens ?? { left: SPAM_BURST, atMs: nowMs };
  const refilled = Math.min(SPAM_BURST, left + (nowMs - atMs) / SPAM_REFILL_MS);
  const isSpam = refilled < 1;
  return { isSpam, tokens: { left: isSpam ? refilled : refilled - 1, atMs: nowMs } };
}

/** A short hash keeps the counters small; two that collide share a counter, no more. */
const hashOf = (text: string): string => fnv1a32(text).toString(36);

const valueOf = <Value>(table: Table<Value>, key: string): Value | undefined =>
  table.find(([known]) => known === key)?.[1];

/** Sets one value; the oldest goes when there are too many. */
function put<Value>(table: Table<Value>, key: string, value: Value): Table<Value> {
  const others = table.filter(([known]) => known !== key);
  return [...others.slice(-COUNTERS_MAX + 1), [key, value]];
}

/** Of the name of any object (RFC 1123). */
const NAME_MAX = 253;

/** With nanoseconds since the epoch in hexadecimal, as upstream; where there is no room for them, a UUID. */
function nameOf(name: string, nowMs: number, serial: number): string {
  const timed = `${name}.${(BigInt(nowMs) * 1_000_000n + BigInt(serial % 1_000_000)).toString(16)}`;
  return timed.length > NAME_MAX ? uuidOf(timed) : timed;
}

/** Of version 8: the bits are the text's. */
function uuidOf(text: string): string {
  const words = ['a', 'b', 'c', 'd'].map((salt) =>
    fnv1a32(salt + text)
      .toString(16)
      .padStart(8, '0'),
  );
  const hex = words.join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
}

export function correlate(before: Correlation, event: EventRecorded, nowMs: number): Correlated {
  const { ref, reason, eventType, message } = event;
  const object = hashOf(`${ref.kind}/${ref.namespace}/${ref.name}/${ref.uid}`);
  const spent = spend(valueOf(before.tokens, object), nowMs);
  const group = hashOf(`${object}/${eventType}/${reason}`);
  const known = valueOf(before.similar, group);
  const fresh = known && nowMs - known.atMs < SIMILAR_WINDOW_MS ? known.messages : [];
  const hash = hashOf(message);
  const messages = fresh.includes(hash) ? fresh : [...fresh, hash].slice(-SIMILAR_MAX);
  const isCombined = messages.length >= SIMILAR_MAX;
  const key = isCombined ? group : `${group}-${hashOf(`${ref.fieldPath ?? ''}/${message}`)}`;
  const serial = before.serial + 1;
  const last = valueOf(before.counters, key) ?? { name: nameOf(ref.name, nowMs, serial), count: 0, firstMs: nowMs };
  const counter = { ...last, count: last.count + 1 };
  return {
    ...counter,
    key,
    message: isCombined ? `(combined from similar events): ${message}` : message,
    isSpam: spent.isSpam,
    correlation: {
      tokens: put(before.tokens, object, spent.tokens),
      similar: put(before.similar, group, { messages, atMs: nowMs }),
      counters: put(before.counters, key, counter),
      serial,
    },
  };
}
