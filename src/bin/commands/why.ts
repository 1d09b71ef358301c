/**
 * `statelet why JOURNAL [startup|pod/NAME[/CONTAINER]|image/REFERENCE|actor/NAME]`: the state of the subject, what it
 * waits for, and the causes.
 */
import { wasAbandoned } from '../../kernel/journal/owner.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import { replay } from '../../kernel/replay.ts';
import { exitCodes } from '../exit-codes.ts';
import { previousEnd } from '../insight/causes.ts';
import { endOfStoryAt, type InsightOptions, insight, journalAt, placeOf, refuse, storyAt } from '../insight/command.ts';
import { replayOptions } from '../insight/replayed.ts';
import type { Story } from '../insight/story.ts';
import { describeWhy, type KnownTimers, SUBJECT, why } from '../insight/why.ts';

/** Segments at the end that are read first, then more if they lack the subject: a second each. */
const SEGMENTS = [1, 4] as const;
/** How long timers are searched for without `--whole`. */
const TIMERS_MAX_MS = 2_000;

export function whyCommand(log: string, subject: string, options: InsightOptions): number {
  if (!SUBJECT.test(subject)) {
    const reason = `${JSON.stringify(subject)} is not startup, pod/NAME, pod/NAME/CONTAINER, image/REFERENCE or actor/NAME`;
    return refuse('why', reason, exitCodes.usage);
  }
  const { whole = false } = options;
  let skipped = 0;
  const read = (path: string, incarnation: string | undefined): Story => {
    for (const segments of whole ? [] : SEGMENTS) {
      const [story, before] = endOfStoryAt(path, incarnation, segments);
      skipped = before;
      if (before === 0 || isKnown(story, subject)) return story;
    }
    skipped = 0;
    return storyAt(path, incarnation);
  };
  const answer = (story: Story) => {
    const report = why(story, subject, timersAtTheEnd(log, options.incarnation, whole));
    if (typeof report === 'string') return report;
    const previous = subject === 'startup' ? previousEnd(placeOf(log).path, report.incarnation) : undefined;
    const silent = report.endedMs === undefined && wasAbandoned(placeOf(log).path);
    const all = {
      ...report,
      ...(previous ? { previous } : {}),
      ...(silent ? { silentMs: story.ended - story.started } : {}),
      ...(skipped > 0 ? { isPart: true } : {}),
    };
    return { json: all, text: describeWhy(all) };
  };
  return insight('why', [log], options, answer, read);
}

/** Whether the read part of the journal has decisions about the subject; `startup` needs none. */
function isKnown(story: Story, subject: string): boolean {
  const report = why(story, subject, undefined);
  return typeof report !== 'string' && (subject === 'startup' || report.decisions.length > 0);
}

/**
 * The timers at the end of the journal, from a replay of its newest checkpoint; `undefined` if the checkpoint is
 * damaged or this build cannot replay it.
 */
function timersAtTheEnd(log: string, incarnation: string | undefined, mayWait: boolean): KnownTimers {
  try {
    const journal = journalAt(log, incarnation, 'newest-checkpoint');
    const records = mayWait ? journal.records : withinTime(journal.records);
    const { divergence, kernel } = replay(replayOptions(journal, records));
    return divergence ? undefined : kernel.timers.list();
  } catch {
    // The journal was readable, so any error here comes from a checkpoint of other charts.
    return undefined;
  }
}

function* withinTime(records: Iterable<JournalRecord>): Generator<JournalRecord> {
  const end = performance.now() + TIMERS_MAX_MS;
  for (const record of records) {
    if (performance.now() > end) throw new Error(`the replay takes more than ${TIMERS_MAX_MS} ms`);
    yield record;
  }
}
