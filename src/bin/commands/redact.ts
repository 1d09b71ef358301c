/** `statelet redact LOG --output FOLDER`: the same journal without private texts, for a bug report or a public CI. */
import { existsSync, readdirSync } from 'node:fs';
import { JournalError } from '../../kernel/journal/errors.ts';
import { openJournal } from '../../kernel/journal/open.ts';
import { type Journal, readJournal } from '../../kernel/journal/reader.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import { NotReplayable, replay } from '../../kernel/replay.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { journalAt, refuse } from '../insight/command.ts';
import { replayOptions } from '../insight/replayed.ts';
import { printable } from '../printable.ts';
import { isPrivate, mapTexts, Redactor, rewrite, visitTexts } from '../rewrite.ts';

export interface RedactOptions {
  readonly incarnation?: string;
  readonly output: string;
  readonly value?: readonly string[];
  readonly verify?: boolean;
}

export async function redactCommand(log: string, options: RedactOptions): Promise<number> {
  const { output, value = [], verify = true } = options;
  if (existsSync(output) && readdirSync(output).length > 0) {
    return refuse('redact', `${output} is not empty; --output is a new folder`, exitCodes.usage);
  }
  try {
    const journal = journalAt(log, options.incarnation);
    const obstacle = refusalOf(journal);
    if (obstacle !== undefined) return refuse('redact', `${log}: ${obstacle}`, exitCodes.divergence);
    const redactor = await redactInto(journal, output, value);
    const wrong = verify ? wrongWith(journal, readJournal(output), redactor) : undefined;
    if (wrong !== undefined) return refuse('redact', `${output}: ${wrong}`, exitCodes.divergence);
  } catch (thrown) {
    if (thrown instanceof JournalError) return refuse('redact', thrown.message, exitCodeOf(thrown));
    if (thrown instanceof NotReplayable) return refuse('redact', `${log}: ${thrown.message}`, exitCodes.invalidLog);
    throw thrown;
  }
  const verified = verify ? ': it replays, decides the same, and none of the private texts is in it' : '';
  process.stdout.write(printable(`${output}${verified}\n`));
  return exitCodes.same;
}

/** Writes a journal without private texts into a new folder. */
export async function redactInto(journal: Journal, output: string, value: readonly string[]): Promise<Redactor> {
  const redactor = new Redactor(value);
  for (const record of journal.records) if (isSource(record)) redactor.learn(record);
  await rewrite(journal, openJournal({ directory: output, durability: 'none' }), {
    header: (header) => redactor.redactInput(header),
    input: (record) => redactor.redactInput(record),
    onTurn: (logged, made) => redactor.learnRequests(logged, made),
  });
  return redactor;
}

/** Only these records bring texts into a journal. */
const isSource = ({ k }: JournalRecord): boolean => k === 'header' || k === 'in' || k === 'result';

export function refusalOf(journal: Journal): string | undefined {
  if (journal.checkpoint)
    return 'its first segments are gone; only a journal that begins with its start can be made anew';
  const { divergence } = replay(replayOptions(journal));
  return divergence ? `this build does not replay it from record ${divergence.n} on` : undefined;
}

/** Why the redacted journal cannot stand for the other one; `undefined` when it can. */
function wrongWith(before: Journal, after: Journal, redactor: Redactor): string | undefined {
  const { divergence } = replay({ ...replayOptions(after), strict: true });
  if (divergence) return `it does not replay from record ${divergence.n} on`;
  const redacted = after.records[Symbol.iterator]();
  for (const record of before.records) {
    const made = redacted.next().value as JournalRecord | undefined;
    if (!made) return `it ends before record ${record.n}`;
    if (decisionIn(redactor.redact(record)) !== decisionIn(made)) return `record ${record.n} decides something else`;
    const leak = leakIn(made, redactor);
    if (leak !== undefined) return `record ${record.n} still has a private text at ${leak}`;
  }
  return undefined;
}

/** The decision in a record, without private texts and texts derived from them. */
function decisionIn(record: JournalRecord): string {
  if (record.k === 'end') return `end ${record.turn} ${JSON.stringify(record.armed)}`;
  if (record.k === 'header') return 'header';
  return JSON.stringify(mapTexts(record, (text, keys) => (isPrivate(keys) || isDerived(keys) ? '' : text)));
}

/** Hashes of a pod's definition. */
const isDerived = (keys: readonly string[]): boolean => /hash/i.test(keys.at(-1) ?? '');

function leakIn(record: JournalRecord, redactor: Redactor): string | undefined {
  let found: string | undefined;
  visitTexts(record, (text, keys) => {
    if (redactor.isIn(text)) found ??= keys.join('.');
  });
  return found;
}
