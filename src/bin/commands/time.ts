/**
 * Analyses the time of a start: `statelet time`, `statelet blame` and `statelet critical-chain`. Also compares two
 * starts: `statelet diff`.
 */
import { exitCodes } from '../exit-codes.ts';
import { blame, describeBlame } from '../insight/blame.ts';
import { describeFailed, type Failed, failedOf, isOfStart } from '../insight/causes.ts';
import { type InsightOptions, insight, startIsGone, storyAt } from '../insight/command.ts';
import { criticalChain, describeChain, goalOf } from '../insight/critical-chain.ts';
import { compare, describeComparison } from '../insight/diff.ts';
import { describeStartupTime, isStartReported, startupTime } from '../insight/startup-time.ts';
import type { Story } from '../insight/story.ts';

/** `statelet time JOURNAL`: how long starting took, phase by phase. */
export const timeCommand = (log: string, options: InsightOptions): number =>
  insight(
    'time',
    [log],
    options,
    (story) => {
      const gone = startIsGone(story);
      if (gone !== undefined) return gone;
      const time = startupTime(story);
      const failed = failedOf(story, isOfStart);
      return { json: { ...time, failed }, text: `${describeStartupTime(time)}${describeFailed(failed)}` };
    },
    (path, incarnation) => storyAt(path, incarnation, isStartReported),
  );

/** `statelet blame JOURNAL`: which operations cost the time. */
export const blameCommand = (log: string, options: InsightOptions): number =>
  insight('blame', [log], options, (story) => {
    const report = blame(story);
    const failed = failedOf(story, isOfStart);
    return { json: { ...report, failed }, text: `${describeBlame(report, story)}${describeFailed(failed)}` };
  });

/**
 * `statelet critical-chain JOURNAL [pod/NAME]`: the chain of causes before healthz answered, or before a pod was
 * Running.
 */
export const criticalChainCommand = (log: string, target: string | undefined, options: InsightOptions): number =>
  insight('critical-chain', [log], options, (story) => {
    const goal = goalOf(story, target);
    if (typeof goal === 'string') return goal;
    const chain = criticalChain(story, goal);
    return { json: chain, text: describeChain(chain) };
  });

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
          describeFailed(failed.a, 'Failed in a alone, and not made good since'),
          describeFailed(failed.b, 'Failed in b alone, and not made good since'),
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
