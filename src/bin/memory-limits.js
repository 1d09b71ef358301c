/**
 * The settings of V8 and the C library for the daemon's process. It runs for months beside the pods of its node, and is
 * idle most of that time. While it works, it may use memory to be fast; when it becomes idle, it returns memory to the
 * machine (`idle-collection.js`).
 *
 * V8 and the C library read these settings only when a process begins. So the process replaces itself once, with the
 * same process id, arguments and files, before it loads anything else. This takes about 25 ms; `npm run bench -- --only
 * rss` shows how much memory it saves.
 */

/** Flags of V8, each with its reason. */
const V8_FLAGS = [
  // Large enough that most values of a turn are dead before a collection of the young generation would move them to the
  // old one. The size is fixed, because V8 would begin with a small young generation after each idle time.
  '--min-semi-space-size=8',
  '--max-semi-space-size=8',
  // Without further threads for garbage collection, which would compete with the pods of the node.
  '--single-threaded-gc',
  // No full collection before the program is loaded and the pods of a full node are known: all of this stays.
  '--initial-old-space-size=192',
  // Then a full collection whenever the heap has grown by half, however much memory the machine has.
  '--heap-growing-percent=50',
  // The work of a node comes in short batches, and a fifth of their CPU was used for compiling. So a function is
  // optimized only after many calls, and by the last compiler only after very many.
  '--invocation-count-for-maglev=2000',
  '--invocation-count-for-turbofan=40000',
  // Collects type feedback from the first call of a function instead of the eighth: most code for a pod runs only a few
  // times, and is faster when it finds the members of objects by this feedback.
  '--no-lazy-feedback-allocation',
  // For `idle-collection.js`.
  '--expose-gc',
];
/**
 * One heap of the C library for all threads, because each thread that reads a file would keep a heap of its own. And
 * enough threads that some are left while file systems or name servers do not answer.
 */
const ENVIRONMENT = { MALLOC_ARENA_MAX: '1', UV_THREADPOOL_SIZE: '16' };

/** Returns only in a process that has these settings. Variables that the user has set take precedence. */
export function limitMemory() {
  if (V8_FLAGS.every((flag) => process.execArgv.includes(flag))) return;
  const argv = [process.execPath, ...V8_FLAGS, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, argv, { ...ENVIRONMENT, ...process.env });
}
