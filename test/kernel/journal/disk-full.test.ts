import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, type TestContext } from 'vitest';
import { isBeingWritten } from '../../../src/kernel/journal/owner.ts';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { verifyJournal } from '../../../src/kernel/journal/verify.ts';
import type { JournalRecord } from '../../../src/kernel/records.ts';
import { BrokenDisk, eventually, type Recorder, record, recordsIn, segmentsOf, temporaryDirectory } from './support.ts';

const quick = { retryMs: 5, roomMinBytes: 0 };

/** Makes turns, each durable on its own, until journaling is suspended. */
async function fill(kernel: Recorder): Promise<void> {
  for (let turns = 0; kernel.journal.suspension === undefined; turns++) {
    if (turns > 20_000) throw new Error('the disk is never full');
    kernel.turn();
    await kernel.durable();
  }
}

async function resume(kernel: Recorder): Promise<void> {
  await eventually(() => kernel.journal.wantsCheckpoint, 'the journal asks for a checkpoint to go on');
  kernel.turn().checkpoint().turn();
  await kernel.durable();
}

/** Whether the folder has a journal with this number of records. */
function isWritten(directory: string, records: number): boolean {
  try {
    return recordsIn(directory).length === records;
  } catch {
    return false;
  }
}

const kindsOf = (records: readonly JournalRecord[]): string[] => [...new Set(records.map(({ k }) => k))];

