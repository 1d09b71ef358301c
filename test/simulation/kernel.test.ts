/**
 * Seeded runs of a small system in a faulty world. Each must replay identically from its beginning and from a
 * checkpoint in the middle, and two runs of one seed must write the same journal.
 */
import { describe, expect, it } from 'vitest';
import { Kernel } from '../../src/kernel/kernel.ts';
import { SeededRandom } from '../../src/kernel/purity.ts';
import type { Checkpoint, HeaderRecord, KernelRecord } from '../../src/kernel/records.ts';
import { replay } from '../../src/kernel/replay.ts';
import { bossMachine, header, MemorySink } from '../kernel/support.ts';
import { type Faults, FaultyWorld, VirtualTime, type WorldModel } from '../support/virtual-world.ts';

const SEEDS = 300;
const STEPS = 60;
const faults: Faults = { fail: 0.15, loseAnswer: 0.1, duplicate: 0.1, hang: 0.05, delayMaxMs: 900 };
const words = ['hire', 'hire', 'order', 'order', 'order', 'bomb', 'fire'] as const;

function run(seed: number) {
  const time = new VirtualTime(1_000_000);
  const chance = new SeededRandom(seed ^ 0x5eed);
  const listeners: ((word: string) => void)[] = [];
  const model: WorldModel = ({ name, input }, emit) => {
    if (name === 'world.look') return { output: { seen: 'sun' } };
    if (name === 'world.make') return { output: { made: `thing of ${(input as { name: string }).name}` } };
    listeners.push((word) => emit({ type: 'heard', word }));
    return 'stream';
  };
  const sink = new MemorySink();
  const checkpoints: Checkpoint[] = [];
  const performer = new FaultyWorld(seed, time, faults, model);
  const kernel = new Kernel({ machine: bossMachine, header: header(seed), sink, performer, time }).boot();
  for (let step = 0; step < STEPS; step++) {
    const type = words[Math.floor(chance.next() * words.length)]!;
    kernel.dispatch('boss', { type, name: 'abc'[Math.floor(chance.next() * 3)]! }, 'simulation');
    if (chance.next() < 0.2) listeners[Math.floor(chance.next() * listeners.length)]?.('knock');
    time.advanceTo(time.now() + Math.floor(chance.next() * 3_000));
    if (chance.next() < 0.1) checkpoints.push(structuredClone(kernel.checkpoint()));
  }
  return { records: sink.records, checkpoints };
}

describe('a simulated system', () => {
  it(`replays identically, whole and from every checkpoint, for ${SEEDS} seeds`, () => {
    let records = 0;
    let checkpoints = 0;
    let crashes = 0;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const simulated = run(seed);
      expect(replay({ machine: bossMachine, records: simulated.records }).divergence, `seed ${seed}`).toBeNull();
      for (const checkpoint of simulated.checkpoints) {
        const tail = simulated.records.slice(checkpoint.n);
        const from = { checkpoint, header: simulated.records[0] as HeaderRecord };
        const report = replay({ machine: bossMachine, records: tail, from });
        expect(report.divergence, `seed ${seed} from record ${checkpoint.n}`).toBeNull();
        expect(report.records).toBe(tail.length);
      }
      records += simulated.records.length;
      checkpoints += simulated.checkpoints.length;
      crashes += simulated.records.filter((r) => r.k === 'state' && r.status === 'error').length;
    }
    console.log(`${SEEDS} seeds: ${records} records, ${crashes} crashes, ${checkpoints} checkpoint replays`);
    expect(crashes).toBeGreaterThan(SEEDS);
    expect(checkpoints).toBeGreaterThan(SEEDS);
  });

  it('writes the same journal for the same seed, and another for another', () => {
    const text = (records: KernelRecord[]) => JSON.stringify(records);
    expect(text(run(42).records)).toBe(text(run(42).records));
    expect(text(run(42).records)).not.toBe(text(run(43).records));
  });
});
