/** Serializes work by key: work with one key waits for earlier work with that key; a failure ends only itself. */

export type Serializer = <Answer>(key: string, work: () => Promise<Answer>) => Promise<Answer>;

export function serializer(): Serializer {
  const last = new Map<string, Promise<unknown>>();
  return async (key, work) => {
    const result = (last.get(key) ?? Promise.resolve()).then(work, work);
    last.set(key, result);
    try {
      return await result;
    } finally {
      if (last.get(key) === result) last.delete(key);
    }
  };
}
