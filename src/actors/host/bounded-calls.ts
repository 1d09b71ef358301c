/**
 * Calls on file systems that are not the node's own and may hang: network mounts, FUSE, mounts made by pods.
 *
 * A hanging call blocks a thread until the kernel returns, and all file operations of the agent share libuv's threads.
 * Therefore these calls use at most half of the threads, each has a timeout, and an abandoned call is not repeated
 * while it still hangs: a hanging file system occupies one thread, however many callers it has.
 */
import pLimit from 'p-limit';
import { OperationError } from '../../kernel/json.ts';

/** libuv's default number of threads; see `bin/memory-limits.js`. */
const DEFAULT = 4;

/** As libuv reads `UV_THREADPOOL_SIZE`: text that is no number counts as zero, and the minimum is one. */
function threads(): number {
  const given = process.env['UV_THREADPOOL_SIZE'];
  return given === undefined ? DEFAULT : Math.max(1, Number.parseInt(given, 10) || 0);
}

/**
 * A number of libuv's threads, which do the file operations and name lookups of this process.
 *
 * It is at least one. Work that may block threads uses only this share and leaves the others to urgent calls.
 */
export const shareOfThreads = (share: number): number => Math.max(1, Math.floor(threads() * share));

export const BOUNDED_CALLS_MAX = shareOfThreads(1 / 2);
/** The timeout of a call; a slow disk that does not hang answers earlier. */
const BOUNDED_CALL_TIMEOUT_MS = 5_000;

const slots = pLimit(BOUNDED_CALLS_MAX);
/** Abandoned calls that still hold a slot. */
const stuck = new Set<string>();

interface BoundedCallOptions<T> {
  readonly timeoutMs?: number;
  readonly dispose?: (late: T) => unknown;
}

/**
 * Makes a call that may hang. It is abandoned after a timeout; a late result goes to `dispose`. While an abandoned call
 * hangs on the same path, or abandoned calls hold every slot, the next call fails at once. `what` names the path in
 * errors.
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
  let hasEnded = false;
  const giveUp = () => {
    if (hasEnded) return;
    const late = state;
    state = 'given up';
    if (late === 'running') {
      stuck.add(what);
      void done.then(dispose, () => {}).finally(() => stuck.delete(what));
    }
    deadline.reject(unanswered(`${what} did not answer within ${timeoutMs} ms`, 'ETIMEDOUT'));
  };
  // Answers that came while this process was busy are taken before anything is given up.
  const timer = setTimeout(() => setImmediate(giveUp), timeoutMs);
  const done = slots(async () => {
    if (state === 'given up') throw unanswered(`${what} was given up`, 'ETIMEDOUT');
    if (stuck.has(what)) throw unanswered(`${what} still does not answer`, 'EBUSY');
    state = 'running';
    return await work();
  });
  try {
    return await Promise.race([done, deadline.promise]);
  } finally {
    hasEnded = true;
    clearTimeout(timer);
  }
}

const unanswered = (message: string, code: string): OperationError =>
  new OperationError(message, { code, retriable: true });
