/**
 * How the previous start ended, read from its own journal: in order, by a failure, by a fault, or without a final
 * record.
 */
import { JournalError } from '../../kernel/journal/index.ts';
import { segmentsIn } from '../../kernel/journal/layout.ts';
import { isDirectory, readJournal } from '../../kernel/journal/reader.ts';
import { ROOT, Story } from './story.ts';

export interface PreviousEnd {
  readonly incarnation: string;
  /** `silent`: the process was killed, ran out of memory, or its machine lost power. */
  readonly how: 'ended' | 'failed' | 'silent';
  /** The time of its last record, in milliseconds since the epoch. */
  readonly lastAt: number;
  readonly message?: string;
}

/** The end of the previous start in a journal's directory; `undefined` if there is none, or it cannot be read. */
export function previousEnd(path: string, incarnation: string): PreviousEnd | undefined {
  if (!isDirectory(path)) return undefined;
  const names = [...new Set(segmentsIn(path).map((segment) => segment.incarnation))];
  const before = names[names.indexOf(incarnation) - 1];
  if (before === undefined) return undefined;
  try {
    return endOf(new Story(readJournal(path, { incarnation: before, from: 'newest-checkpoint' })));
  } catch (error) {
    if (error instanceof JournalError) return undefined;
    throw error;
  }
}

function endOf({ header: { incarnation }, ended: lastAt, failure, actors }: Story): PreviousEnd {
  if (failure) return { incarnation, lastAt, how: 'failed', message: failure.message };
  return { incarnation, lastAt, how: actors.get(ROOT)?.status === 'active' ? 'silent' : 'ended' };
}

export function describePreviousEnd({ incarnation, how, lastAt, message }: PreviousEnd): string {
  const when = new Date(lastAt).toISOString();
  if (how === 'ended') return `The start before, ${incarnation}, ended in order at ${when}.\n`;
  if (how === 'failed') return `The start before, ${incarnation}, ended at ${when} by a failure: ${message}\n`;
  return `The start before, ${incarnation}, did not end in order: it was killed, ran out of memory, or its machine lost power after ${when}.\n`;
}
