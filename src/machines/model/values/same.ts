/**
 * Identity of values: whether two have the same JSON, and results that are kept for as long as an object lives. Pure.
 *
 * Whether two values have the same JSON.
 *
 * Like comparing their texts, except for the order of keys; shared parts are skipped.
 */
import { isObject } from '../../../kernel/xstate.ts';

/**
 * Memoizes a function of an object, such as the index of a list by name, for as long as the object lives. Pure.
 *
 * The same facts of an unchanged pod are needed at every turn, once for each of its containers.
 * Invariant: values in a context are never mutated, only replaced; so a memoized result stays valid.
 */
export function memoize<Key extends object, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, { readonly value: Value }>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found.value;
    const value = compute(key);
    known.set(key, { value });
    return value;
  };
}

interface Named {
  readonly name: string;
}

/** Lists of at least this length are indexed instead of searched. */
const LONG = 8;

const indexOf = memoize(
  (list: readonly Named[]): ReadonlyMap<string, Named> => new Map(list.toReversed().map((each) => [each.name, each])),
);

/**
 * Finds the first member of a list with this name. Pure.
 *
 * A pod may have a thousand containers, each looked up in several lists: a long list is indexed once.
 */
export function byName<T extends Named>(list: readonly T[], name: string): T | undefined {
  if (list.length < LONG) return list.find((each) => each.name === name);
  return indexOf(list).get(name) as T | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

export function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((each, i) => isSame(each, other[i]));
  return isObject(one) && isObject(other) && hasSameFields(one, other);
}

/** An undefined field counts as absent. */
function hasSameFields(one: Fields, other: Fields): boolean {
  for (const name in one) if (!isSame(one[name], other[name])) return false;
  for (const name in other) if (other[name] !== undefined && one[name] === undefined) return false;
  return true;
}
