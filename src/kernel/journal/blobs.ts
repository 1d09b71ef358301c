/**
 * Big values, kept once: a value of more than {@link BLOB_MIN_LENGTH} characters of JSON inside `event`, `input`,
 * `output` or `value` becomes `{"$blob":"<sha256 of its JSON>","bytes":n}` in the line and a file under `blobs/`.
 *
 * Invariants:
 *   - a blob is literal: nothing inside it is resolved again;
 *   - what looks like a blob's name but came from outside (an object with the key `$blob`) is itself made a blob, so a
 *     reader never resolves what the journal did not write;
 *   - the finest values that are big on their own are taken, so that a changed status does not store its spec again.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf, JournalError } from './errors.ts';
import { BLOB_DIRECTORY } from './layout.ts';
import { isTooDeep, NESTING_MAX } from './shape.ts';

/** Below it, a file of its own costs more than it saves: few values of this length are written twice. */
const BLOB_MIN_LENGTH = 16 * 1024;
const MARK = '"$blob"';
const FIELDS = ['event', 'input', 'output', 'value'] as const;
const FIELD: ReadonlySet<string> = new Set(FIELDS);
const SHA256 = /^[0-9a-f]{64}$/;

type Store = (sha256: string, json: string) => void;
type Load = (sha256: string) => unknown;

const isBig = (json: string): boolean => json.length > BLOB_MIN_LENGTH;
/** Small records pay for one comparison and one search for a mark that is almost never there. */
export const mayNeedBlobs = (json: string): boolean => isBig(json) || json.includes(MARK);

/**
 * The JSON of a record with its big values given to `store`. A header stays whole: it makes a segment self-contained.
 */
export function withoutBigValues(json: string, store: Store): string {
  const record = JSON.parse(json) as Record<string, unknown>;
  if (record.k === 'header') return json;
  for (const field of FIELDS) {
    if (record[field] === undefined) continue;
    record[field] = field === 'event' ? shrinkEvent(record[field], store) : shrink(record[field], store);
  }
  return JSON.stringify(record);
}

/** An event keeps its type and its small fields in the line. */
function shrinkEvent(event: unknown, store: Store): unknown {
  if (!isObject(event) || isMarked(event)) return shrink(event, store);
  return Object.fromEntries(Object.entries(event).map(([key, value]) => [key, shrink(value, store)]));
}

function shrink(value: unknown, store: Store): unknown {
  const json = JSON.stringify(value);
  if (!mayNeedBlobs(json)) return value;
  if (!isObject(value)) return isBig(json) ? named(json, store) : value;
  if (isMarked(value)) return named(json, store);
  const parts = Object.values(value).map((part) => JSON.stringify(part));
  const own = json.length - parts.filter(isBig).reduce((sum, part) => sum + part.length, 0);
  if (isBig(json) && own > BLOB_MIN_LENGTH) return named(json, store);
  return mapValues(value, (part) => shrink(part, store));
}

function named(json: string, store: Store): { $blob: string; bytes: number } {
  const sha256 = hash('sha256', json);
  store(sha256, json);
  return { $blob: sha256, bytes: Buffer.byteLength(json) };
}

/** The record of a line with its blobs put back. */
export function withBigValues<R extends { readonly k: string }>(record: R, load: Load): R {
  if (record.k === 'header') return record;
  const held = Object.entries(record).map(([key, value]) => [key, FIELD.has(key) ? grow(value, load) : value]);
  return Object.fromEntries(held) as R;
}

function grow(value: unknown, load: Load): unknown {
  if (!isObject(value)) return value;
  if (isMarked(value)) return load(String((value as { $blob: unknown }).$blob));
  return mapValues(value, (part) => grow(part, load));
}

export const hasBlobs = (line: Buffer): boolean => line.includes(MARK);

/** Reads a blob beside a segment; `segment` is named in the error. */
export function readBlob(directory: string, sha256: string, segment: string): unknown {
  if (!SHA256.test(sha256)) throw new JournalError('damaged', { file: segment }, 'a blob has an impossible name');
  const file = join(directory, BLOB_DIRECTORY, sha256);
  let json: Buffer;
  try {
    json = readFileSync(file);
  } catch (error) {
    throw new JournalError('missing', { file }, `the blob that ${segment} refers to cannot be read (${codeOf(error)})`);
  }
  if (hash('sha256', json) !== sha256) {
    throw new JournalError('damaged', { file }, `the blob that ${segment} refers to is not what was written`);
  }
  if (isTooDeep(json)) throw new JournalError('damaged', { file }, `it is nested deeper than ${NESTING_MAX} levels`);
  return JSON.parse(json.toString());
}

/** A blob's name in a line, up to the end of the hash: what two chunks of a file must overlap by. */
export const BLOB_HANDLE_MAX_BYTES = MARK.length + 3 + 64;

/** The names of the blobs that a piece of a segment refers to. */
export function* blobNamesIn(bytes: Buffer): Generator<string> {
  const mark = `{${MARK}:"`;
  for (let at = bytes.indexOf(mark); at !== -1; at = bytes.indexOf(mark, at + mark.length)) {
    const name = bytes.toString('latin1', at + mark.length, at + mark.length + 64);
    if (SHA256.test(name)) yield name;
  }
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
const isMarked = (value: object): boolean => Object.hasOwn(value, '$blob');

/** Keeps a key named `__proto__` a key. */
function mapValues(value: object, map: (part: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map(map);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, map(part)]));
}
