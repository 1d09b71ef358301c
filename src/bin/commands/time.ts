/** `statelet time JOURNAL`: how long starting took, phase by phase. */
import { type InsightOptions, insight } from '../insight/command.ts';
import { describeStartupTime, startupTime } from '../insight/startup-time.ts';

export const timeCommand = (log: string, options: InsightOptions): number =>
  insight('time', [log], options, (story) => {
    const time = startupTime(story);
    if (time.phases.length === 0) return 'the start of this incarnation is in segments that are gone';
    return { json: time, text: describeStartupTime(time) };
  });
