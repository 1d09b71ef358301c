/**
 * The event recorder: what people read about pods and the node (`kubectl describe`), as log lines.
 *
 * Decides: what is too much. Owns: small counters by object.
 * Hears: `event.recorded` of everybody.
 * Invariants:
 *   E1 of one object at most {@link SPAM_BURST} events at once, then one every {@link SPAM_REFILL_MS}.
 *   E2 equal events are one with a count; ten similar ones within ten minutes become `(combined from similar events)`.
 *   E3 the counters are bounded: the longest unused one goes first.
 */
import { line, now, setup } from '../../kernel/xstate.ts';
import type { EventRecorded } from './messages.ts';
import { fnv1a32 } from './spec/hash.ts';

/** As upstream's spam filter: tokens by source and object. */
export const SPAM_BURST = 25;
export const SPAM_REFILL_MS = 300_000;
/** As upstream's aggregation: more different messages than this under one reason are told as one. */
export const SIMILAR_MAX = 10;
const SIMILAR_WINDOW_MS = 600_000;
/** Objects and reasons with counters; far more than a node has pods. */
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

interface Context {
  readonly tokens: Readonly<Record<string, Tokens>>;
  readonly similar: Readonly<Record<string, Similar>>;
  readonly counts: Readonly<Record<string, number>>;
}

const s = setup({ types: { context: {} as Context, events: {} as EventRecorded } });

const SPARE = { left: SPAM_BURST, atMs: 0 };

function spend(tokens: Tokens | undefined, nowMs: number): Tokens | null {
  const { left, atMs } = tokens ?? { ...SPARE, atMs: nowMs };
  const refilled = Math.min(SPAM_BURST, left + (nowMs - atMs) / SPAM_REFILL_MS);
  return refilled < 1 ? null : { left: refilled - 1, atMs: nowMs };
}

/** A short hash keeps the counters small; two that collide share a counter, no more. */
const hashOf = (text: string): string => fnv1a32(text).toString(36);

/** Sets one counter, newest last; the oldest goes when there are too many. */
function put<Value>(table: Readonly<Record<string, Value>>, key: string, value: Value): Record<string, Value> {
  const { [key]: _old, ...rest } = table;
  const entries = Object.entries({ ...rest, [key]: value });
  return Object.fromEntries(entries.slice(-COUNTERS_MAX));
}

const take = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const nowMs = now(args);
  const { ref, reason, eventType, message } = event;
  const object = hashOf(`${ref.kind}/${ref.namespace}/${ref.name}/${ref.uid}`);
  const tokens = spend(context.tokens[object], nowMs);
  if (tokens === null) return;
  const group = hashOf(`${object}/${ref.fieldPath ?? ''}/${eventType}/${reason}`);
  const before = context.similar[group];
  const fresh = before && nowMs - before.atMs < SIMILAR_WINDOW_MS ? before.messages : [];
  const hash = hashOf(message);
  const messages = fresh.includes(hash) ? fresh : [...fresh, hash].slice(-SIMILAR_MAX - 1);
  const isCombined = messages.length > SIMILAR_MAX;
  const key = isCombined ? group : `${group}/${hash}`;
  const count = (context.counts[key] ?? 0) + 1;
  enqueue.assign({
    tokens: put(context.tokens, object, tokens),
    similar: put(context.similar, group, { messages, atMs: nowMs }),
    counts: put(context.counts, key, count),
  });
  const fields = {
    object: ref.namespace === '' ? ref.name : `${ref.namespace}/${ref.name}`,
    kind: ref.kind,
    ...(ref.fieldPath === undefined ? {} : { fieldPath: ref.fieldPath }),
    type: eventType,
    reason,
    message: isCombined ? `(combined from similar events): ${message}` : message,
    ...(count > 1 ? { count } : {}),
  };
  enqueue(line('info', ['Event occurred', fields]));
});

export const eventRecorderMachine = s.createMachine({
  id: 'eventRecorder',
  context: { tokens: {}, similar: {}, counts: {} },
  on: { 'event.recorded': { actions: take } },
});
