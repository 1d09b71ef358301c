import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { segmentName, segmentsIn } from '../../../src/kernel/journal/layout.ts';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { verifyJournal, verifySegments } from '../../../src/kernel/journal/verify.ts';
import { eventually, filesIn, record, recordsIn, segmentsOf, temporaryDirectory } from './support.ts';

/** Makes turns until the journal has requested this number of checkpoints. */
async function recordSegments(directory: string, rotations: number, options = {}) {
  const kernel = record(directory, { segmentMaxBytes: 20_000, ...options }).boot();
  for (let done = 0; done < rotations; ) {
    kernel.turn({ type: 'noise', text: randomBytes(300).toString('base64') });
    await kernel.durable();
    kernel.turn();
    if (!kernel.journal.wantsCheckpoint) continue;
    kernel.checkpoint();
    await kernel.durable();
    done++;
  }
  kernel.turn();
  return kernel;
}

describe('segments', () => {
  it('a checkpoint is wanted when a segment is long enough, and not again before the next is', async () => {
    const kernel = record(temporaryDirectory(), { segmentMaxBytes: 20_000 }).boot();
    let turns = 0;
    for (; !kernel.journal.wantsCheckpoint; turns++) {
      kernel.turn();
      await kernel.durable();
    }
    expect(turns).toBeGreaterThan(20);
    expect(turns).toBeLessThan(60);
    kernel.checkpoint();
    kernel.turn();
    expect(kernel.journal.wantsCheckpoint).toBe(false);
    await kernel.journal.close();
  });

  it('or when it is old enough', async () => {
    const kernel = record(temporaryDirectory(), { segmentMaxAgeMs: 20 }).boot();
    expect(kernel.journal.wantsCheckpoint).toBe(false);
    await new Promise((resolve) => setTimeout(resolve, 25));
    kernel.turn();
    expect(kernel.journal.wantsCheckpoint).toBe(true);
    await kernel.journal.close();
  });

  it('together they are one incarnation; each is readable alone from its checkpoint', async () => {
    const directory = temporaryDirectory();
    const kernel = await recordSegments(directory, 3);
    await kernel.journal.close();
    expect(recordsIn(directory)).toEqual(kernel.records);
    const segments = segmentsOf(directory);
    expect(segments).toHaveLength(4);
    const [header] = kernel.records;
    for (const path of segments.slice(1)) {
      const journal = readJournal(path);
      const { after, state } = journal.checkpoint!;
      expect(journal.header).toEqual(header);
      expect(state).toEqual({ n: after + 1, root: { value: `after ${after}` } });
      const records = [...journal.records];
      expect(records).toEqual(kernel.records.slice(after + 1, after + 1 + records.length));
      expect(journal.torn).toBeUndefined();
    }
    expect(readJournal(directory, { from: 'newest-checkpoint' }).segments).toEqual(segments.slice(3));
    expect(readJournal(directory, { from: 2 })).toMatchObject({ segments: segments.slice(2), skipped: 2 });
    expect(readJournal(directory, { from: 9 })).toMatchObject({ segments, skipped: 0 });
    renameSync(segments[1]!, join(directory, 'aside'));
    renameSync(segments[2]!, segments[1]!);
    renameSync(join(directory, 'aside'), segments[2]!);
    expect(verifyJournal(directory).ok, 'two segments that changed places').toBe(false);
  });

  it('a new segment that was not finished is not the newest checkpoint', async () => {
    const directory = temporaryDirectory();
    const kernel = await recordSegments(directory, 2);
    await kernel.journal.close();
    const segments = segmentsOf(directory);
    truncateSync(segments[2]!, 50);
    expect(readJournal(directory, { from: 'newest-checkpoint' }).segments[0]).toBe(segments[1]);
    const journal = readJournal(directory);
    expect([...journal.records].length).toBeLessThan(kernel.records.length);
    expect(journal.torn).toMatchObject({ file: segments[2], offset: 0, bytes: 50 });
    expect(verifyJournal(directory).ok).toBe(true);
  });

  it('closed ones are compressed and read the same; one with a torn tail is evidence and stays', async () => {
    const directory = temporaryDirectory();
    const torn = record(directory).boot().turn();
    await torn.journal.close();
    const [evidence] = segmentsOf(directory);
    truncateSync(evidence!, statSync(evidence!).size - 200);
    const bytes = readFileSync(evidence!);

    const clean = record(directory).boot().turn();
    await clean.journal.close();
    const plain = readFileSync(segmentsOf(directory)[1]!, 'utf8');

    const kernel = await recordSegments(directory, 2);
    await kernel.journal.close();
    expect(segmentsOf(directory).map((path) => path.slice(directory.length + 3).replace(/-0*/g, '-'))).toEqual([
      '000001-.ndjson',
      '000002-.ndjson.zst',
      '000003-.ndjson.zst',
      expect.stringMatching(/^000003-\d+\.ndjson\.zst$/),
      expect.stringMatching(/^000003-\d+\.ndjson$/),
    ]);
    expect(readFileSync(evidence!)).toEqual(bytes);
    expect(zstdDecompressSync(readFileSync(segmentsOf(directory)[1]!)).toString()).toBe(withoutWhatFollows(plain));
    expect(recordsIn(directory, '000002')).toEqual(clean.records);
    expect(recordsIn(directory)).toEqual(kernel.records);
  });

  it('are whole to a reader although they are compressed or removed meanwhile', async () => {
    const directory = temporaryDirectory();
    const kernel = await recordSegments(directory, 2);
    await kernel.journal.close();
    const listed = segmentsIn(directory).map((segment) => ({ ...segment, path: segment.path.replace('.zst', '') }));
    const report = verifySegments('000001', listed);
    expect(report).toMatchObject({ segments: 3, checkpoints: 2, problems: [] });
    expect(report.bytes).toBe(listed.reduce((sum, { bytes }) => sum + bytes, 0));
    const [oldest, ...others] = segmentsOf(directory);
    rmSync(oldest!);
    const later = verifySegments('000001', listed);
    expect(later).toMatchObject({ segments: 2, checkpoints: 2, problems: [] });
    expect(later.records).toBeLessThan(report.records);
    for (const path of others) rmSync(path);
    expect(verifySegments('000001', listed).problems).toEqual([]);
  });

  it('are found by their names, also when what was just compressed or removed is still among them', async () => {
    const directory = temporaryDirectory();
    const kernel = await recordSegments(directory, 2);
    await kernel.journal.close();
    const listed = segmentsIn(directory).map((segment) => ({ ...segment, path: segment.path.replace('.zst', '') }));
    // The names have been read, but one file is gone.
    for (const { path, compressed } of listed) if (compressed) symlinkSync('nowhere', path);
    symlinkSync('nowhere', join(directory, segmentName('000001', 999_999)));
    expect(segmentsIn(directory).map(({ path }) => path)).toEqual(segmentsOf(directory).filter(existsSync));
  });

  it('one that cannot be compressed keeps neither the others from it nor the limit from being applied', async () => {
    const directory = temporaryDirectory();
    const reported: string[] = [];
    const report = (level: string, sentence: string) => reported.push(`${level}: ${sentence}`);
    const kernel = await recordSegments(directory, 0, { retainedMaxBytes: 60_000, report });
    await kernel.durable();
    const [stuck] = segmentsOf(directory);
    mkdirSync(`${stuck}.zst.tmp`);
    for (let rotations = 0; rotations < 2; ) {
      kernel.turn({ type: 'noise', text: randomBytes(600).toString('base64') });
      await kernel.durable();
      kernel.turn();
      if (!kernel.journal.wantsCheckpoint) continue;
      kernel.checkpoint();
      await kernel.durable();
      rotations++;
    }
    await eventually(() => segmentsOf(directory)[1]?.endsWith('.zst') === true, 'the second one is compressed');
    expect(segmentsOf(directory)[0]).toBe(stuck);
    expect(reported[0]).toMatch(/^warn: old segments are left as they are: /);
    for (let i = 0; i < 300; i++) kernel.turn({ type: 'noise', text: randomBytes(600).toString('base64') });
    kernel.checkpoint().turn();
    await kernel.durable();
    await eventually(() => !existsSync(stuck!), 'the oldest one is removed');
    await kernel.journal.close();
  });

  it('many in a short time: what is compressed or removed is never the one being written', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory, { retainedMaxBytes: 30_000 }).boot();
    for (let i = 0; i < 40; i++) {
      kernel.turn({ type: 'noise', text: randomBytes(600).toString('base64') }).checkpoint();
      if (i % 3 === 0) await kernel.durable();
    }
    kernel.turn();
    await kernel.journal.close();
    const journal = readJournal(directory);
    expect([...journal.records]).toEqual(kernel.records.slice(journal.checkpoint!.after + 1));
    expect(segmentsOf(directory).at(-1)).toMatch(/\.ndjson$/);
    expect(segmentsOf(directory).length).toBeLessThan(30);
    expect(verifyJournal(directory).ok).toBe(true);
  });

  it('a compressed segment that is damaged says so', async () => {
    const directory = temporaryDirectory();
    const kernel = await recordSegments(directory, 1);
    await kernel.journal.close();
    const [path] = segmentsOf(directory);
    const bytes = readFileSync(path!);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(path!, bytes);
    const damaged = { kind: 'damaged', place: { file: path } };
    expect(() => readJournal(directory)).toThrow(expect.objectContaining(damaged));
    expect(verifyJournal(directory)).toMatchObject({ ok: false, incarnations: [{ problems: [damaged] }] });
  });

  it('one that is there twice, because compression was interrupted, is read once', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot().turn();
    await kernel.journal.close();
    const [path] = segmentsOf(directory);
    const plain = readFileSync(path!);
    const next = await recordSegments(directory, 1);
    await next.journal.close();
    expect(existsSync(path!), 'it is compressed').toBe(false);
    writeFileSync(path!, plain);
    expect(segmentsOf(directory)).toHaveLength(4);
    expect(recordsIn(directory, '000001')).toEqual(kernel.records);
  });

  it('a checkpoint with nothing since the one before begins no segment', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot().checkpoint().checkpoint();
    await kernel.journal.close();
    expect(segmentsOf(directory)).toHaveLength(2);
    expect(recordsIn(directory)).toEqual(kernel.records);
  });

  it('where the next segment cannot be begun, the one before goes on', async () => {
    const directory = temporaryDirectory();
    const reported: string[] = [];
    const kernel = record(directory, { report: (level, sentence) => reported.push(`${level} ${sentence}`) })
      .boot()
      .turn();
    writeFileSync(join(directory, `j-000001-${String(kernel.records.length).padStart(12, '0')}.ndjson`), 'in the way');
    kernel.checkpoint().turn();
    await kernel.durable();
    expect(reported).toEqual([expect.stringMatching(/^warn the journal could not begin a new segment and goes on/)]);
    rmSync(segmentsOf(directory)[1]!);
    kernel.checkpoint().turn();
    await kernel.journal.close();
    expect(segmentsOf(directory)).toHaveLength(2);
    expect(recordsIn(directory)).toEqual(kernel.records);
    expect(filesIn(directory, /^c-/)).toHaveLength(1);
  });
});

