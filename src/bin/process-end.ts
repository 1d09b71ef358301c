/**
 * How the process ends: at once when its work is done, and with the npm that started it.
 *
 * A call into a name server or a file system that does not answer holds its thread, and a process that exits waits for
 * its threads. Who stops the node does not: after a moment the process is replaced by one that ends at once.
 */
import { flushCompileCache } from 'node:module';

/** What files and connections that are being closed may take. */
const PATIENCE_MS = 1_000;

/** Gives the code back, with which the process ends: by itself when it can. */
export function endSoon(exitCode: number): number {
  const replace = () => {
    // As at an exit of its own, which does not come.
    process.emit('exit', exitCode);
    flushCompileCache();
    process.execve?.('/bin/sh', ['sh', '-c', `exit ${exitCode}`]);
  };
  setTimeout(replace, PATIENCE_MS).unref();
  return exitCode;
}

/** How long a daemon may outlive its npm. */
const PERIOD_MS = 500;

/**
 * Calls `ended` once when the npm that started this process is gone: npm does not pass a signal on, and leaves behind
 * what it started. `npm_command` is set in all that npm starts, by `npx` or a script; a daemon that a shell started
 * with `nohup` outlives that shell.
 */
export function onNpmEnded(ended: () => void): void {
  if (process.env['npm_command'] === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    ended();
  }, PERIOD_MS).unref();
}
