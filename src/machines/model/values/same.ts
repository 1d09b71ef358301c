/**
 * Whether two values have the same JSON. Pure.
 *
 * As comparing their texts, except for the order of keys; parts that both share are not compared.
 */
type Fields = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

export function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (!isObject(one) || !isObject(other) || Array.isArray(one) !== Array.isArray(other)) return false;
  if (Array.isArray(one))
    return one.length === (other as unknown[]).length && one.every((each, i) => isSame(each, (other as unknown[])[i]));
  return hasSameFields(one as Fields, other as Fields);
}

/** An undefined field counts as absent. */
function hasSameFields(one: Fields, other: Fields): boolean {
  for (const name in one) if (!isSame(one[name], other[name])) return false;
  for (const name in other) if (other[name] !== undefined && one[name] === undefined) return false;
  return true;
}
