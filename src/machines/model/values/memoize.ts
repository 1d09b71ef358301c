/**
 * Memoizes a function of an object for as long as the object lives. Pure.
 *
 * A pod that did not change is asked the same questions at every turn, once for each of its containers.
 * Invariant: values in a context are never changed, only replaced; so a memoized result stays true.
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
