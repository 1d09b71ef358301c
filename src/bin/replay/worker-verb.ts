/** The verb of a process that replays logs for another one; people do not call it, so it is not listed. */
export const WORKER_VERB = 'replay-worker';
