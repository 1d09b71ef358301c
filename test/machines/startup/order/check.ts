/**
 * Compares the records of one start with the promises of the documents. Pure; an empty result means that every promise
 * is kept.
 *
 * A promise is about the first time of each of its steps: a subsystem that restarts later does not repeat them.
 */
import type { Promised } from './document.ts';
import { isStep, type Recorded, type Step } from './step.ts';
import { STEP_NAMES, STEPS, type StepName } from './steps.ts';

export interface Violation {
  readonly promise: Promised;
  /** The record of the step that must come first; `null` if it is missing. */
  readonly before: number | null;
  readonly after: number;
}

/** The number of the first record of each step. */
export function stepsTaken(records: Iterable<Recorded>): ReadonlyMap<StepName, number> {
  const taken = new Map<StepName, number>();
  for (const record of records) {
    for (const name of STEP_NAMES) if (!taken.has(name) && isStep(STEPS[name], record)) taken.set(name, record.n);
  }
  return taken;
}

/** Steps of a complete start of a standalone node that these records lack. */
export function missingSteps(records: Iterable<Recorded>): StepName[] {
  const taken = stepsTaken(records);
  return STEP_NAMES.filter((name) => (STEPS[name] as Step).only === undefined && !taken.has(name));
}

export function checkOrder(records: Iterable<Recorded>, promises: readonly Promised[]): Violation[] {
  const taken = stepsTaken(records);
  return promises.flatMap((promise) => {
    const after = taken.get(promise.after);
    if (after === undefined) return [];
    const before = taken.get(promise.before) ?? null;
    const mayBeAbsent = before === null && (STEPS[promise.before] as Step).only !== undefined;
    return mayBeAbsent || (before !== null && before < after) ? [] : [{ promise, before, after }];
  });
}
