/**
 * What a seed document promises: sequences of steps in its own order, and the steps it names that cannot be in a
 * journal of this node, each with the reason.
 */
import type { Step } from './step.ts';
import { STEPS, type StepName } from './steps.ts';

/** One promise: `before` comes before `after`, as this row of the documents says. */
export interface Promised {
  readonly before: StepName;
  readonly after: StepName;
  readonly row: string;
  readonly note: string;
}

/** Why a step of a document is in no journal of a standalone node. */
type Absence =
  /** It needs an API server. */
  | 'cluster'
  /** A server of this node that is not built yet. */
  | 'server'
  /** Something of pods that is not built yet. */
  | 'pods'
  /** Today's kubelet has it no more. */
  | 'removed'
  /** It is part of another step here, or no step at all. */
  | 'folded';

export interface NotHere {
  readonly step: string;
  readonly row: string;
  readonly why: Absence;
}

export interface OrderDocument {
  readonly key: 'A' | 'B' | 'C' | 'D' | 'E';
  readonly title: string;
  readonly promises: readonly Promised[];
  readonly notHere: readonly NotHere[];
}

/** A step in a sequence: its name, the row that asks for it, and what it means for the one before. */
export type Link = readonly [step: StepName, row: string, note: string];

const isConditional = (name: StepName): boolean => (STEPS[name] as Step).only !== undefined;

/**
 * Promises of a sequence: each step after the ones before it, back to the last that every boot has. So a boot without
 * the conditional steps is still held to the order of the others.
 */
export function inOrder(...links: readonly Link[]): Promised[] {
  return links.flatMap(([after, row, note], at) => {
    const promises: Promised[] = [];
    for (let i = at - 1; i >= 0; i--) {
      const before = links[i]![0];
      promises.push({ before, after, row, note });
      if (!isConditional(before)) break;
    }
    return promises;
  });
}
