/**
 * The memory of the daemon's process. It runs for months beside the pods of its node: what V8 and the C library set
 * aside for speed is memory that those could use.
 *
 * Both want to know before the process begins, so the process replaces itself once, with the same number, arguments and
 * files. That costs about 25 ms; `npm run bench -- --only rss` shows what it saves.
 */

/**
 * A small nursery, for turns are short and few of their values outlive them; one thread that collects; and nothing to
 * be gained by collecting the old before the program is loaded, all of which stays.
 */
const V8_FLAGS = [
  '--max-semi-space-size=2',
  '--optimize-for-size',
  '--single-threaded-gc',
  '--initial-old-space-size=32',
];
/**
 * One heap of the C library for all threads; each thread that reads a file would keep one of its own. And threads for
 * file systems and name servers that do not answer, beside those for all others.
 */
const ENVIRONMENT = { MALLOC_ARENA_MAX: '1', UV_THREADPOOL_SIZE: '16' };

/** Returns only in a process that has these settings; settings that were given win. */
export function becomeLean(): void {
  if (V8_FLAGS.every((flag) => process.execArgv.includes(flag))) return;
  const argv = [process.execPath, ...V8_FLAGS, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, argv, { ...ENVIRONMENT, ...process.env });
}
