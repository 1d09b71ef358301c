/** The threads on which libuv does the file work and the name lookups of this process. */

/** What libuv takes when nothing is said. `bin/lean-process.js` says more. */
const DEFAULT = 4;

/** As libuv reads `UV_THREADPOOL_SIZE`: what is no number counts for none, and one thread is the least. */
function threads(): number {
  const given = process.env['UV_THREADPOOL_SIZE'];
  return given === undefined ? DEFAULT : Math.max(1, Number.parseInt(given, 10) || 0);
}

/** So many of them, at least one: work that may hold them up leaves the others to what may not wait. */
export const shareOfThreads = (share: number): number => Math.max(1, Math.floor(threads() * share));
