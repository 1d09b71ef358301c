/**
 * Delta debugging: the smallest part of a list that still fails, as far as leaving out one more item does not.
 *
 * Invariants: what is returned fails; items keep their order; nothing is tried after the deadline.
 */

/** The part of a subset that was needed to fail; undefined when it does not fail. */
export type Trial<T> = (subset: readonly T[]) => readonly T[] | undefined;

export interface Reduced<T> {
  readonly items: readonly T[];
  readonly trials: number;
  /** False: time was over before every single item had been left out in vain. */
  readonly isMinimal: boolean;
}

/** `groups`: items that belong together, tried as a whole first; an item may be in none (''). */
export function reduce<T>(
  failing: readonly T[],
  trial: Trial<T>,
  {
    groups = [],
    deadlineMs = Number.POSITIVE_INFINITY,
  }: { groups?: readonly ((item: T) => string)[]; deadlineMs?: number } = {},
): Reduced<T> {
  let items = failing;
  let trials = 0;
  const isOver = (): boolean => performance.now() >= deadlineMs;
  /** Whether the rest still fails without these items. */
  const without = (left: ReadonlySet<T>): boolean => {
    trials++;
    const needed = trial(items.filter((item) => !left.has(item)));
    if (needed) items = needed;
    return needed !== undefined;
  };
  for (const groupOf of groups) {
    for (const [name, members] of Map.groupBy(items, groupOf)) {
      if (name !== '' && !isOver()) without(new Set(members));
    }
  }
  for (let size = Math.ceil(items.length / 2); size >= 1 && !isOver(); ) {
    const hasShrunk = withoutChunks(size);
    size = size > 1 ? Math.floor(Math.min(size, items.length) / 2) : hasShrunk ? 1 : 0;
  }
  return { items, trials, isMinimal: !isOver() };

  /** From the end on: the last items depend on the earlier ones, and no item depends on them. */
  function withoutChunks(size: number): boolean {
    let hasShrunk = false;
    for (let end = items.length; end > 0 && !isOver(); end -= size) {
      const chunk = new Set(items.slice(Math.max(0, end - size), end));
      if (without(chunk)) {
        hasShrunk = true;
        end = Math.min(end, items.length + size);
      }
    }
    return hasShrunk;
  }
}