describe('retention', () => {
  const sizeOf = (directory: string): number =>
    readdirSync(directory, { recursive: true, encoding: 'utf8' })
      .map((name) => statSync(join(directory, name), { throwIfNoEntry: false }))
      .reduce((sum, stat) => sum + (stat?.isFile() ? stat.size : 0), 0);

  it.each([
    ['of a byte a character', () => randomBytes(40_000).toString('hex')],
    ['of three', () => '\u6f22'.repeat(70_000) + randomBytes(20).toString('hex')],
  ])('values beside the lines count, %s: the folder is above its limit by a segment at most', async (_, value) => {
    const directory = temporaryDirectory();
    const [segmentMaxBytes, retainedMaxBytes] = [400_000, 1_200_000];
    const kernel = record(directory, { segmentMaxBytes, retainedMaxBytes }).boot();
    const valueBytes = 211_000;
    const isWithin = () => sizeOf(directory) < retainedMaxBytes + segmentMaxBytes + valueBytes;
    for (let i = 0; i < 200; i++) {
      kernel.turn({ type: 'configMap.changed', big: value() });
      await kernel.durable();
      kernel.turn();
      if (kernel.journal.wantsCheckpoint) kernel.checkpoint();
      await kernel.durable();
      await eventually(isWithin, `the folder is within its limit after turn ${i}`);
    }
    kernel.turn();
    await kernel.journal.close();
    expect(segmentsOf(directory).length).toBeGreaterThan(1);
    expect(verifyJournal(directory).ok).toBe(true);
  });

  it('removes the oldest of the oldest incarnation first, with their checkpoints, and never the current one', async () => {
    const directory = temporaryDirectory();
    const first = await recordSegments(directory, 3);
    await first.journal.close();
    const before = segmentsOf(directory);
    const limit = sizeOf(directory) + 20_000;
    const second = await recordSegments(directory, 2, { retainedMaxBytes: limit });
    await second.journal.close();
    const after = segmentsOf(directory);
    expect(after).not.toContain(before[0]);
    const left = after.filter((path) => path.includes('j-000001-'));
    expect(left.map(plain)).toEqual(before.slice(-left.length).map(plain));
    expect(recordsIn(directory)).toEqual(second.records);
    const report = verifyJournal(directory);
    expect(report.ok).toBe(true);
    expect(report.incarnations[0]!.first).toBeGreaterThan(0);
    expect(filesIn(directory, /^c-/)).toHaveLength(
      report.incarnations.reduce((sum, each) => sum + each.checkpoints, 0),
    );
    expect(sizeOf(directory)).toBeLessThan(limit + 20_000);
  });

  const plain = (path: string): string => path.replace(/\.zst$/, '');

  it('with no room at all only the current segment stays', async () => {
    const directory = temporaryDirectory();
    const first = await recordSegments(directory, 2);
    await first.journal.close();
    const kernel = await recordSegments(directory, 2, { retainedMaxBytes: 0 });
    await kernel.journal.close();
    expect(segmentsOf(directory)).toHaveLength(1);
    const journal = readJournal(directory);
    expect([...journal.records]).toEqual(kernel.records.slice(journal.checkpoint!.after + 1));
  });

  it('already at the start, for a daemon that dies young never rotates', async () => {
    const directory = temporaryDirectory();
    for (let boot = 0; boot < 5; boot++) {
      const kernel = record(directory, { retainedMaxBytes: 0 }).boot().turn();
      await eventually(() => segmentsOf(directory).length <= 1, 'the older incarnations are gone');
      await kernel.journal.close();
    }
    expect(segmentsOf(directory)[0]).toContain('j-000005-');
  });

  it('removes a blob with the last segment that refers to it, and no other', async () => {
    const directory = temporaryDirectory();
    const big = (text: string) => ({ type: 'x', big: text.repeat(70_000) });
    const old = record(directory).boot().turn(big('a')).turn(big('b')).checkpoint();
    old.turn(big('b')).turn(big('c')).checkpoint().turn(big('d'));
    await old.journal.close();
    const blobs = () =>
      new Set(readdirSync(join(directory, 'blobs')).map((name) => contentOf(join(directory, 'blobs', name))[1]));
    expect(blobs()).toEqual(new Set('abcd'));
    const [first, second] = segmentsOf(directory);

    const kernel = record(directory, { retainedMaxBytes: sizeOf(directory) - 1000 }).boot();
    await eventually(() => !existsSync(first!), 'the oldest segment is gone');
    await kernel.journal.close();
    expect(existsSync(second!)).toBe(true);
    expect(blobs()).toEqual(new Set('bcd'));
    expect(verifyJournal(directory).ok).toBe(true);
  });
});

/** Removes checksums, consecutive numbers, and all links except the last. */
const withoutWhatFollows = (lines: string): string => {
  const [link, ...rest] = lines
    .trimEnd()
    .split('\n')
    .map((line) => line.slice(9))
    .toReversed();
  const others = rest.filter((line) => !line.startsWith('{"k":"chain"')).toReversed();
  return [...others.map((line) => line.replace(/^\{"n":\d+,/, '{')), link, ''].join('\n');
};

const contentOf = (path: string): string => readFileSync(path, 'utf8');
