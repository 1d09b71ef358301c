/**
 * Faults of the program itself, as the journal has them: one that nothing caught on the thread that decides, and a turn
 * that threw.
 */
import type { PlainError } from './json.ts';

/** From the process to the root machine, which ends the node. */
export type AgentFault = {
  readonly type: 'agent.faulted';
  readonly error: PlainError;
  /** The first frames of the stack where it was thrown. */
  readonly stack: readonly string[];
};

/** The line of a turn that threw; its field `err` says what. */
export const TURN_FAILED = 'a turn failed';

/** The phase that faults of the program name, where other failures name one of the start. */
export const AGENT_PHASE = 'agent';
