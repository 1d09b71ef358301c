/**
 * Shared code of the verbs that read a journal: output formats, reading, and an exit code for each reason why a journal
 * cannot be read.
 */
import { JournalError } from '../../kernel/journal/errors.ts';
import { incarnationId } from '../../kernel/journal/layout.ts';
import { isBeingWritten } from '../../kernel/journal/owner.ts';
import { type Journal, type ReadOptions, readJournal } from '../../kernel/journal/reader.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { printable, printableJson } from '../printable.ts';
import { type IsEnough, Story } from './story.ts';

export interface InsightOptions {
  readonly incarnation?: string;
  readonly format: string;
  /** Read the whole journal, however long that takes. */
  readonly whole?: boolean;
}

export interface Answer {
  readonly json: unknown;
  readonly text: string;
  /** Default: 0. */
  readonly code?: number;
}

/** The reason why a journal whose first segments were removed cannot show its start. */
export const startIsGone = ({ header, begins }: Story): string | undefined =>
  begins === 0
    ? undefined
    : `incarnation ${header.incarnation} began before record ${begins}, the first one that is left`;

/** Reads each journal and prints the answer about them. A string as the answer is the reason why there is none. */
export function insight(
  verb: string,
  logs: readonly string[],
  { format, incarnation }: InsightOptions,
  answer: (story: Story, other: Story) => Answer | string,
  read: (log: string, incarnation: string | undefined) => Story = storyAt,
): number {
  if (format !== 'text' && format !== 'json') {
    return refuse(verb, `--format is text or json, not ${JSON.stringify(format)}`, exitCodes.usage);
  }
  try {
    const [story, other] = logs.map((log) => read(log, incarnation));
    const given = answer(story!, other ?? story!);
    if (typeof given === 'string') return refuse(verb, given, exitCodes.expectationMissing);
    process.stdout.write(format === 'json' ? `${printableJson(given.json)}\n` : printable(given.text));
    return given.code ?? exitCodes.same;
  } catch (thrown) {
    if (!(thrown instanceof JournalError)) throw thrown;
    return refuse(verb, thrown.message, exitCodeOf(thrown));
  }
}

/** `DIR@3` is the third start in a journal, so that two starts of one node can be compared. */
const CHOSEN = /^(.+)@(\d+)$/;

/** The directory or segment of a journal, and the requested start. */
export function placeOf(log: string, incarnation?: string): { path: string; incarnation?: string } {
  const [, path = log, chosen = incarnation] = CHOSEN.exec(log) ?? [];
  return chosen === undefined ? { path } : { path, incarnation: /^\d+$/.test(chosen) ? incarnationId(chosen) : chosen };
}

export function journalAt(log: string, incarnation: string | undefined, from?: ReadOptions['from']): Journal {
  const { path, ...chosen } = placeOf(log, incarnation);
  return readJournal(path, { ...chosen, ...(from === undefined ? {} : { from }) });
}

/** Reads from the beginning until the story has everything that the report needs. */
export const storyAt = (log: string, incarnation: string | undefined, isEnough?: IsEnough): Story =>
  new Story(journalAt(log, incarnation), nowOf(log, incarnation), isEnough);

/** Reads only the last `segments` segments; also returns how many earlier ones were not read. */
export function endOfStoryAt(log: string, incarnation: string | undefined, segments: number): [Story, number] {
  const journal = journalAt(log, incarnation, segments);
  return [new Story(journal, nowOf(log, incarnation)), journal.skipped];
}

/** The current time if a daemon still writes the newest start of this directory; 0 for a start that has ended. */
const nowOf = (log: string, incarnation: string | undefined): number =>
  incarnation === undefined && isBeingWritten(log) ? Date.now() : 0;

export function refuse(verb: string, reason: string, code: number): number {
  process.stderr.write(printable(`statelet ${verb}: ${reason}\n`));
  return code;
}
