import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { verifyJournal } from '../../../src/kernel/journal/verify.ts';
import { record, recordsIn, segmentsOf, temporaryDirectory } from './support.ts';

describe('a journal gives back what it was given', () => {
  it('record by record, with the header as the first of them', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot();
    for (let i = 0; i < 500; i++) kernel.turn();
    await kernel.journal.close();

    const journal = readJournal(directory);
    expect([...journal.records]).toEqual(kernel.records);
    expect(journal.header).toEqual(kernel.records[0]);
    expect(journal.checkpoint).toBeUndefined();
    expect(journal.torn).toBeUndefined();
    expect([...journal.records].length, 'a second reading').toBe(kernel.records.length);
    expect(verifyJournal(directory)).toMatchObject({ ok: true, incarnations: [{ turns: 501, records: 3002 }] });
  });

  it('whatever JSON can say, blobs and impostors of blobs included', async () => {
    const json = fc.jsonValue({ maxDepth: 4, depthSize: 'large' });
    const big = fc.string({ unit: 'binary', minLength: 4000, maxLength: 9000 });
    const impostor = fc.record({ $blob: fc.oneof(json, fc.constant('0'.repeat(64))), bytes: fc.nat() });
    const hostile = fc
      .oneof(json, big, impostor)
      .map((value) => JSON.parse(`{"__proto__":${JSON.stringify(value)},"\u2028":${JSON.stringify([value])}}`));
    const value = fc.oneof(json, big, impostor, hostile, fc.array(fc.oneof(hostile, big), { maxLength: 5 }));
    await fc.assert(
      fc.asyncProperty(fc.array(value, { maxLength: 8 }), async (values) => {
        const directory = temporaryDirectory();
        const kernel = record(directory).boot();
        for (const [at, value] of values.entries()) {
          kernel.append({ k: 'result', t: 1_000 + at, id: 1, at: 'a', name: 'n', output: value } as never);
          kernel.turn({ type: 'x', value });
        }
        await kernel.journal.close();
        // Compared as text, because the equality of a test ignores `__proto__`.
        expect(JSON.stringify(recordsIn(directory))).toBe(JSON.stringify(kernel.records));
      }),
      { numRuns: 60 },
    );
  });

  it('but not what JSON cannot say: it becomes what JSON makes of it', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot();
    kernel.turn({ type: 'x', none: Number.NaN, infinite: Number.POSITIVE_INFINITY, absent: undefined });
    await kernel.journal.close();
    const event = recordsIn(directory).find(({ k }) => k === 'in');
    expect(JSON.stringify(event)).toContain('{"type":"x","none":null,"infinite":null}');
  });
});

describe('durability', () => {
  it('the callback comes after the record is in the file, and never at once', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory, { durability: 'second' }).boot();
    let called = false;
    kernel.journal.whenDurable(() => (called = true));
    expect(called).toBe(false);
    await kernel.durable();
    expect(recordsIn(directory)).toEqual(kernel.records);
    expect(called).toBe(true);
    await kernel.durable();
    await kernel.journal.close();
  });

  it('turns of one tick share a batch, and a long tick is written in pieces', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot();
    for (let i = 0; i < 5; i++) kernel.turn();
    await kernel.durable();
    expect(links(directory)).toBe(1);
    for (let i = 0; i < 1000; i++) kernel.turn();
    await kernel.journal.close();
    expect(links(directory)).toBeGreaterThan(3);
  });

  it('a kernel that dies within a turn leaves what it did, and readers leave it out', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot().turn();
    const whole = kernel.records.length;
    kernel.append({ k: 'timer', t: 5_000, id: 1, at: 'a', event: 'e' } as never);
    await kernel.journal.close();
    const journal = readJournal(directory);
    expect([...journal.records]).toEqual(kernel.records.slice(0, whole));
    expect(journal.torn).toMatchObject({ records: 1, why: 'the last turn has no end' });
  });

  it('a record that does not follow, a second header and a foreign header are mistakes of the kernel', async () => {
    const kernel = record(temporaryDirectory());
    const wrong = (fields: object) => () => kernel.journal.append(fields as never);
    expect(wrong({ n: 0, k: 'cancel', id: 1 })).toThrow(/a cancel came where record 0 was expected/);
    expect(wrong({ n: 0, k: 'header', incarnation: 'x' })).toThrow(/names incarnation x, but this one is 000001/);
    kernel.boot();
    expect(wrong({ n: 9, k: 'cancel', id: 1 })).toThrow(/a cancel came where record 2 was expected/);
    expect(wrong({ n: 2, k: 'header', incarnation: '000001' })).toThrow(/a header came where record 2 was expected/);
    await kernel.journal.close();
  });
});

describe('blobs', () => {
  const manifest = { containers: Array.from({ length: 2_000 }, (_, i) => ({ name: `c${i}`, image: `image-${i}` })) };

  it('a big value is kept once, beside small ones that stay in the line', async () => {
    const directory = temporaryDirectory();
    const kernel = record(directory).boot();
    for (let i = 0; i < 10; i++)
      kernel.turn({ type: 'pod.updated', pod: { spec: manifest, status: { phase: `p${i}` } } });
    await kernel.journal.close();
    expect(readdirSync(join(directory, 'blobs'))).toHaveLength(1);
    expect(statSync(segmentsOf(directory)[0]!).size).toBeLessThan(12_000);
    expect(recordsIn(directory)).toEqual(kernel.records);
  });

  it('the next incarnation uses what the one before stored', async () => {
    const directory = temporaryDirectory();
    for (let i = 0; i < 2; i++) {
      const kernel = record(directory).boot().turn({ type: 'x', manifest });
      await kernel.journal.close();
    }
    expect(readdirSync(join(directory, 'blobs'))).toHaveLength(1);
    expect(verifyJournal(directory).ok).toBe(true);
  });
});

function links(directory: string): number {
  return readFileSync(segmentsOf(directory)[0]!, 'utf8').split('"k":"chain"').length - 1;
}
