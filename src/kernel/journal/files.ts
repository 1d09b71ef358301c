/** Reading segments as chunks of bytes, plain or compressed. */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { zstdDecompressSync } from 'node:zlib';
import { codeOf, messageOf } from '../thrown.ts';
import { JournalError } from './errors.ts';

const CHUNK_BYTES = 1024 * 1024;
/**
 * A segment is closed at 16 MiB; a compressed file that expands to more than four times that was not written by
 * Statelet.
 */
const DECOMPRESSED_MAX_BYTES = 64 * 1024 * 1024;

/** A segment that is open for reading. */
export interface OpenSegment {
  readonly isCompressed: boolean;
  readonly chunks: Iterable<Buffer>;
}

/** Opens a segment, also if the daemon compressed it since it was listed. */
export function openSegment(path: string): OpenSegment {
  const isCompressed = path.endsWith('.zst');
  if (isCompressed) return { isCompressed, chunks: [decompressed(path)] };
  try {
    return { isCompressed, chunks: plainChunks(openSync(path, 'r'), path) };
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
    bytes = readFileSync(path);
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
