/** The directory of a journal is removed or replaced while the journal is written. */
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { verifyJournal } from '../../../src/kernel/journal/verify.ts';
import { eventually, type Recorder, record, recordsIn, segmentsOf, temporaryDirectory } from './support.ts';

interface Report {
  readonly level: string;
  readonly sentence: string;
}

function recorded(directory: string): { readonly kernel: Recorder; readonly reports: Report[] } {
  const reports: Report[] = [];
  const report = (level: string, sentence: string) => void reports.push({ level, sentence });
  return { kernel: record(directory, { durability: 'second', retryMs: 50, report }).boot().turn(), reports };
}

/** Makes turns until the journal requests a checkpoint, which begins a new segment. */
async function untilBegunAnew(kernel: Recorder): Promise<void> {
  const turning = setInterval(() => kernel.turn(), 20);
  try {
    await eventually(() => kernel.journal.suspension !== undefined, 'the journal is suspended');
    await eventually(() => kernel.journal.wantsCheckpoint, 'the journal wants to begin anew');
  } finally {
    clearInterval(turning);
  }
  kernel.checkpoint();
}

it('removed: it is said, and a new directory has all that follows', async () => {
  const directory = temporaryDirectory();
  const { kernel, reports } = recorded(directory);
  await kernel.durable();
  rmSync(directory, { recursive: true });
  await untilBegunAnew(kernel);
  const from = kernel.records.length;
  kernel.turn();
  await kernel.journal.close();
  expect(reports[0]).toMatchObject({ level: 'error', sentence: expect.stringContaining('was removed or replaced') });
  const [gap, ...records] = recordsIn(directory);
  expect(gap).toMatchObject({ k: 'gap', upto: from - 1 });
  expect(records).toEqual(kernel.records.slice(from));
  expect(verifyJournal(directory).ok).toBe(true);
});

it('moved away, and another agent has the new one: it is never written by two', async () => {
  const directory = temporaryDirectory();
  const { kernel, reports } = recorded(directory);
  await kernel.durable();
  renameSync(directory, `${directory}-moved`);
  const other = record(directory).boot().turn();
  await untilBegunAnew(kernel);
  kernel.turn();
  await eventually(() => reports.some(({ sentence }) => sentence.includes('is writing this journal')), 'it is refused');
  other.turn();
  await kernel.journal.close();
  await other.journal.close();
  rmSync(`${directory}-moved`, { recursive: true });
  expect(segmentsOf(directory)).toHaveLength(1);
  expect(recordsIn(directory)).toEqual(other.records);
});

it('the directory is not given to another agent while it is there', async () => {
  const directory = temporaryDirectory();
  const { kernel } = recorded(directory);
  expect(() => record(directory)).toThrow(/is writing this journal/);
  await kernel.journal.close();
  expect(existsSync(directory)).toBe(true);
});

it('without its lock the directory may be another agent’s: the first one writes nothing more there', async () => {
  const directory = temporaryDirectory();
  const { kernel, reports } = recorded(directory);
  await kernel.durable();
  const before = kernel.records.length;
  rmSync(join(directory, 'owner.lock'));
  const other = record(directory).boot().turn();
  await untilBegunAnew(kernel);
  await eventually(() => reports.some(({ sentence }) => sentence.includes('is writing this journal')), 'it is refused');
  expect(reports[0]).toMatchObject({ level: 'error', sentence: expect.stringContaining('lock of') });
  await kernel.journal.close();
  await other.journal.close();
  const [last, ...earlier] = recordsIn(directory, kernel.journal.incarnation).toReversed();
  expect(last).toMatchObject({ k: 'gap', why: expect.stringContaining('lock of') });
  expect(earlier.toReversed()).toEqual(kernel.records.slice(0, before));
  expect(recordsIn(directory, other.journal.incarnation)).toEqual(other.records);
});
