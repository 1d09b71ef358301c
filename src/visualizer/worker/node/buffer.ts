/** Node's `Buffer` for code that runs in a browser: the bundler puts it where that name stands. */
import { Buffer } from 'buffer/';

export { Buffer };

/** The same bytes, not a copy. */
export const bufferOf = (bytes: Uint8Array): Buffer =>
  Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
