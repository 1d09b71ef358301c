/** Why a record happened, and what followed from it. Pure. */
import type { ShownRecord } from '../actors/server/visualizer/protocol.ts';

export interface Causes {
  /** From the first cause that is known to the record itself. */
  readonly chain: readonly ShownRecord[];
  /** The cause of the first of them, when the daemon has already forgotten it. */
  readonly forgotten: number | undefined;
  /** Numbers of what followed, directly or through others. */
  readonly effects: ReadonlySet<number>;
}

/** `records` rise by number; a cause is always smaller than what it caused, so one pass each way is enough. */
export function causesOf(records: readonly ShownRecord[], n: number): Causes {
  const byNumber = new Map(records.map((shown) => [shown.n, shown]));
  const chain: ShownRecord[] = [];
  let at: number | undefined = n;
  while (at !== undefined && byNumber.has(at)) {
    const shown: ShownRecord = byNumber.get(at) as ShownRecord;
    chain.unshift(shown);
    at = shown.cause;
  }
  const effects = new Set<number>();
  for (const shown of records)
    if (shown.cause !== undefined && (shown.cause === n || effects.has(shown.cause))) effects.add(shown.n);
  return { chain, forgotten: at, effects };
}
