/**
 * A fault that nothing catches on the thread that decides: the machines hear of it as of any input, so that the journal
 * has it, and end the node. What cannot be brought to an end in order ends at once.
 */
import type { AgentFault } from '../kernel/fault.ts';
import { toPlainError } from '../kernel/json.ts';

/** As of a Go program that panics. */
const EXIT_CODE = 2;
/** What closing the journal, the ports and the clients may take: they may be what is broken. */
const PATIENCE_MS = 5_000;
/** Characters: what is thrown may quote what it was given. */
const MESSAGE_MAX = 4_096;
const FRAMES_MAX = 8;

/** Calls `report` at the first fault; a second one, or an end that does not come, ends the process. */
export function onFault(report: (fault: AgentFault) => void): void {
  let isEnding = false;
  process.on('uncaughtException', (thrown: unknown) => {
    process.stderr.write(`statelet: uncaught fault: ${textOf(thrown)}\n`);
    if (isEnding) process.exit(EXIT_CODE);
    isEnding = true;
    setTimeout(() => process.exit(EXIT_CODE), PATIENCE_MS).unref();
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
