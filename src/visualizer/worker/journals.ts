/** The part of the worker that reads journals and reports on them. It is loaded when a journal is opened. */
import { Story } from '../../bin/insight/story.ts';
import { isSegmentName, segmentsIn } from '../../kernel/journal/layout.ts';
import { type Journal, readJournal } from '../../kernel/journal/reader.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import { type Content, putFiles } from './node/fs.ts';
import { Reading } from './reading.ts';
import { START_RECORDS_MAX } from './record-pages.ts';
import { type Comparison, comparison, type StartView, startView, startViewOf } from './reports.ts';
import type { Other } from './requests.ts';

/** The limit of bytes of all files: twice the size that a node keeps of its journal. */
const JOURNAL_MAX_BYTES = 2 * 1024 * 1024 * 1024;
const FILES_MAX = 10_000;
/** The folders of the journal that the page shows, and of the one that it is compared with. */
const [SHOWN, OTHER] = ['/shown', '/other'];

export interface OpenedJournal {
  readonly journal: Journal;
  readonly reading: Reading;
  /** The starts that it has, the oldest first. */
  readonly incarnations: readonly string[];
  /** What is known of the start so far. */
  readonly start: () => StartView;
}

/** Throws a `JournalError`, or the reason why the files cannot be opened as a journal. */
export function openJournal(files: ReadonlyMap<string, Content>, incarnation?: string): OpenedJournal {
  const journal = put(SHOWN, files, incarnation);
  const incarnations = [...new Set(segmentsIn(SHOWN).map((segment) => segment.incarnation))];
  const { story, take } = storyOf(journal);
  return { journal, reading: new Reading(journal, take), incarnations, start: () => startViewOf(story) };
}

/** The start as far as the journal has been read. */
function storyOf(journal: Journal) {
  const { header, checkpoint } = journal;
  const checkpointAfter = (n: number) => journal.checkpointAfter(n);
  const story = new Story({ header, checkpoint, checkpointAfter, records: [] });
  let [count, isOver] = [0, false];
  const take = (record: JournalRecord): void => {
    if (isOver) return;
    story.take(record);
    isOver = ++count >= START_RECORDS_MAX && record.k === 'end';
  };
  return { story, take };
}

function put(folder: string, files: ReadonlyMap<string, Content>, incarnation: string | undefined): Journal {
  putFiles(folder, inOneFolder(files));
  return readJournal(folder, incarnation === undefined ? {} : { incarnation });
}

/** The files of a journal by their names in it, whichever folder the user opened. */
function inOneFolder(files: ReadonlyMap<string, Content>): ReadonlyMap<string, Content> {
  if (files.size > FILES_MAX) throw new Error(`${files.size} files; a journal has at most ${FILES_MAX}`);
  const found = new Map<string, Content>();
  const folders = new Set<string>();
  let bytes = 0;
  for (const [path, content] of files) {
    const steps = path.split('/');
    const name = steps.pop() ?? '';
    const isBlob = steps.at(-1) === 'blobs';
    if (!isBlob && !isSegmentName(name) && !/^c-.+\.json$/.test(name)) continue;
    if (isSegmentName(name)) folders.add(steps.join('/'));
    found.set(isBlob ? `blobs/${name}` : name, content);
    bytes += content instanceof Uint8Array ? content.length : content.size;
  }
  if (folders.size > 1) throw new Error(`there are journals in ${[...folders].sort().join(', ')}: open one of them`);
  if (folders.size === 0) throw new Error(NO_SEGMENT);
  if (bytes > JOURNAL_MAX_BYTES)
    throw new Error(`the journal has ${bytes} bytes; at most ${JOURNAL_MAX_BYTES} are opened`);
  return found;
}

const NO_SEGMENT =
  'no file of a journal is among them: open the folder that has j-….ndjson or j-….ndjson.zst, or one such file';

const startOf = (journal: Journal): StartView => startView(startRecords(journal));

/** Compares the shown start with another. */
export function compareWith(shown: Journal, other: Other): Comparison {
  const incarnation = other ?? lastGoodBefore(shown);
  const isName = typeof incarnation === 'string';
  const against = isName ? readJournal(SHOWN, { incarnation }) : put(OTHER, incarnation, undefined);
  return comparison(startRecords(against), startRecords(shown));
}

/** The last start before this one that reached its goals; where none did, the one before. */
function lastGoodBefore({ header }: Journal): string {
  const all = [...new Set(segmentsIn(SHOWN).map(({ incarnation }) => incarnation))];
  const before = all.slice(0, all.indexOf(header.incarnation)).toReversed();
  const good = before.find((incarnation) => isGood(readJournal(SHOWN, { incarnation })));
  const found = good ?? before[0];
  if (found === undefined) throw new Error('this journal has no start before this one');
  return found;
}

const isGood = (journal: Journal): boolean => startOf(journal).time.complete;

/** A journal as far as its start goes. */
const startRecords = (journal: Journal) => ({
  header: journal.header,
  checkpoint: journal.checkpoint,
  checkpointAfter: (n: number) => journal.checkpointAfter(n),
  records: first(journal.records, START_RECORDS_MAX),
});

function* first(records: Iterable<JournalRecord>, max: number): Generator<JournalRecord> {
  let count = 0;
  for (const record of records) {
    yield record;
    if (++count >= max && record.k === 'end') return;
  }
}
