/**
 * The memory of the daemon's process. It runs for months beside the pods of its node, most of that time with nothing to
 * do: while it works it may take what makes it quick, at rest it gives back what V8 keeps for the next time
 * (`idle-collection.js`).
 *
 * V8 and the C library want to know before the process begins, so the process replaces itself once, with the same
 * number, arguments and files, before anything else is read. That costs about 25 ms; `npm run bench -- --only rss`
 * shows what it saves.
 */

/**
 * A nursery in which a turn's values die before they are moved out of it, but not the largest one, and of this size
 * from the first pod on: V8 would begin with a small one after each rest; one thread that collects; no collection of
 * the old before the program is loaded and the pods of a full node are known, all of which stays, and then whenever it
 * has grown by half, though the machine has more to give. A function is compiled once more when it was called often,
 * not soon, and a last time when it was called very often: a node's work comes in short batches, of whose CPU compiling
 * was a fifth. What a function met is noted from its first call on, not from its eighth: most of what a pod needs runs
 * a few times only, and finds members of objects again without a search.
 */
const V8_FLAGS = [
  '--min-semi-space-size=8',
  '--max-semi-space-size=8',
  '--single-threaded-gc',
  '--initial-old-space-size=192',
  '--heap-growing-percent=50',
  '--invocation-count-for-maglev=2000',
  '--invocation-count-for-turbofan=40000',
  '--no-lazy-feedback-allocation',
  '--expose-gc',
];
/**
 * One heap of the C library for all threads; each thread that reads a file would keep one of its own. And threads for
 * file systems and name servers that do not answer, beside those for all others.
 */
const ENVIRONMENT = { MALLOC_ARENA_MAX: '1', UV_THREADPOOL_SIZE: '16' };

/** Returns only in a process that has these settings; settings that were given win. */
export function limitMemory() {
  if (V8_FLAGS.every((flag) => process.execArgv.includes(flag))) return;
  const argv = [process.execPath, ...V8_FLAGS, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, argv, { ...ENVIRONMENT, ...process.env });
}