describe('a full disk', () => {
  it('first takes what replay makes again, then everything; later the journal goes on behind a gap', async () => {
    const directory = temporaryDirectory();
    const disk = new BrokenDisk();
    const reported: string[] = [];
    const kernel = record(directory, {
      ...quick,
      disk,
      report: (level, text) => reported.push(`${level}: ${text}`),
    }).boot();
    kernel.turn();
    await kernel.durable();
    const full = kernel.records.length;
    disk.room = 800;
    await fill(kernel);
    expect(reported).toEqual([
      'error: journaling is suspended and its journal will have a gap: ENOSPC: as the test says',
    ]);
    for (let i = 0; i < 10; i++) kernel.turn();
    await kernel.durable();

    await eventually(() => recordsIn(directory).at(-1)?.k === 'gap', 'the segment says that nothing follows');
    const kept = recordsIn(directory);
    expect(kept.slice(0, full)).toEqual(kernel.records.slice(0, full));
    expect(kindsOf(kept.slice(full))).toEqual(['in', 'dropped', 'effect', 'end', 'gap']);
    expect(kept.at(-1)).toMatchObject({ why: 'ENOSPC: as the test says' });

    disk.room = Number.POSITIVE_INFINITY;
    await resume(kernel);
    expect(reported.at(-1)).toMatch(/^info: the journal goes on after record \d+$/);
    kernel.turn();
    await kernel.journal.close();
    const records = recordsIn(directory);
    const gap = records.find(({ k }) => k === 'gap') as JournalRecord & { upto: number };
    expect(gap.n).toBe(kept.at(-1)!.n);
    expect(records.slice(records.indexOf(gap) + 1)).toEqual(kernel.records.slice(gap.upto + 1));
    expect(records.filter(({ k }) => k === 'gap')).toHaveLength(1);
    const state = { n: gap.upto + 1, root: { value: `after ${gap.upto}` } };
    expect(readJournal(directory).checkpointAfter(gap.upto)).toEqual({ after: gap.upto, state });
    expect(verifyJournal(directory)).toMatchObject({ ok: true, incarnations: [{ gaps: [gap], checkpoints: 1 }] });
    expect([...readJournal(segmentsOf(directory)[1]!).records]).toEqual([gap, ...kernel.records.slice(gap.upto + 1)]);
  });

  it('dropped records are told number by number, so that a hole is never a doubt', async () => {
    const directory = temporaryDirectory();
    const disk = new BrokenDisk();
    const kernel = record(directory, { disk }).boot();
    await kernel.durable();
    disk.room = 650;
    kernel.turn();
    await kernel.durable();
    await kernel.journal.close();
    expect(recordsIn(directory).slice(2)).toEqual([
      kernel.records[2],
      { n: 3, k: 'dropped', upto: 3, why: 'ENOSPC' },
      kernel.records[4],
      { n: 5, k: 'dropped', upto: 6, why: 'ENOSPC' },
      kernel.records[7],
    ]);
  });

  it.each(['EIO', 'EROFS', 'EDQUOT'])('%s is survived as well', async (code) => {
    const directory = temporaryDirectory();
    const disk = new BrokenDisk();
    const kernel = record(directory, { ...quick, disk, durability: 'second' })
      .boot()
      .turn();
    await kernel.durable();
    const kept = kernel.records.length;
    disk.failure = code;
    kernel.turn({ type: 'x', big: 'y'.repeat(9000) });
    await kernel.durable();
    expect(kernel.journal.suspension).toContain(code);
    await eventually(() => kernel.journal.wantsCheckpoint, 'the journal tries again');
    kernel.turn().checkpoint();
    await kernel.durable();
    expect(kernel.journal.suspension, 'the disk is still broken').toContain(code);
    disk.failure = undefined;
    await resume(kernel);
    await kernel.journal.close();
    const records = recordsIn(directory);
    expect(records.slice(0, kept)).toEqual(kernel.records.slice(0, kept));
    expect(records[kept]).toMatchObject({ k: 'gap', n: kept });
    expect(verifyJournal(directory).ok).toBe(true);
  });

  it('a disk that keeps no names leaves no segment without a writer', async () => {
    const directory = temporaryDirectory();
    const disk = new BrokenDisk();
    disk.namesFailure = 'EIO';
    const kernel = record(directory, { ...quick, disk, durability: 'second' })
      .boot()
      .turn();
    await kernel.durable();
    expect(kernel.journal.suspension).toContain('EIO');
    expect(segmentsOf(directory)).toEqual([]);
    disk.namesFailure = undefined;
    await resume(kernel);
    await kernel.journal.close();
    expect(verifyJournal(directory).ok).toBe(true);
  });

  it('a disk that could not keep what it took suspends journaling with the next write', async () => {
    const directory = temporaryDirectory();
    const disk = new BrokenDisk();
    disk.syncFailure = 'EIO';
    const kernel = record(directory, { ...quick, disk, durability: 'second' })
      .boot()
      .turn();
    await kernel.durable();
    expect(kernel.journal.suspension, 'nobody has asked the disk yet').toBeUndefined();
    await eventually(() => {
      kernel.turn();
      return kernel.journal.suspension !== undefined;
    }, 'the disk was asked');
    expect(kernel.journal.suspension).toContain('EIO');
    disk.syncFailure = undefined;
    await resume(kernel);
    await kernel.journal.close();
    expect(verifyJournal(directory).ok).toBe(true);
  });

  it('a disk that hangs is asked once, and what is written goes on', async () => {
    const disk = new BrokenDisk();
    const hanging = Promise.withResolvers<void>();
    disk.syncEnd = hanging.promise;
    const directory = temporaryDirectory();
    const kernel = record(directory, { disk, durability: 'second' }).boot();
    await eventually(() => disk.syncs === 1, 'the disk was asked');
    for (let i = 0; i < 4; i++) {
      kernel.turn();
      await kernel.durable();
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
    expect(disk.syncs, 'while it hangs').toBe(1);
    expect(recordsIn(directory)).toEqual(kernel.records);
    hanging.resolve();
    await eventually(() => disk.syncs === 2, 'it is asked for what came meanwhile');
    await kernel.journal.close();
  });

  it('a disk that hangs does not delay the end of the process', async () => {
    const disk = new BrokenDisk();
    const hanging = Promise.withResolvers<void>();
    disk.syncEnd = hanging.promise;
    const directory = temporaryDirectory();
    const lines: string[] = [];
    const report = (level: string, sentence: string) => void lines.push(`${level}: ${sentence}`);
    const kernel = record(directory, { disk, durability: 'second', closeMaxMs: 50, report }).boot();
    await eventually(() => isWritten(directory, kernel.records.length), 'everything is written');
    await kernel.journal.close();
    expect(lines).toEqual(['error: the journal is not closed and may lack its end: the disk takes more than 50 ms']);
    expect(recordsIn(directory)).toEqual(kernel.records);
    hanging.resolve();
    await eventually(() => !isBeingWritten(directory), 'the disk answers, and it is closed');
  });

  it('from the first byte: the header is kept with the first checkpoint', async () => {
    const directory = temporaryDirectory();
    const disk = new BrokenDisk();
    disk.failure = 'ENOSPC';
    const kernel = record(directory, { ...quick, disk })
      .boot()
      .turn();
    await kernel.durable();
    disk.failure = undefined;
    await resume(kernel);
    await kernel.journal.close();
    const journal = readJournal(directory);
    expect(journal.header).toEqual(kernel.records[0]);
    expect([...journal.records][0]).toMatchObject({ k: 'gap', n: 1, upto: journal.checkpoint!.after });
    expect(verifyJournal(directory).ok).toBe(true);
  });

  it.each([0, 100, 300])('from byte %i of the header: nothing stays of the first segment', async (room) => {
    const directory = temporaryDirectory();
    const disk = new BrokenDisk();
    disk.room = room;
    const kernel = record(directory, { ...quick, disk })
      .boot()
      .turn();
    await kernel.durable();
    expect(segmentsOf(directory)).toEqual([]);
    disk.room = Number.POSITIVE_INFINITY;
    await resume(kernel);
    await kernel.journal.close();
    const journal = readJournal(directory);
    const { after } = journal.checkpoint!;
    expect([...journal.records]).toEqual([
      { n: 1, k: 'gap', upto: after, why: 'ENOSPC: as the test says' },
      ...kernel.records.slice(after + 1),
    ]);
    expect(verifyJournal(directory)).toMatchObject({ ok: true, incarnations: [{ segments: 1 }] });
  });

  it('a first segment without a header hides nothing that is behind it, and is told', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot().turn().checkpoint().turn();
    await kernel.journal.close();
    const [whole] = segmentsOf(directory);
    const first = whole!.replace('.zst', '');
    rmSync(whole!);
    writeFileSync(first, '');
    const journal = readJournal(directory);
    expect([...journal.records]).toEqual(kernel.records.slice(journal.checkpoint!.after + 1));
    const { ok, incarnations } = verifyJournal(directory);
    expect(ok).toBe(false);
    expect(incarnations[0]!.problems.map(({ kind, place }) => [kind, place.file])).toEqual([['no-journal', first]]);
  });

  it('a disk that stands still does not fill the memory', async () => {
    const disk = new BrokenDisk();
    const kernel = record(temporaryDirectory(), { ...quick, disk });
    let go: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (go = resolve));
    const open = disk.open.bind(disk);
    disk.open = (...args) => held.then(() => open(...args));
    kernel.boot();
    const text = 'z'.repeat(3000);
    const event = { type: 'x', texts: Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`t${i}`, [text]])) };
    for (let i = 0; i < 30 && kernel.journal.suspension === undefined; i++) {
      for (let j = 0; j < 1000; j++) kernel.turn({ type: 'x', text: event.texts[`t${j}`] });
    }
    expect(kernel.journal.suspension).toBe('the disk does not keep up');
    await kernel.durable();
    go();
    await kernel.journal.close();
  });
});

