/** Reading segments as chunks of bytes, plain or compressed. */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { zstdDecompressSync } from 'node:zlib';
import { codeOf, JournalError } from './errors.ts';

const CHUNK_BYTES = 1024 * 1024;
/** A segment is closed at 64 MiB; a compressed file that claims to hold more than twice that was not made here. */
const DECOMPRESSED_MAX_BYTES = 128 * 1024 * 1024;

/** The bytes of a segment. A file that the daemon has compressed since it was listed is found under its new name. */
export function* chunksOf(path: string): Generator<Buffer> {
  let descriptor: number;
  try {
    descriptor = openSync(path, 'r');
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || path.endsWith('.zst')) throw unreadable(path, error);
    yield decompressed(`${path}.zst`);
    return;
  }
  try {
    if (path.endsWith('.zst')) yield decompressed(path);
    else yield* plainChunks(descriptor, path);
  } finally {
    closeSync(descriptor);
  }
}

function* plainChunks(descriptor: number, path: string): Generator<Buffer> {
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    let bytes: number;
    try {
      bytes = readSync(descriptor, chunk);
    } catch (error) {
      throw unreadable(path, error);
    }
    if (bytes === 0) return;
    yield chunk.subarray(0, bytes);
  }
}

function decompressed(path: string): Buffer {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw unreadable(path, error);
  }
  try {
    return zstdDecompressSync(bytes, { maxOutputLength: DECOMPRESSED_MAX_BYTES });
  } catch (error) {
    const isTooLarge = codeOf(error) === 'ERR_BUFFER_TOO_LARGE';
    const why = isTooLarge ? `it holds more than ${DECOMPRESSED_MAX_BYTES} bytes` : 'it cannot be decompressed';
    throw new JournalError('damaged', { file: path }, `${why} (${codeOf(error)})`, error);
  }
}

function unreadable(file: string, error: unknown): JournalError {
  const kind = codeOf(error) === 'ENOENT' ? 'missing' : 'unusable';
  return new JournalError(kind, { file }, `it cannot be read (${codeOf(error)})`, error);
}
