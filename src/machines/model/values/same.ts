/**
 * Whether two values have the same JSON. Pure.
 *
 * Like comparing their texts, except for the order of keys; shared parts are skipped.
 */
import { isObject } from '../../../kernel/xstate.ts';

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
