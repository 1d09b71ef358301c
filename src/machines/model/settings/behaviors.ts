/**
 * Which intentional changes of decisions a node applies. `behavior` is their number; it is part of the root machine's
 * input, and so of the journal, and a replay decides as that node did. If a decision reaches the world, the machine
 * keeps its old branch under a guard with `hasBehavior`.
 */
import { BEHAVIORS } from './behavior-table.ts';

export type Behavior = (typeof BEHAVIORS)[number]['name'];

/** The number of a node that starts now: it applies all changes. */
export const NEWEST_BEHAVIOR: number = BEHAVIORS.length;

/** A node, or a part of it, that may apply only some of the changes. */
export interface Decider {
  /** How many changes it applies: the first ones of {@link BEHAVIORS}. */
  readonly behavior: number;
}

const PLACES: ReadonlyMap<Behavior, number> = new Map(BEHAVIORS.map(({ name }, at) => [name, at]));

export const hasBehavior = ({ behavior }: Decider, name: Behavior): boolean =>
  (PLACES.get(name) ?? BEHAVIORS.length) < behavior;
