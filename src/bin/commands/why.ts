/** `statelet why JOURNAL [startup|pod/NAME[/CONTAINER]|image/REFERENCE|actor/NAME]`: what it is doing, what it waits for, and what led there. */
import { wasAbandoned } from '../../kernel/journal/owner.ts';
import { replay } from '../../kernel/replay.ts';
import { exitCodes } from '../exit-codes.ts';
import { type InsightOptions, insight, journalAt, placeOf, refuse } from '../insight/command.ts';
import { previousEnd } from '../insight/previous-end.ts';
import { replayOptions } from '../insight/replayed.ts';
import { describeWhy, type KnownTimers, SUBJECT, why } from '../insight/why.ts';

export function whyCommand(log: string, subject: string, options: InsightOptions): number {
  if (!SUBJECT.test(subject)) {
    const reason = `${JSON.stringify(subject)} is not startup, pod/NAME, pod/NAME/CONTAINER, image/REFERENCE or actor/NAME`;
    return refuse('why', reason, exitCodes.usage);
  }
  return insight('why', [log], options, (story) => {
    const report = why(story, subject, timersAtTheEnd(log, options.incarnation));
    if (typeof report === 'string') return report;
    const previous = subject === 'startup' ? previousEnd(placeOf(log).path, report.incarnation) : undefined;
    const silent = report.endedMs === undefined && wasAbandoned(placeOf(log).path);
    const whole = {
      ...report,
      ...(previous ? { previous } : {}),
      ...(silent ? { silentMs: story.ended - story.started } : {}),
    };
    return { json: whole, text: describeWhy(whole) };
  });
}

/**
 * Armed timers are state, and state comes of replaying from the newest checkpoint; a journal whose checkpoint is
 * damaged, or that this build does not replay, has none to show.
 */
function timersAtTheEnd(log: string, incarnation: string | undefined): KnownTimers {
  try {
    const { divergence, kernel } = replay(replayOptions(journalAt(log, incarnation, 'newest-checkpoint')));
    return divergence ? undefined : kernel.timers.list();
  } catch {
    // A checkpoint of other charts can fail in as many ways as charts can differ; the journal itself was read already.
    return undefined;
  }
}
