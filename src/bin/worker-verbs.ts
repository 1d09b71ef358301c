/** The verbs of processes that work for another one; people do not call them, so they are not listed. */
export const WORKER_VERBS = { replay: 'replay-worker', simulate: 'simulate-worker' } as const;
