/**
 * The vocabulary of order: how a step of the start is recognised in the records of a journal. Pure.
 *
 * A step is what the journal shows of it: a message between two actors, a requested or answered operation, a log line,
 * or a state of a chart. States are recorded at the end of a turn, so a step that is shorter than a turn is recognised
 * by its effects.
 */

/** The part of a record that matters for the order. The kernel's `JournalRecord` has it. */
export interface Recorded {
  readonly n: number;
  readonly k: string;
  readonly at?: string;
  readonly from?: string;
  readonly to?: string;
  readonly name?: string;
  readonly text?: string;
  readonly value?: unknown;
  readonly event?: string | { readonly type: string };
}

interface Conditional {
  /** Why a start may lack this step; such a step must be in order only if it happens. */
  readonly only?: string;
}

/** `from` sent `to` an event of this type. `xstate.init` is the first message of an actor: it was started. */
interface Sent extends Conditional {
  readonly sent: string;
  readonly from: string;
  readonly to: string;
}
/** The request at this address (a child of the requesting actor) requested the operation. */
interface Asked extends Conditional {
  readonly asked: string;
  readonly at: string;
}
/** The operation requested at this address ended, successfully or not. */
interface Answered extends Conditional {
  readonly answered: string;
  readonly at: string;
}
interface Logged extends Conditional {
  readonly logged: string;
  readonly at: string;
}
/** The chart of the actor was in the state `in` (a path of names with dots) at the end of a turn. */
interface Entered extends Conditional {
  readonly in: string;
  readonly at: string;
}
export type Step = Sent | Asked | Answered | Logged | Entered;

const typeOf = ({ event }: Recorded): string | undefined => (typeof event === 'object' ? event.type : event);

/** True if the state value of a chart contains the path. */
function isIn(value: unknown, path: readonly string[]): boolean {
  const [first, ...rest] = path;
  if (first === undefined) return true;
  if (typeof value === 'string') return rest.length === 0 && value === first;
  if (typeof value !== 'object' || value === null) return false;
  return Object.hasOwn(value, first) && isIn((value as Record<string, unknown>)[first], rest);
}

export function isStep(step: Step, record: Recorded): boolean {
  if ('sent' in step) {
    const isMessage = record.k === 'message' && record.from === step.from && record.to === step.to;
    return isMessage && typeOf(record) === step.sent;
  }
  if (record.at !== step.at) return false;
  if ('asked' in step) return record.k === 'effect' && record.name === step.asked;
  if ('answered' in step) return record.k === 'result' && record.name === step.answered;
  if ('logged' in step) return record.k === 'log' && record.text === step.logged;
  return record.k === 'state' && isIn(record.value, step.in.split('.'));
}
