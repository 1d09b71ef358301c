/**
 * The promises of a seed document: sequences of steps in its own order, and the steps that cannot be in a journal of
 * this node, each with the reason.
 */
import type { Step } from './step.ts';
import { STEPS, type StepName } from './steps.ts';

/** One promise: `before` comes before `after`, according to this row of the documents. */
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
  /** It belongs to a server of this node that is not built yet. */
  | 'server'
  /** It belongs to pods and is not built yet. */
  | 'pods'
  /** Today's kubelet does not have it any more. */
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

/** A step in a sequence: its name, its row in the documents, and its relation to the previous step. */
export type Link = readonly [step: StepName, row: string, note: string];

const isConditional = (name: StepName): boolean => (STEPS[name] as Step).only !== undefined;

/**
 * The promises of a sequence: each step comes after the previous ones, back to the last step that every start has. So a
 * start without conditional steps must still follow the order of the others.
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
