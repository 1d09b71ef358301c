/** What the journal's writer uses of `node:fs/promises`. In a browser nothing is written: the calls are never made. */
function neverWritten(): never {
  throw new Error('a journal is only read here');
}

export { neverWritten as open, neverWritten as rename, neverWritten as rm, neverWritten as stat };
