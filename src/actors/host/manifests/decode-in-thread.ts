/**
 * Decodes documents without blocking the main thread: small ones directly, machine-written JSON with `JSON.parse`, all
 * others in a worker thread with a timeout.
 *
 * The parser takes one second for a mebibyte of YAML, and eight for a mebibyte of unclosed lists.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import pLimit from 'p-limit';
import type { Json } from '../../../kernel/json.ts';
import { PACKAGE_DIRECTORY } from '../../package-directory.ts';
import { DocumentError, decodeDocument, refuseProblem, writtenByProgram } from './document.ts';

/** The answer of the thread. */
export type Decoded = { readonly value: Json; readonly problem: string | null } | { readonly refusal: string };

/** Bytes of a document that is decoded directly: the worst one of this size takes about 50 ms. */
const SMALL_BYTES = 8 * 1_024;
/** Many times the duration of the largest accepted document. */
const DECODE_TIMEOUT_MS = 30_000;
/** MiB of the worker's heap; a document that needs more is rejected. */
const HEAP_MAX_MIB = 512;
/** One worker at a time: they are short-lived, and each has a heap. */
const inTurn = pLimit(1);
const THREAD =
  extname(import.meta.filename) === '.cjs'
    ? `${PACKAGE_DIRECTORY}/dist/document-thread.cjs`
    : `${import.meta.dirname}/document-thread.ts`;

/** As {@link decodeDocument}. @throws DocumentError for a document that cannot be decoded */
export async function decodeInThread(bytes: Uint8Array, onProblem = refuseProblem): Promise<Json> {
  if (bytes.length <= SMALL_BYTES) return decodeDocument(bytes, onProblem);
  const written = writtenByProgram(bytes);
  if (written !== null) return written;
  const decoded = await inTurn(() => decodedByThread(bytes));
  if ('refusal' in decoded) throw new DocumentError(decoded.refusal);
  if (decoded.problem !== null) onProblem(decoded.problem);
  return decoded.value;
}

function decodedByThread(bytes: Uint8Array): Promise<Decoded> {
  const worker = new Worker(THREAD, { workerData: bytes, resourceLimits: { maxOldGenerationSizeMb: HEAP_MAX_MIB } });
  return new Promise<Decoded>((resolve) => {
    const refuse = (refusal: string): void => resolve({ refusal });
    const timer = setTimeout(
      () => refuse(`it takes more than ${DECODE_TIMEOUT_MS / 1_000} s to decode`),
      DECODE_TIMEOUT_MS,
    );
    worker.once('message', resolve);
    worker.once('error', (error: Error) => refuse(`it cannot be decoded: ${error.message}`));
    worker.once('exit', () => {
      clearTimeout(timer);
      refuse('its decoding ended without a result');
    });
  }).finally(() => void worker.terminate());
}
