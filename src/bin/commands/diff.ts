/** `statelet diff A B`: two starts side by side. Exit status 0: same phases and decisions, 1: a difference. */
import { exitCodes } from '../exit-codes.ts';
import { type InsightOptions, insight, startIsGone, storyAt } from '../insight/command.ts';
import { compare, describeComparison } from '../insight/diff.ts';

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
      const report = compare(one, other);
      const code = report.same ? exitCodes.same : exitCodes.divergence;
      return { json: report, text: describeComparison(report), code };
    },
    (path, incarnation) => storyAt(path, incarnation, ({ moments }) => !options.whole && moments.size >= RECORDS_MAX),
  );
