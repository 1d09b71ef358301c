/**
 * The end of an npm that started this process: npm does not pass a signal on, and leaves what it started behind.
 *
 * Only what npm started hears of it: a daemon that a shell started with `nohup` outlives that shell.
 */

/** How long a daemon may outlive its npm. */
const PERIOD_MS = 500;

/** Calls `ended` once when the parent is gone. `npm_command` is set in all that npm starts, by `npx` or a script. */
export function onNpmEnded(ended: () => void): void {
  if (process.env['npm_command'] === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    ended();
  }, PERIOD_MS).unref();
}
