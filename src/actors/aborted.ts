/** Resolves when the machine has cancelled the operation, or after the timeout. */
export function aborted(signal: AbortSignal, withinMs?: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = withinMs === undefined ? undefined : setTimeout(resolve, withinMs);
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    if (signal.aborted) done();
    else signal.addEventListener('abort', done, { once: true });
  });
}
