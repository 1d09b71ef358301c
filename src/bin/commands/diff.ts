/** `statelet diff A B`: two starts side by side. Exit status 0: same phases and decisions, 1: a difference. */
import { exitCodes } from '../exit-codes.ts';
import { describeFailed, type Failed, failedOf, isOfStart } from '../insight/causes.ts';
import { type InsightOptions, insight, startIsGone, storyAt } from '../insight/command.ts';
import { compare, describeComparison } from '../insight/diff.ts';
import type { Story } from '../insight/story.ts';

/** Records of each start that are compared without `--whole`: the start of a full node twice over. */
const RECORDS_MAX = 25_000;

export const diffCommand = (a: string, b: string, options: InsightOptions): number =>
  insight(
    'diff',
    [a, b],
    options,
    (one, other) => {
      const gone = startIsGone(one) ?? startIsGone(other);
      if (gone !== undefined) return gone;
      const compared = compare(one, other);
      const failed = failedAlone(one, other);
      const same = compared.same && failed.a.length + failed.b.length === 0;
      return {
        json: { ...compared, same, failed },
        text: [
          describeComparison({ ...compared, same }),
          describeFailed(failed.a, 'Failed only in a, and not resolved since'),
          describeFailed(failed.b, 'Failed only in b, and not resolved since'),
        ].join(''),
        code: same ? exitCodes.same : exitCodes.divergence,
      };
    },
    (path, incarnation) => storyAt(path, incarnation, ({ moments }) => !options.whole && moments.size >= RECORDS_MAX),
  );

/**
 * Operations of the supervisor and its subsystems that failed in only one of the starts. None are listed against
 * a start that failed, because that one did not reach all operations.
 */
function failedAlone(one: Story, other: Story): Readonly<Record<'a' | 'b', readonly Failed[]>> {
  const [a, b] = [failedOf(one, isOfStart), failedOf(other, isOfStart)];
  const name = ({ actor, operation }: Failed): string => `${actor} ${operation}`;
  const without = (some: readonly Failed[], others: readonly Failed[]): readonly Failed[] => {
    const known = new Set(others.map(name));
    return some.filter((failed) => !known.has(name(failed)));
  };
  return { a: other.failure ? [] : without(a, b), b: one.failure ? [] : without(b, a) };
}
