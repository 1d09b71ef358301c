/** The processes that `src/bin/process-pool.ts` starts. */

/** The verbs of these processes; users do not call them, so they are not listed. */
export const WORKER_VERBS = { replay: 'replay-worker', simulate: 'simulate-worker' } as const;

/** Performs one task after the other until the parent has gone. */
export function worker(perform: (task: never) => unknown): Promise<number> {
  // The parent may be gone: an answer that cannot be sent is no failure of this process.
  const ignore = (): void => undefined;
  process.on('message', (task: unknown) => {
    void Promise.resolve(perform(task as never)).then((answer) => process.send?.(answer, undefined, undefined, ignore));
  });
  return new Promise((resolve) => process.once('disconnect', () => resolve(0)));
}
