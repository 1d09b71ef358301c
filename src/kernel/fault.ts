/**
 * Faults of the program itself, as the journal records them: an uncaught error on the deciding thread, and a turn that
 * threw.
 */
import type { PlainError } from './json.ts';

/** Sent by the process to the root machine, which then ends the node. */
export type AgentFault = {
  readonly type: 'agent.faulted';
  readonly error: PlainError;
  /** The first frames of the stack trace. */
  readonly stack: readonly string[];
};

/** The log line of a turn that threw; its field `err` has the error. */
export const TURN_FAILED = 'a turn failed';

/** The phase that reports name for such faults; failures of the start name one of its own phases. */
export const AGENT_PHASE = 'agent';
