/** `statelet blame JOURNAL`: which operations cost the time. */
import { blame, describeBlame } from '../insight/blame.ts';
import { type InsightOptions, insight } from '../insight/command.ts';
import { describeFailed, failedOf, isOfStart } from '../insight/why-failed.ts';

export const blameCommand = (log: string, options: InsightOptions): number =>
  insight('blame', [log], options, (story) => {
    const report = blame(story);
    const failed = failedOf(story, isOfStart);
    return { json: { ...report, failed }, text: `${describeBlame(report, story)}${describeFailed(failed)}` };
  });
