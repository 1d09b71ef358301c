/**
 * The end of the process: when its work is done, together with the npm that started it, and after an uncaught error,
 * but not because its output is lost.
 *
 * A call to a name server or a file system that does not answer blocks its thread, and a process that exits waits for
 * its threads. So that a user who stops a node does not wait, the process is replaced after a moment by one that ends
 * at once.
 */
import { flushCompileCache } from 'node:module';
import { toPlainError } from '../kernel/json.ts';
import type { AgentFault } from '../kernel/records.ts';

/** Time for files and connections to close. */
const EXIT_TIMEOUT_MS = 1_000;

/** Returns the exit code. The process ends by itself, or is ended after a timeout. */
export function endSoon(exitCode: number): number {
  const replace = () => {
    // Listeners of a normal exit have to run here, because there is none.
    process.emit('exit', exitCode);
    flushCompileCache();
    process.execve?.('/bin/sh', ['sh', '-c', `exit ${exitCode}`]);
  };
  setTimeout(replace, EXIT_TIMEOUT_MS).unref();
  return exitCode;
}

/**
 * Text that an output does not take, because its disk is full or its reader is gone, is lost, and does not end the
 * process. What is written after that is taken again if there is room.
 */
export function outlive(...outputs: readonly NodeJS.WriteStream[]): void {
  for (const output of outputs) output.on('error', () => {});
}

/** How long a daemon may outlive its npm. */
const PERIOD_MS = 500;

/**
 * Calls `ended` once when the npm that started this process is gone: npm does not forward signals, and leaves its
 * children behind. `npm_command` is set in all children of npm, by `npx` or a script; a daemon started with `nohup`
 * from such a shell outlives the shell.
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

/** The exit code of a Go program that panics. */
const FAULT_EXIT_CODE = 2;
/** Time for the journal, the ports and the clients to close: any of them may be broken. */
const FAULT_EXIT_TIMEOUT_MS = 5_000;
/** Characters of an error, which may quote its input. */
const MESSAGE_MAX = 4_096;
const FRAMES_MAX = 8;

/**
 * Calls `report` at the first uncaught error on the main thread: the machines receive it as an input, so that it is in
 * the journal, and end the node. A second error, or an end that takes too long, ends the process.
 */
export function onFault(report: (fault: AgentFault) => void): void {
  let isEnding = false;
  process.on('uncaughtException', (thrown: unknown) => {
    process.stderr.write(`statelet: uncaught fault: ${textOf(thrown)}\n`);
    if (isEnding) process.exit(FAULT_EXIT_CODE);
    isEnding = true;
    setTimeout(() => process.exit(FAULT_EXIT_CODE), FAULT_EXIT_TIMEOUT_MS).unref();
    report(faultOf(thrown));
  });
}

function faultOf(thrown: unknown): AgentFault {
  const error = toPlainError(thrown);
  const frames = thrown instanceof Error ? (thrown.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line)) : [];
  return {
    type: 'agent.faulted',
    error: { ...error, message: error.message.slice(0, MESSAGE_MAX) },
    stack: frames.slice(0, FRAMES_MAX).map((frame) => frame.trim().slice(0, MESSAGE_MAX)),
  };
}

const textOf = (thrown: unknown): string =>
  (thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)).slice(0, MESSAGE_MAX);
