/** Bounds caches and tables that are maps or sets: the oldest entries are dropped. */

interface Kept<Key> {
  readonly size: number;
  keys(): Iterable<Key>;
  delete(key: Key): boolean;
}

/** Drops the oldest entries until there are no more than `max`. */
export function keepNewest<Key>(kept: Kept<Key>, max: number): void {
  for (const key of kept.keys()) {
    if (kept.size <= max) return;
    kept.delete(key);
  }
}
