import { execFileSync, spawn } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { JournalError } from '../../../src/kernel/journal/errors.ts';
import { encodeLine } from '../../../src/kernel/journal/line.ts';
import { openJournal } from '../../../src/kernel/journal/open.ts';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { verifyJournal } from '../../../src/kernel/journal/verify.ts';
import type { JournalRecord } from '../../../src/kernel/records.ts';
import { eventually, type Recorder, record, recordsIn, segmentsOf, temporaryDirectory } from './support.ts';

/** One incarnation with three turns, each in a batch of its own. */
async function threeTurns(directory: string): Promise<Recorder> {
  const kernel = record(directory).boot();
  await kernel.durable();
  for (let i = 0; i < 2; i++) {
    kernel.turn();
    await kernel.durable();
  }
  await kernel.journal.close();
  return kernel;
}

function errorOf(path: string): JournalError {
  try {
    for (const _ of readJournal(path).records);
  } catch (error) {
    if (error instanceof JournalError) return error;
    throw error;
  }
  throw new Error('nothing was found wrong');
}

describe('a torn tail', () => {
  it('costs the last turn, wherever it is torn', async () => {
    const directory = temporaryDirectory();
    const kernel = await threeTurns(directory);
    const bytes = readFileSync(segmentsOf(directory)[0]!);
    const start = bytes.indexOf('"k":"chain"', bytes.indexOf('"k":"chain"') + 1);
    const lastTurn = bytes.indexOf('\n', start) + 1;
    const end = bytes.indexOf('\n', bytes.indexOf('"k":"end","turn":2')) + 1;
    const torn = join(directory, 'torn.ndjson');
    const before = kernel.records.filter((record) => record.n < 8);
    for (let length = lastTurn; length < bytes.length; length++) {
      writeFileSync(torn, bytes.subarray(0, length));
      const journal = readJournal(torn);
      const read = JSON.stringify([...journal.records]);
      expect(read, `${length} bytes`).toBe(JSON.stringify(length < end ? before : kernel.records));
      const whole = length === lastTurn || length === end;
      const offset = length < end ? lastTurn : end;
      const { file, offset: from, bytes: left } = journal.torn ?? {};
      const wanted = whole ? [undefined, undefined, undefined] : [torn, offset, length - offset];
      expect([file, from, left], `${length} bytes`).toEqual(wanted);
    }
  });

  it('is cut even where it is full of zeros, as a power cut leaves it', async () => {
    const directory = temporaryDirectory();
    const kernel = await threeTurns(directory);
    const [path] = segmentsOf(directory);
    writeFileSync(path!, Buffer.concat([readFileSync(path!), Buffer.alloc(5000)]));
    const journal = readJournal(directory);
    expect([...journal.records]).toEqual(kernel.records);
    expect(journal.torn).toMatchObject({ bytes: 5000, records: 0 });
  });

  it('of the incarnation before is told at the next start and left as it is', async () => {
    const directory = temporaryDirectory();
    await threeTurns(directory);
    const [path] = segmentsOf(directory);
    const bytes = readFileSync(path!);
    writeFileSync(path!, bytes.subarray(0, bytes.length - 150));
    const reported: string[] = [];
    const kernel = record(directory, { report: (level, sentence) => reported.push(`${level}: ${sentence}`) });
    expect(kernel.journal.previous).toMatchObject({
      incarnation: '000001',
      tornBytes: tornOf(path!),
    });
    expect(reported[0]).toMatch(/^warn: incarnation 000001 ended within a turn: \d+ bytes of .* are cut$/);
    kernel.boot().turn().checkpoint().turn();
    await kernel.journal.close();
    expect(readFileSync(path!)).toEqual(bytes.subarray(0, bytes.length - 150));
    expect(verifyJournal(directory)).toMatchObject({ ok: true, incarnations: [{ torn: {} }, { torn: undefined }] });
    expect(recordsIn(directory)).toEqual(kernel.records);
    expect(recordsIn(directory, '000001')).toHaveLength(8);
  });
});

function tornOf(path: string): number {
  const journal = readJournal(path);
  for (const _ of journal.records);
  return journal.torn?.bytes ?? 0;
}

