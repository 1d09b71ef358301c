/** Resolves when the machine that asked has lost interest: at once when it has already, or after the time. */
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
