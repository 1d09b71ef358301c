/** The kernel with a real journal: what was written replays, completely and from every checkpoint. */
import { expect, it } from 'vitest';
import { openJournal } from '../../../src/kernel/journal/open.ts';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { replay } from '../../../src/kernel/replay.ts';
import { bootBoss, bossMachine, header } from '../support.ts';
import { BrokenDisk, eventually, segmentsOf, temporaryDirectory } from './support.ts';

it('a journal of several segments replays whole, and each segment alone from its checkpoint', async () => {
  const directory = temporaryDirectory();
  const sink = openJournal({ directory, durability: 'none', segmentMaxBytes: 1_500 });
  const { kernel } = bootBoss({ sink, header: { ...header(), incarnation: sink.incarnation } });
  for (let i = 0; i < 20; i++) {
    kernel.dispatch('boss', { type: 'hire', name: `worker ${i}` }, 'test');
    await new Promise<void>((resolve) => sink.whenDurable(resolve));
  }
  await sink.close();

  const whole = readJournal(directory);
  const report = replay({ machine: bossMachine, records: whole.records });
  expect(report).toMatchObject({ divergence: null, inputs: 20, turns: 21 });
  const later = segmentsOf(directory).slice(1);
  expect(later.length).toBeGreaterThan(2);
  for (const segment of later) {
    const { checkpoint, header, records } = readJournal(segment);
    const from = { checkpoint: checkpoint!.state, header };
    expect(replay({ machine: bossMachine, records, from })).toMatchObject({ divergence: null });
    expect(from.checkpoint.n).toBe(checkpoint!.after + 1);
  }
});

it('with what a full disk dropped, it still replays: inputs and digests are there', async () => {
  const directory = temporaryDirectory();
  const disk = new BrokenDisk();
  const sink = openJournal({ directory, durability: 'none', disk });
  const { kernel } = bootBoss({ sink, header: { ...header(), incarnation: sink.incarnation } });
  await new Promise<void>((resolve) => sink.whenDurable(resolve));
  for (let i = 0; i < 20; i++) kernel.dispatch('boss', { type: 'hire', name: `worker ${i}` }, 'test');
  disk.room = 9_000;
  await sink.close();
  expect(sink.suspension).toBeUndefined();
  const { records } = readJournal(directory);
  expect([...records].some(({ k }) => k === 'dropped')).toBe(true);
  expect(replay({ machine: bossMachine, records })).toMatchObject({ divergence: null, inputs: 20 });
});

it('what was written after a full disk replays alone, from the checkpoint behind the gap', async () => {
  const directory = temporaryDirectory();
  const disk = new BrokenDisk();
  const sink = openJournal({ directory, durability: 'none', disk, retryMs: 5, roomMinBytes: 0 });
  const { kernel } = bootBoss({ sink, header: { ...header(), incarnation: sink.incarnation } });
  await new Promise<void>((resolve) => sink.whenDurable(resolve));
  disk.failure = 'ENOSPC';
  kernel.dispatch('boss', { type: 'hire', name: 'unheard' }, 'test');
  await eventually(() => sink.wantsCheckpoint, 'the journal looks at the disk again');
  disk.failure = undefined;
  for (let i = 0; i < 5; i++) kernel.dispatch('boss', { type: 'hire', name: `worker ${i}` }, 'test');
  await sink.close();

  const whole = readJournal(directory);
  expect(() => replay({ machine: bossMachine, records: whole.records })).toThrow('replay cannot cross record');
  const behind = readJournal(directory, { from: 'newest-checkpoint' });
  expect([...behind.records][0]).toMatchObject({ k: 'gap' });
  const from = { checkpoint: behind.checkpoint!.state, header: behind.header };
  expect(replay({ machine: bossMachine, records: behind.records, from })).toMatchObject({
    divergence: null,
    inputs: 4,
  });
});
