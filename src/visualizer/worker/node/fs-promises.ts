/**
 * The part of `node:fs/promises` that the journal's writer uses. In a browser nothing is written, so it is never
 * called.
 */
function neverWritten(): never {
  throw new Error('a journal is only read here');
}

export { neverWritten as open, neverWritten as rename, neverWritten as rm, neverWritten as stat };
