/**
 * Keeps what was computed of a value with that value. Pure.
 *
 * Of a pod that did not change the same is asked at every turn, once for each of its containers.
 * Invariant: what is in a context is never changed, only replaced; so what was computed of it stays true.
 */
export function keptWith<Key extends object, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, { readonly value: Value }>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found.value;
    const value = compute(key);
    known.set(key, { value });
    return value;
  };
}
