/**
 * Large values, each stored once in a file under `blobs/`. A line has `{"$blob":"<sha256 of its JSON>","bytes":n}`
 * instead.
 *
 * Invariants: a blob is literal: nothing inside it is a reference. A value from outside that looks like a reference is
 * stored as a blob itself, so a reader never resolves a reference that the journal did not write.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf, messageOf } from '../thrown.ts';
import type { LoadedBlob } from './decoder.ts';
import { JournalError } from './errors.ts';
import { BLOB_DIRECTORY } from './layout.ts';
import { BLOB } from './references.ts';
import { isTooDeep, NESTING_MAX } from './shape.ts';

const MARK = `"${BLOB}"`;
const SHA256 = /^[0-9a-f]{64}$/;

/** Reads a blob beside a segment; `segment` is named in the error. */
export function readBlob(directory: string, sha256: unknown, segment: string): LoadedBlob {
  if (typeof sha256 !== 'string' || !SHA256.test(sha256))
    throw new JournalError('damaged', { file: segment }, 'a blob has an impossible name');
  const file = join(directory, BLOB_DIRECTORY, sha256);
  let json: Buffer;
  try {
    json = readFileSync(file);
  } catch (error) {
    throw new JournalError(
      'missing',
      { file },
      `the blob that ${segment} refers to cannot be read (${codeOf(error) ?? messageOf(error)})`,
    );
  }
  if (hash('sha256', json) !== sha256) {
    throw new JournalError('damaged', { file }, `the blob that ${segment} refers to is not what was written`);
  }
  if (isTooDeep(json)) throw new JournalError('damaged', { file }, `it is nested deeper than ${NESTING_MAX} levels`);
  return { value: JSON.parse(json.toString()), bytes: json.length };
}

/** The length of a blob's name in a line, up to the end of the hash: two chunks of a file must overlap by this much. */
export const BLOB_HANDLE_MAX_BYTES = MARK.length + 3 + 64;

/** The names of the blobs that a piece of a segment refers to. */
export function* blobNamesIn(bytes: Buffer): Generator<string> {
  const mark = `{${MARK}:"`;
  for (let at = bytes.indexOf(mark); at !== -1; at = bytes.indexOf(mark, at + mark.length)) {
    const name = bytes.toString('latin1', at + mark.length, at + mark.length + 64);
    if (SHA256.test(name)) yield name;
  }
}