/** A file system for the test, if this machine allows one. */
function mountTmpfs(size: string, context: TestContext): string {
  const directory = join(temporaryDirectory(), 'mount');
  mkdirSync(directory);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', directory], { stdio: 'pipe' });
  } catch {
    context.skip('needs the right to mount a tmpfs');
  }
  onTestFinished(() => void execFileSync('umount', ['-l', directory]));
  return directory;
}

describe('a real file system', () => {
  it('of 256 KB: suspended when full, continues when there is room again', async (context) => {
    const mount = mountTmpfs('256k', context);
    const ballast = join(mount, 'ballast');
    writeFileSync(ballast, Buffer.alloc(100 * 1024));
    const kernel = record(join(mount, 'journal'), { retryMs: 5, roomMinBytes: 64 * 1024 }).boot();
    await fill(kernel);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(kernel.journal.wantsCheckpoint, 'there is no room yet').toBe(false);
    rmSync(ballast);
    await resume(kernel);
    await kernel.journal.close();
    const report = verifyJournal(kernel.journal.directory);
    expect(report).toMatchObject({ ok: true, incarnations: [{ gaps: [{ k: 'gap' }], torn: undefined }] });
  });

  it('that is full at the start does not stop the node', async (context) => {
    const mount = mountTmpfs('64k', context);
    writeFileSync(join(mount, 'ballast'), Buffer.alloc(60 * 1024));
    const ballast = join(mount, 'ballast2');
    expect(() => writeFileSync(ballast, Buffer.alloc(60 * 1024))).toThrow('ENOSPC');
    const kernel = record(join(mount, 'journal'), quick).boot().turn();
    expect(kernel.journal.suspension).toContain('ENOSPC');
    await kernel.durable();
    rmSync(ballast, { force: true });
    rmSync(join(mount, 'ballast'));
    await resume(kernel);
    await kernel.journal.close();
    expect(verifyJournal(kernel.journal.directory).ok).toBe(true);
  });

  it('that is read-only does not stop the node either, and is written as soon as it may be', async (context) => {
    const mount = mountTmpfs('256k', context);
    execFileSync('mount', ['-o', 'remount,ro', mount]);
    const kernel = record(join(mount, 'journal'), quick).boot().turn();
    expect(kernel.journal.suspension).toContain('EROFS');
    execFileSync('mount', ['-o', 'remount,rw', mount]);
    await resume(kernel);
    await kernel.journal.close();
    expect(verifyJournal(kernel.journal.directory).ok).toBe(true);
  });
});
