/**
 * Holds the records of one boot against what the documents promise. Pure; an empty answer means that every promise was
 * kept.
 *
 * A promise is judged at the first time of each of its steps: a subsystem that starts again later starts nothing over.
 */
import type { Promised } from './document.ts';
import { isStep, type Recorded, type Step } from './step.ts';
import { STEP_NAMES, STEPS, type StepName } from './steps.ts';

export interface Violation {
  readonly promise: Promised;
  /** Record of the step that must come first; `null` when it never came. */
  readonly before: number | null;
  readonly after: number;
}

/** The number of the record in which each step was first taken. */
export function stepsTaken(records: Iterable<Recorded>): ReadonlyMap<StepName, number> {
  const taken = new Map<StepName, number>();
  for (const record of records) {
    for (const name of STEP_NAMES) if (!taken.has(name) && isStep(STEPS[name], record)) taken.set(name, record.n);
  }
  return taken;
}

/** Steps that a complete boot of a standalone node must have taken and these records lack. */
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
