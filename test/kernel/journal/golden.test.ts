/** Journals in each released format: today's kernel reads and replays them. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { verifyJournal } from '../../../src/kernel/journal/verify.ts';
import { FORMAT_VERSION } from '../../../src/kernel/records.ts';
import { replay } from '../../../src/kernel/replay.ts';
import { shopMachine } from './golden-shop.ts';
import { segmentsOf } from './support.ts';

const JOURNALS = join(import.meta.dirname, '../../golden/journals');
const RECORDS = 242;

describe.each([3, 4, 5])('a journal of format %i', (format) => {
  const journal = join(JOURNALS, `v${format}/shop`);

  it('is read as one of the format of today', () => {
    const { header, records } = readJournal(journal);
    expect(header).toMatchObject({ version: FORMAT_VERSION, input: format === 3 ? { behavior: 0 } : {} });
    expect([...records][0]).toEqual(header);
  });

  it('is whole', () => {
    const { ok, incarnations } = verifyJournal(journal);
    expect({ ok, ...incarnations[0] }).toMatchObject({ ok: true, incarnation: '000001', segments: 3, checkpoints: 2 });
    const kinds = new Set([...readJournal(journal).records].map(({ k }) => k));
    expect([...kinds].sort()).toEqual([
      'cancel',
      'effect',
      'end',
      'header',
      'in',
      'log',
      'message',
      'result',
      'state',
      'timer',
    ]);
  });

  it('replays to the end without a difference', () => {
    const report = replay({ machine: shopMachine, records: readJournal(journal).records });
    expect(report).toMatchObject({ divergence: null, records: RECORDS });
  });

  it.each(segmentsOf(journal).slice(1))('replays from the checkpoint of %s', (segment) => {
    const { header, checkpoint, records } = readJournal(segment);
    const from = { checkpoint: checkpoint!.state, header };
    expect(replay({ machine: shopMachine, records, from })).toMatchObject({ divergence: null });
  });
});