describe('what is no regular file', () => {
  it.each(['j-000001-000000000000.ndjson', 'j-000001-000000000000.ndjson.zst'])('%s is refused at once', (name) => {
    const directory = temporaryDirectory();
    execFileSync('mkfifo', [join(directory, name)]);
    const why = 'it cannot be read (it is no regular file; what a pipe delivers must be in a file first)';
    for (const path of [directory, join(directory, name)]) {
      const { kind, message } = errorOf(path);
      expect(kind).toBe('unusable');
      expect(message).toBe(`${join(directory, name)}: ${why}`);
    }
  });

  it('a pipe in the place of the last segment does not hold up the next start', async () => {
    const directory = temporaryDirectory();
    execFileSync('mkfifo', [join(directory, 'j-000001-000000000000.ndjson')]);
    const reported: string[] = [];
    const { journal } = record(directory, { report: (_, sentence) => reported.push(sentence) }).boot();
    await journal.close();
    expect(journal.incarnation).toBe('000002');
    expect(reported[0]).toContain('cannot be looked at: it is no regular file');
  });
});

describe('damage', () => {
  it('no flipped bit goes unnoticed, and nothing is read that was not written', async () => {
    const directory = temporaryDirectory();
    const kernel = await threeTurns(directory);
    const bytes = readFileSync(segmentsOf(directory)[0]!);
    const lastLine = bytes.lastIndexOf('\n', bytes.length - 2) + 1;
    const flipped = join(directory, 'flipped.ndjson');
    // Every byte of the end, where the reach of the chain matters; before it a sample of lines and line feeds.
    const places = Array.from(bytes.keys()).filter((at) => at >= lastLine - 300 || at % 5 === 0 || bytes[at] === 0x0a);
    const answers = places.map((at) => {
      const copy = Buffer.from(bytes);
      copy[at]! ^= 1 << (at % 8);
      writeFileSync(flipped, copy);
      return [at, whatIsRead(flipped)] as const;
    });
    const refusals = answers.flatMap(([at, found]) => (found instanceof JournalError ? [[at, found] as const] : []));
    for (const [at, { kind, message }] of refusals) {
      expect(kind, `byte ${at}`).toMatch(/^(damaged|no-journal)$/);
      expect(message, `byte ${at}`).toContain(flipped);
    }
    const read = answers.flatMap(([at, found]) => (found instanceof JournalError ? [] : [[at, found] as const]));
    for (const [at, { torn, records }] of read) {
      // No link follows the last one and the line feed before it, so nothing protects these.
      expect(at, `byte ${at}`).toBeGreaterThanOrEqual(lastLine - 1);
      expect(torn, `byte ${at}`).toBeDefined();
      expect(records).toEqual(at < lastLine ? kernel.records.slice(0, 8) : kernel.records);
    }
    expect(refusals.length).toBeGreaterThan(0);
    expect(read.length).toBeGreaterThan(0);
  });

  it('says file, line, byte and sentence', async () => {
    const directory = temporaryDirectory();
    await threeTurns(directory);
    const [path] = segmentsOf(directory);
    const bytes = readFileSync(path!);
    const at = bytes.indexOf('pod-1');
    const offset = bytes.lastIndexOf('\n', at) + 1;
    bytes[at] = 0x71;
    writeFileSync(path!, bytes);
    const error = errorOf(directory);
    const line = bytes.subarray(0, at).toString().split('\n').length;
    expect(error).toMatchObject({ kind: 'damaged', place: { file: path, line, offset } });
    expect(error.message).toMatch(
      /line 4, byte \d+: the line was changed after it was written: its checksum is [0-9a-f]{8}, its bytes make [0-9a-f]{8}$/,
    );
    expect(verifyJournal(directory)).toMatchObject({ ok: false, incarnations: [{ problems: [{ kind: 'damaged' }] }] });
  });

  it.each<[string, (lines: string[]) => string[]]>([
    ['a line was taken out', (lines) => lines.toSpliced(4, 1)],
    ['a line was written anew with a right checksum', (lines) => lines.with(3, forged(lines[3]!))],
    ['a line was put in', (lines) => lines.toSpliced(4, 0, lines[4]!)],
    ['two lines were exchanged', (lines) => lines.with(4, lines[5]!).with(5, lines[4]!)],
  ])('the chain shows that %s', async (_what, change) => {
    const directory = temporaryDirectory();
    await threeTurns(directory);
    const [path] = segmentsOf(directory);
    const lines = readFileSync(path!, 'utf8').split('\n');
    writeFileSync(path!, change(lines).join('\n'));
    expect(errorOf(directory).kind).toMatch(/damaged|missing/);
  });

  const forged = (line: string): string => encodeLine(line.slice(9).replace('pod-1', 'pod-7')).trimEnd();

  it('a link that was taken out costs nothing: the next one is of every line before it', async () => {
    const directory = temporaryDirectory();
    const kernel = await threeTurns(directory);
    const [path] = segmentsOf(directory);
    const lines = readFileSync(path!, 'utf8').split('\n');
    writeFileSync(path!, lines.toSpliced(2, 1).join('\n'));
    expect([...readJournal(directory).records]).toEqual(kernel.records);
    writeFileSync(path!, lines.toSpliced(2, 1).toSpliced(3, 1).join('\n'));
    expect(errorOf(directory).kind).toBe('damaged');
  });

  it('a batch and its link taken out together are missed by what follows', async () => {
    const directory = temporaryDirectory();
    await threeTurns(directory);
    const [path] = segmentsOf(directory);
    const lines = readFileSync(path!, 'utf8').split('\n');
    writeFileSync(path!, lines.toSpliced(3, 7).join('\n'));
    expect(errorOf(directory)).toMatchObject({ kind: 'damaged', place: { line: 4 } });
  });
});

