/**
 * What the end of a child carries. XState types the events of `onDone` and `onError` at the transition only; an action
 * or guard with a name sees the union of all events, and takes the outcome from here.
 */
import type { PlainError } from './json.ts';

/** The error of an `onError` event. For transitions that only such events take. */
export const errorOf = (event: unknown): PlainError => (event as { error: PlainError }).error;

/** The same, for transitions that other events take as well. */
export const errorIn = (event: unknown): PlainError | undefined => (event as { error?: PlainError }).error;

/** The output of an `onDone` event. For transitions that only such events take. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows which operation it invoked
export const outputOf = <Output>(event: unknown): Output => (event as { output: Output }).output;
