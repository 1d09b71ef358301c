/**
 * Finds a member of a list by its name. Pure.
 *
 * A pod may have a thousand containers, each of which is looked up in the lists of all: the index of a long list is
 * kept with it.
 */
import { memoize } from './memoize.ts';

interface Named {
  readonly name: string;
}

/** Members from which on an index is made sooner than a list is searched. */
const LONG = 8;

const indexOf = memoize(
  (list: readonly Named[]): ReadonlyMap<string, Named> => new Map(list.toReversed().map((each) => [each.name, each])),
);

/** The first of this name. */
export function byName<T extends Named>(list: readonly T[], name: string): T | undefined {
  if (list.length < LONG) return list.find((each) => each.name === name);
  return indexOf(list).get(name) as T | undefined;
}
