/** Analyses the time of a start: `statelet time`, `statelet blame` and `statelet critical-chain`. */
import { blame, describeBlame } from '../insight/blame.ts';
import { describeFailed, failedOf, isOfStart } from '../insight/causes.ts';
import { type InsightOptions, insight, startIsGone, storyAt } from '../insight/command.ts';
import { criticalChain, describeChain, goalOf } from '../insight/critical-chain.ts';
import { describeStartupTime, isStartReported, startupTime } from '../insight/startup-time.ts';

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