describe('what is missing', () => {
  /** Four segments of one incarnation. */
  async function fourSegments(directory: string): Promise<void> {
    const kernel = record(directory).boot();
    for (let i = 0; i < 3; i++) kernel.turn({ type: 'x', big: 'y'.repeat(100_000) }).checkpoint();
    kernel.turn();
    await kernel.journal.close();
  }

  it('a segment in the middle', async () => {
    const directory = temporaryDirectory();
    await fourSegments(directory);
    const [, second, third] = segmentsOf(directory);
    rmSync(second!);
    const error = errorOf(directory);
    expect(error).toMatchObject({ kind: 'missing', place: { file: third } });
    expect(error.message).toMatch(/records 8 to 13 are missing before it; was a segment removed\?$/);
  });

  it('a checkpoint', async () => {
    const directory = temporaryDirectory();
    await fourSegments(directory);
    const [first] = segmentsOf(directory);
    rmSync(first!);
    const checkpoint = join(directory, 'c-000001-000000000008.json');
    writeFileSync(checkpoint, '{}');
    expect(errorOf(directory)).toMatchObject({ kind: 'damaged', place: { file: checkpoint } });
    rmSync(checkpoint);
    expect(errorOf(directory)).toMatchObject({ kind: 'missing', place: { file: checkpoint } });
    expect(verifyJournal(directory).incarnations[0]?.problems).toHaveLength(1);
  });

  it('a blob', async () => {
    const directory = temporaryDirectory();
    await fourSegments(directory);
    const [blob] = readdirSync(join(directory, 'blobs'));
    const file = join(directory, 'blobs', blob!);
    writeFileSync(file, '"something else"');
    expect(errorOf(directory)).toMatchObject({ kind: 'damaged', place: { file } });
    rmSync(file);
    expect(errorOf(directory)).toMatchObject({ kind: 'missing', place: { file } });
  });

  it('the end of a segment that others follow', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot();
    kernel.turn();
    await kernel.journal.close();
    const other = temporaryDirectory();
    await fourSegments(other);
    for (const path of segmentsOf(other).slice(1)) copyFileSync(path, join(directory, basename(path)));
    const [first] = segmentsOf(directory);
    truncateSync(first!, readFileSync(first!).length - 200);
    expect(errorOf(directory)).toMatchObject({ kind: 'damaged', place: { file: first } });
  });

  it('a segment of another journal does not pass for the next one', async () => {
    const [a, b] = [temporaryDirectory(), temporaryDirectory()];
    await fourSegments(a);
    const kernel = record(b)
      .boot()
      .turn({ type: 'y', big: 'y'.repeat(20_000) })
      .checkpoint()
      .turn();
    await kernel.journal.close();
    const second = segmentsOf(a)[1]!;
    rmSync(second);
    copyFileSync(segmentsOf(b)[1]!, second.replace('.zst', ''));
    rmSync(segmentsOf(a)[2]!);
    rmSync(segmentsOf(a)[2]!);
    expect(errorOf(a).message).toMatch(/the segment before does not end with the link that this one names/);
  });
});

