/**
 * The end of a process whose work is done.
 *
 * A call into a name server or a file system that does not answer holds its thread, and a process that exits waits for
 * its threads. Who stops the node does not: after a moment the process is replaced by one that ends at once.
 */
import { flushCompileCache } from 'node:module';

/** What files and connections that are being closed may take. */
const PATIENCE_MS = 1_000;

/** Gives the code back, with which the process ends: by itself when it can. */
export function leaveSoon(exitCode: number): number {
  const replace = () => {
    // As at an exit of its own, which does not come.
    process.emit('exit', exitCode);
    flushCompileCache();
    process.execve?.('/bin/sh', ['sh', '-c', `exit ${exitCode}`]);
  };
  setTimeout(replace, PATIENCE_MS).unref();
  return exitCode;
}
