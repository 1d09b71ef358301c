/**
 * Reads and writes the files of a journal: segments as chunks of bytes, plain or compressed, and large values as blobs.
 *
 * A line has `{"$blob":"<sha256 of its JSON>","bytes":n}` instead.
 *
 * Invariants: a blob is literal: nothing inside it is a reference. A value from outside that looks like a reference is
 * stored as a blob itself, so a reader never resolves a reference that the journal did not write.
 */
import { hash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { codeOf, messageOf } from '../thrown.ts';
import type { LoadedBlob } from './decoder.ts';
import { JournalError } from './errors.ts';
import { BLOB_DIRECTORY } from './layout.ts';
import { BLOB } from './references.ts';
import { isTooDeep, NESTING_MAX } from './shape.ts';

const CHUNK_BYTES = 1024 * 1024;
/**
 * A segment is closed at 16 MiB; a compressed file that expands to more than four times that was not written by
 * Statelet.
 */
const DECOMPRESSED_MAX_BYTES = 64 * 1024 * 1024;

export interface OpenSegment {
  readonly isCompressed: boolean;
  readonly chunks: Iterable<Buffer>;
}

/**
 * Opens a regular file for reading, and refuses everything else. Reading a pipe can wait for ever for its writer. And a
 * pipe delivers its bytes once, but the first lines of a segment are read twice.
 */
export function openFile(path: string): number {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  if (fstatSync(descriptor).isFile()) return descriptor;
  closeSync(descriptor);
  throw new Error('it is no regular file; what a pipe delivers must be in a file first');
}

/** The bytes of a file, as {@link openFile} opens it. */
export function readWholeFile(path: string): Buffer {
  const descriptor = openFile(path);
  try {
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Opens a segment, also if the daemon compressed it since it was listed. */
export function openSegment(path: string): OpenSegment {
  const isCompressed = path.endsWith('.zst');
  if (isCompressed) return { isCompressed, chunks: [decompressed(path)] };
  try {
    return { isCompressed, chunks: plainChunks(openFile(path), path) };
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw unreadable(path, error);
    return { isCompressed: true, chunks: [decompressed(`${path}.zst`)] };
  }
}

function* plainChunks(descriptor: number, path: string): Generator<Buffer> {
  try {
    for (;;) {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      const bytes = readChunk(descriptor, chunk, path);
      if (bytes === 0) return;
      yield chunk.subarray(0, bytes);
    }
  } finally {
    closeSync(descriptor);
  }
}

function readChunk(descriptor: number, chunk: Buffer, path: string): number {
  try {
    return readSync(descriptor, chunk);
  } catch (error) {
    throw unreadable(path, error);
  }
}

function decompressed(path: string): Buffer {
  let bytes: Buffer;
  try {
    bytes = readWholeFile(path);
  } catch (error) {
    throw unreadable(path, error);
  }
  try {
    return zstdDecompressSync(bytes, { maxOutputLength: DECOMPRESSED_MAX_BYTES });
  } catch (error) {
    const isTooLarge = codeOf(error) === 'ERR_BUFFER_TOO_LARGE';
    const why = isTooLarge ? `it holds more than ${DECOMPRESSED_MAX_BYTES} bytes` : 'it cannot be decompressed';
    throw new JournalError('damaged', { file: path }, `${why} (${codeOf(error) ?? messageOf(error)})`, error);
  }
}

function unreadable(file: string, error: unknown): JournalError {
  const kind = codeOf(error) === 'ENOENT' ? 'missing' : 'unusable';
  return new JournalError(kind, { file }, `it cannot be read (${codeOf(error) ?? messageOf(error)})`, error);
}

const MARK = `"${BLOB}"`;
const SHA256 = /^[0-9a-f]{64}$/;

/** Reads a blob beside a segment; `segment` is named in the error. */
export function readBlob(directory: string, sha256: unknown, segment: string): LoadedBlob {
  if (typeof sha256 !== 'string' || !SHA256.test(sha256))
    throw new JournalError('damaged', { file: segment }, 'a blob has an impossible name');
  const file = join(directory, BLOB_DIRECTORY, sha256);
  let json: Buffer;
  try {
    json = readWholeFile(file);
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
