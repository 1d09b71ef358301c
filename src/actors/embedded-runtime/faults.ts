/**
 * Injected faults: a file defines which calls are slow, fail, or succeed and then fail (the reply is lost).
 *
 *     { "<Method>": [{ "delayMs": 100, "error": { "code": "UNAVAILABLE", "message": "…" },
 *                      "times": 2, "afterSuccess": true }] }
 *
 * The first entry that still has `times` left applies (without `times`: always). With `afterSuccess` delay and error
 * come after the work. Invariants: the file is read again when it changed, and counters are reset; an invalid file
 * changes nothing, and is reported.
 */

import { readFileSync, statSync } from 'node:fs';
import { status } from '@grpc/grpc-js';
import { isObject } from '../../kernel/json.ts';
import { messageOf } from '../../kernel/thrown.ts';

/** Milliseconds: longer than any deadline that a node agent sets. */
const MAX_DELAY_MS = 3_600_000;

export interface Fault {
  readonly delayMs: number;
  readonly error: { readonly code: status; readonly message: string } | undefined;
  readonly afterSuccess: boolean;
}

interface Entry extends Fault {
  timesLeft: number;
}

export class Faults {
  readonly #file: string | undefined;
  readonly #report: (text: string) => void;
  #entries = new Map<string, Entry[]>();
  #readVersion = '';

  constructor(file: string | undefined, report: (text: string) => void) {
    this.#file = file;
    this.#report = report;
  }

  /** The fault of the next call of this method; consumes one use. */
  next(method: string): Fault | undefined {
    this.#refresh();
    const entry = this.#entries.get(method)?.find(({ timesLeft }) => timesLeft > 0);
    if (entry) entry.timesLeft -= 1;
    return entry;
  }

  #refresh(): void {
    if (this.#file === undefined) return;
    const found = statSync(this.#file, { bigint: true, throwIfNoEntry: false });
    const stamp = found ? `${found.ino} ${found.size} ${found.mtimeNs}` : '';
    if (stamp === this.#readVersion) return;
    this.#readVersion = stamp;
    try {
      this.#entries = found ? parseFaults(readFileSync(this.#file, 'utf8')) : new Map();
    } catch (thrown) {
      this.#report(`faults file ${this.#file} is ignored until it changes: ${messageOf(thrown)}`);
    }
  }
}

function parseFaults(text: string): Map<string, Entry[]> {
  const parsed: unknown = JSON.parse(text);
  if (!isObject(parsed)) throw new Error('it must be an object of lists by method');
  return new Map(
    Object.entries(parsed).map(([method, list]) => {
      if (!Array.isArray(list)) throw new Error(`${method} must be a list`);
      return [method, list.map((one, index) => parseEntry(one, `${method}[${index}]`))];
    }),
  );
}

function parseEntry(value: unknown, where: string): Entry {
  if (!isObject(value)) throw new Error(`${where} must be an object`);
  const { delayMs = 0, error, times = Number.POSITIVE_INFINITY, afterSuccess = false, ...rest } = value;
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) throw new Error(`${where} has an unknown field "${unknown}"`);
  if (typeof delayMs !== 'number' || delayMs < 0) throw new Error(`${where}.delayMs must be a number of milliseconds`);
  if (typeof times !== 'number' || times < 0) throw new Error(`${where}.times must be a count`);
  if (typeof afterSuccess !== 'boolean') throw new Error(`${where}.afterSuccess must be true or false`);
  return {
    delayMs: Math.min(delayMs, MAX_DELAY_MS),
    error: error === undefined ? undefined : parseError(error, `${where}.error`),
    timesLeft: times,
    afterSuccess,
  };
}

function parseError(value: unknown, where: string): Fault['error'] {
  if (!isObject(value)) throw new Error(`${where} must be an object with code and message`);
  const { code, message = 'injected fault' } = value;
  const number = ERROR_CODES.get(code);
  if (number === undefined) throw new Error(`${where}.code must be the name or number of a gRPC error`);
  return { code: number, message: String(message) };
}

/** gRPC codes by name and by number. */
const ERROR_CODES = new Map<unknown, status>(
  Object.values(status)
    .filter((code) => typeof code === 'number' && code !== status.OK)
    .flatMap((code) => [[code, code] as const, [status[code], code] as const]),
);
