/**
 * Validates the shape of a journal's lines once, when they are read: a file with valid checksums may still be hostile.
 *
 * Invariants: a valid line has every field of its kind, with the declared type; nesting is at most {@link NESTING_MAX},
 * which recursive code can handle. The cost is linear.
 */

import { isObject } from '../json.ts';
import type { JournalLine } from '../records.ts';
import { isReadableFormat } from './upcast.ts';

/** The deepest event of a node has about twenty levels. */
export const NESTING_MAX = 400;

type Check = (value: unknown) => boolean;
type Fields = Readonly<Record<string, Check>>;

const text: Check = (value) => typeof value === 'string';
const count: Check = (value) => typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
const time: Check = (value) => Number.isFinite(value);
const any: Check = () => true;
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const oneOf =
  (...values: readonly string[]): Check =>
  (value) =>
    values.some((each) => each === value);
function fields(checks: Fields): Check {
  const each = Object.entries(checks);
  return (value) => {
    if (!isObject(value)) return false;
    for (const [name, check] of each) if (!check(value[name])) return false;
    return true;
  };
}
const texts: Check = (value) => isObject(value) && Object.values(value).every(text);

const event = fields({ type: text });
const error = fields({ message: text });
const BUILD = fields({ statelet: text, node: text, xstate: text, machines: texts });

const LINES: Readonly<Record<JournalLine['k'], Check>> = {
  header: fields({
    n: count,
    t: time,
    incarnation: text,
    seed: count,
    node: text,
    bootId: text,
    build: BUILD,
    input: any,
  }),
  in: fields({ n: count, t: time, to: text, event, via: text }),
  timer: fields({ n: count, t: time, id: count, at: text, event: text }),
  result: fields({ n: count, t: time, id: count, at: text, name: text, error: optional(error) }),
  message: fields({ n: count, from: text, to: text, event, cause: optional(count) }),
  effect: fields({ n: count, id: count, at: text, name: text, class: text, cause: optional(count) }),
  cancel: fields({ n: count, id: count }),
  log: fields({
    n: count,
    at: text,
    level: oneOf('debug', 'info', 'warn', 'error', 'fatal'),
    text,
    fields: optional(isObject),
  }),
  state: fields({
    n: count,
    at: text,
    status: optional(oneOf('done', 'error', 'stopped')),
    error: optional(error),
  }),
  end: fields({ n: count, turn: count, digest: text }),
  dropped: fields({ n: count, upto: count, why: text }),
  gap: fields({ n: count, upto: optional(count), why: text }),
  checkpoint: fields({ after: count, file: text, sha256: text, previous: optional(text) }),
  chain: fields({ upto: count, sha256: text }),
};

const CHECKS: ReadonlyMap<unknown, Check> = new Map(Object.entries(LINES));

/**
 * Whether the value is a line of a supported format. A header of another format is accepted whatever its other fields.
 */
export function isLine(value: unknown): value is JournalLine {
  const check = isObject(value) ? CHECKS.get(value['k']) : undefined;
  if (!isObject(value) || !check) return false;
  if (value['k'] === 'header' && !isReadableFormat(value['version'])) return count(value['version']);
  return check(value);
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

/** Whether a JSON text exceeds the nesting limit, in one pass over its bytes. */
export function isTooDeep(json: Buffer): boolean {
  // Each level needs two brackets.
  if (json.length < 2 * NESTING_MAX) return false;
  let depth = 0;
  let isText = false;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]!;
    if (isText) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) isText = false;
    } else if (byte === QUOTE) isText = true;
    else if (OPENING.has(byte) && ++depth > NESTING_MAX) return true;
    else if (CLOSING.has(byte)) depth--;
  }
  return false;
}
