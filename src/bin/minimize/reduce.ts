/**
 * Delta debugging: finds a part of a list that still fails, but not with any one more item removed.
 *
 * Invariants: the result fails; items keep their order; nothing is tried after the deadline.
 */

/** The part of a subset that is needed for the failure; `undefined` if the subset does not fail. */
export type Trial<T> = (subset: readonly T[]) => readonly T[] | undefined;

export interface Reduced<T> {
  readonly items: readonly T[];
  readonly trials: number;
  /** False if the deadline passed before each single item was tried. */
  readonly isMinimal: boolean;
}

/** `groups`: items that are first tried together; '' for an item without group. */
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

  /** Begins at the end, because later items depend on earlier ones. */
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
