/** Journals of each format that a release writes: today's kernel reads and replays them. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../../src/kernel/checkpoint.ts';
import { readJournal, verifyJournal } from '../../../src/kernel/journal/index.ts';
import { replay } from '../../../src/kernel/replay.ts';
import { shopMachine } from './golden-shop.ts';
import { segmentsOf } from './support.ts';

const JOURNAL = join(import.meta.dirname, '../../golden/journals/v3/shop');
const RECORDS = 242;

describe('a journal of format 3', () => {
  it('is whole', () => {
    const { ok, incarnations } = verifyJournal(JOURNAL);
    expect({ ok, ...incarnations[0] }).toMatchObject({ ok: true, incarnation: '000001', segments: 3, checkpoints: 2 });
    const kinds = new Set([...readJournal(JOURNAL).records].map(({ k }) => k));
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
    const report = replay({ machine: shopMachine, records: readJournal(JOURNAL).records });
    expect(report).toMatchObject({ divergence: null, records: RECORDS });
  });

  it.each(segmentsOf(JOURNAL).slice(1))('replays from the checkpoint of %s', (segment) => {
    const { header, checkpoint, records } = readJournal(segment);
    const from = { checkpoint: checkpoint!.state as Checkpoint, header };
    expect(replay({ machine: shopMachine, records, from })).toMatchObject({ divergence: null });
  });
});
