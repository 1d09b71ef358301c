/** The program of the thread that decodes one large document; see `decode-in-thread.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Decoded } from './decode-in-thread.ts';
import { DocumentError, decodeDocument } from './document.ts';

function decoded(bytes: Uint8Array): Decoded {
  try {
    let problem: string | null = null;
    const value = decodeDocument(bytes, (found) => (problem = found));
    return { value, problem };
  } catch (error) {
    if (error instanceof DocumentError) return { refusal: error.message };
    throw error;
  }
}

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- applies to windows; this is a worker thread
parentPort?.postMessage(decoded(workerData as Uint8Array));