describe('what is no journal, or not one of this format', () => {
  it('nothing there, an empty directory, another file, an unknown incarnation', async () => {
    const directory = temporaryDirectory();
    expect(errorOf(join(directory, 'nowhere')).kind).toBe('no-journal');
    expect(errorOf(directory).kind).toBe('no-journal');
    writeFileSync(join(directory, 'notes.txt'), 'hello\nworld\n');
    expect(errorOf(join(directory, 'notes.txt')).kind).toBe('no-journal');
    expect(() => verifyJournal(directory)).toThrow(/holds no segments of a journal/);
    await threeTurns(directory);
    expect(() => readJournal(directory, { incarnation: '7' })).toThrow(/holds no incarnation 7/);
  });

  it('a future version says which Statelet wrote it', () => {
    const file = join(temporaryDirectory(), 'future.ndjson');
    const header = { n: 0, k: 'header', version: 6, build: { statelet: '9.0.0' } };
    writeFileSync(file, encodeLine(JSON.stringify(header)) + encodeLine('{"k":"unheard-of"}'));
    const error = errorOf(file);
    expect(error.kind).toBe('unsupported-version');
    expect(error.message).toMatch(
      /it has format 6, this Statelet reads formats 3 to 5; use the one that wrote it \(Statelet 9\.0\.0\)/,
    );
  });
});

describe('opening', () => {
  it('a second writer is refused with the name of the first; after a close the directory is free', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot();
    expect(() => openJournal({ directory })).toThrow(
      new RegExp(`process ${process.pid} .* is writing this journal; stop it or choose another directory`),
    );
    await kernel.journal.close();
    await openJournal({ directory }).close();
  });

  it('a writer that is killed loses nothing that it called durable, and gives the directory back', async () => {
    const directory = temporaryDirectory();
    const script = fileURLToPath(new URL('endless-writer.ts', import.meta.url));
    const child = spawn(process.execPath, [script, directory], { stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (text) => (output += text));
    await eventually(() => output.split('\n').length > 100, 'the writer wrote a while');
    expect(() => openJournal({ directory })).toThrow(`process ${child.pid} `);
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('close', resolve));

    const durable = Number(output.trim().split('\n').at(-1));
    expect(recordsIn(directory).length).toBeGreaterThan(durable);
    expect(segmentsOf(directory).length).toBeGreaterThan(1);
    const next = record(directory).boot();
    expect(next.journal.previous?.incarnation).toBe('000001');
    await next.journal.close();
    expect(verifyJournal(directory).ok).toBe(true);
  });

  it('what a crash left unfinished is removed', async () => {
    const directory = temporaryDirectory();
    mkdirSync(join(directory, 'blobs'));
    for (const name of ['c-1.json.tmp', 'blobs/abc.tmp']) writeFileSync(join(directory, name), 'half');
    await openJournal({ directory }).close();
    expect(readdirSync(directory, { recursive: true }).filter((name) => String(name).endsWith('.tmp'))).toEqual([]);
  });

  it('a directory that cannot contain a journal is an error at once', () => {
    const file = join(temporaryDirectory(), 'file');
    writeFileSync(file, '');
    expect(() => openJournal({ directory: file })).toThrow(/no journal can be kept here: ENOTDIR/);
    expect(() => openJournal({ directory: join(file, 'below') })).toThrow(/no journal can be kept here: ENOTDIR/);
    expect(() => openJournal({ directory: temporaryDirectory(), incarnation: 'a/b' })).toThrow(
      /cannot name an incarnation/,
    );
  });

  it('an incarnation is never written twice', async () => {
    const directory = temporaryDirectory();
    await threeTurns(directory);
    expect(() => openJournal({ directory, incarnation: '000001' })).toThrow(/incarnation 000001 exists already/);
    const copy = temporaryDirectory();
    cpSync(directory, copy, { recursive: true });
    const kernel = record(copy).boot();
    expect(kernel.journal.incarnation).toBe('000002');
    await kernel.journal.close();
  });
});

function whatIsRead(path: string): { records: JournalRecord[]; torn: unknown } | JournalError {
  try {
    const journal = readJournal(path);
    const records = [...journal.records];
    return { records, torn: journal.torn };
  } catch (error) {
    if (error instanceof JournalError) return error;
    throw error;
  }
}
