/** `statelet time JOURNAL`: how long starting took, phase by phase. */
import { type InsightOptions, insight, startIsGone, storyAt } from '../insight/command.ts';
import { describeStartupTime, isStartReported, startupTime } from '../insight/startup-time.ts';
import { describeFailed, failedOf, isOfStart } from '../insight/why-failed.ts';

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
