/**
 * Work on file systems that are not the node's own and may never answer: network mounts, FUSE, whatever a pod has
 * mounted where others look.
 *
 * A call into one that hangs holds a thread until the kernel lets it go, and all file work of the agent shares the
 * threads of libuv. So these calls take only half of them, each has a time limit, and one that was given up is not
 * made again while it still hangs: a file system that does not answer costs one thread, however many ask for it.
 */
import pLimit from 'p-limit';
import { OperationError } from '../../kernel/json.ts';

/** The number of threads that libuv has by default. `bin/memory-limits.js` says more. */
const DEFAULT = 4;

/** As libuv reads `UV_THREADPOOL_SIZE`: a text that is no number counts as zero, and one thread is the least. */
function threads(): number {
  const given = process.env['UV_THREADPOOL_SIZE'];
  return given === undefined ? DEFAULT : Math.max(1, Number.parseInt(given, 10) || 0);
}

/**
 * The threads on which libuv does the file work and the name lookups of this process.
 *
 * So many of them, at least one: work that may hold them up leaves the others to what may not wait.
 */
export const shareOfThreads = (share: number): number => Math.max(1, Math.floor(threads() * share));

/** Calls that are under way at once. */
export const BOUNDED_CALLS_MAX = shareOfThreads(1 / 2);
/** A disk that is only slow has answered by then. */
const BOUNDED_CALL_TIMEOUT_MS = 5_000;

const slots = pLimit(BOUNDED_CALLS_MAX);
/** Calls that were abandoned and still hold a slot. */
const stuck = new Set<string>();

interface BoundedCallOptions<T> {
  readonly timeoutMs?: number;
  readonly dispose?: (late: T) => unknown;
}

/**
 * Makes a call that may never return. It is given up after a time limit; a result that comes later is handed to
 * `dispose`. While an abandoned call still hangs on the same path, or while such calls hold every slot, the next call
 * fails at once. `what` names the path in errors.
 */
export async function boundedCall<T>(
  what: string,
  work: () => Promise<T>,
  { timeoutMs = BOUNDED_CALL_TIMEOUT_MS, dispose = () => {} }: BoundedCallOptions<T> = {},
): Promise<T> {
  if (stuck.has(what)) throw unanswered(`${what} still does not answer`, 'EBUSY');
  if (stuck.size >= BOUNDED_CALLS_MAX)
    throw unanswered(`not looking at ${what}: other file systems do not answer`, 'EBUSY');
  const deadline = Promise.withResolvers<never>();
  let state: 'queued' | 'running' | 'given up' = 'queued';
  const timer = setTimeout(() => {
    const late = state;
    state = 'given up';
    if (late === 'running') {
      stuck.add(what);
      void done.then(dispose, () => {}).finally(() => stuck.delete(what));
    }
    deadline.reject(unanswered(`${what} did not answer within ${timeoutMs} ms`, 'ETIMEDOUT'));
  }, timeoutMs);
  const done = slots(async () => {
    if (state === 'given up') throw unanswered(`${what} was given up`, 'ETIMEDOUT');
    if (stuck.has(what)) throw unanswered(`${what} still does not answer`, 'EBUSY');
    state = 'running';
    return await work();
  });
  try {
    return await Promise.race([done, deadline.promise]);
  } finally {
    clearTimeout(timer);
  }
}

const unanswered = (message: string, code: string): OperationError =>
  new OperationError(message, { code, retriable: true });
