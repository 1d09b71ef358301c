/** `statelet blame JOURNAL`: which operations cost the time. */
import { blame, describeBlame } from '../insight/blame.ts';
import { type InsightOptions, insight } from '../insight/command.ts';

export const blameCommand = (log: string, options: InsightOptions): number =>
  insight('blame', [log], options, (story) => {
    const report = blame(story);
    return { json: report, text: describeBlame(report, story) };
  });
