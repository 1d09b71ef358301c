/**
 * Starts in worlds where answers come late, twice, wrong or never: every seed ends with a running node or with a named
 * failure, and no fault changes the order of the documents.
 */
import { describe, expect, it } from 'vitest';
import type { Performer } from '../../src/kernel/effects.ts';
import type { JsonEvent } from '../../src/kernel/json.ts';
import { Kernel } from '../../src/kernel/kernel.ts';
import { replay } from '../../src/kernel/replay.ts';
import type { Operations } from '../../src/machines/model/operations/index.ts';
import { NEWEST_BEHAVIOR } from '../../src/machines/model/settings/behaviors.ts';
import type { Failure, KubeletInput } from '../../src/machines/startup/context/types.ts';
import { kubeletMachine } from '../../src/machines/startup/kubelet.ts';
import { header, MemorySink } from '../kernel/support.ts';
import { ARGV, FIRST_WORDS, HEALTHY, ok } from '../machines/startup/boot-node.ts';
import { CONTRADICTIONS, checkOrder, DOCUMENTS } from '../machines/startup/order/index.ts';
import { type Faults, FaultyWorld, VirtualTime, type WorldModel } from '../support/virtual-world.ts';

const SEEDS = 60;
const BOOT_MS = 30_000;
const ARGUMENTS = [...ARGV, '--lock-file=/run/lock', '--exit-on-lock-contention', '--config=/etc/kubelet.yaml'];
const PROMISES = [...DOCUMENTS.flatMap(({ promises }) => promises), ...CONTRADICTIONS.flatMap(({ kept }) => kept)];

const WORDS: Readonly<Record<string, (input: never) => JsonEvent>> = {
  ...FIRST_WORDS,
  'host.watchManifests': () => ({ type: 'manifests.changed', manifests: [], objects: [], errors: [] }),
  'cri.watchPods': () => ({ type: 'runtime.relisted', uids: [] }),
};

const model: WorldModel = ({ name, input }, emit) => {
  const words = WORDS[name];
  if (words) {
    emit(words(input as never));
    return 'stream';
  }
  if (name === 'host.loadSoftState') return ok({ containers: {}, probes: {} });
  if (name === 'host.fileSystem') return ok({ capacityBytes: '1000', availableBytes: '900' });
  if (name === 'cri.imageFsInfo') return ok({ mountpoint: '/', usedBytes: '0', inodesUsed: '0' });
  if (name === 'images.listIntents') return ok({ images: [] });
  const answer = HEALTHY[name as keyof Operations];
  if (answer === undefined || typeof answer === 'function' || answer === 'hangs') throw new Error(`no answer: ${name}`);
  return answer;
};

type End = { readonly exitCode: number; readonly failure: Failure | null };

function simulate(seed: number, faults: Faults) {
  const time = new VirtualTime(1_700_000_000_000);
  const sink = new MemorySink();
  const input: KubeletInput = {
    argv: ARGUMENTS,
    dataDir: null,
    version: 'v1.36.2',
    behavior: NEWEST_BEHAVIOR,
    journalDir: '/journal',
  };
  const faulty = new FaultyWorld(seed, time, faults, model);
  const steady = new FaultyWorld(seed, time, { ...faults, fail: 0 }, model);
  // Other tests cover the reaction of each subsystem to a broken stream.
  const performer: Performer = {
    perform: (request, ...rest) => (request.class === 'stream' ? steady : faulty).perform(request, ...rest),
  };
  let ended: End | null = null;
  const kernel = new Kernel({
    machine: kubeletMachine,
    header: { ...header(seed), input },
    sink,
    performer,
    time,
    onStopped: (end) => void (ended = 'output' in end ? (end.output as End) : null),
  }).boot();
  time.advanceTo(time.now() + BOOT_MS, () => ended !== null);
  return {
    records: sink.records,
    state: (kernel.snapshotOf('kubelet') as { value: unknown } | undefined)?.value,
    end: ended as End | null,
  };
}

type Simulation = ReturnType<typeof simulate>;

function assertSound({ records }: Simulation, seed: number): void {
  const crashes = records.filter((record) => record.k === 'state').filter(({ status }) => status === 'error');
  expect(crashes, `seed ${seed}`).toEqual([]);
  expect(checkOrder(records, PROMISES), `seed ${seed}`).toEqual([]);
  expect(replay({ machine: kubeletMachine, records }).divergence, `seed ${seed}`).toBeNull();
}

const RUNNING = {
  alive: { startup: { startKubelet: { kubeletRun: { synchronizing: 'up' }, serving: 'blocked' } } },
};
const QUIET: Faults = { fail: 0, loseAnswer: 0, duplicate: 0, hang: 0, delayMaxMs: 0 };
const seeds = Array.from({ length: SEEDS }, (_, i) => i + 1);

describe('a boot in a faulty world', () => {
  it('is late, but whole and in order, when answers are late and come twice', () => {
    for (const seed of seeds) {
      const boot = simulate(seed, { ...QUIET, duplicate: 0.3, delayMaxMs: 500 });
      expect(boot.end, `seed ${seed}`).toBeNull();
      expect(boot.state, `seed ${seed}`).toMatchObject(RUNNING);
      assertSound(boot, seed);
    }
  });

  it('ends in a running node or in a failure with a name, when calls fail or their answers are lost', () => {
    const outcomes = new Set<string>();
    for (const seed of seeds) {
      const boot = simulate(seed, { ...QUIET, fail: 0.08, loseAnswer: 0.04, duplicate: 0.1, delayMaxMs: 50 });
      assertSound(boot, seed);
      outcomes.add(boot.end?.failure?.phase ?? 'running');
      const wanted = boot.end ? { exitCode: 1, failure: { exitCode: 1 } } : RUNNING;
      expect(boot.end ?? boot.state, `seed ${seed}`).toMatchObject(wanted);
    }
    expect(outcomes).toContain('running');
    expect(outcomes.size, [...outcomes].join(', ')).toBeGreaterThan(5);
  });

  it('waits where it says that it waits, when an answer never comes', () => {
    let waiting = 0;
    for (const seed of seeds) {
      const boot = simulate(seed, { ...QUIET, hang: 0.08, delayMaxMs: 50 });
      assertSound(boot, seed);
      expect(boot.end, `seed ${seed}`).toBeNull();
      if (!JSON.stringify(boot.state).includes('"blocked"')) waiting++;
    }
    expect(waiting).toBeGreaterThan(SEEDS / 4);
  });

  it('is the same boot for the same seed', () => {
    const faults: Faults = { fail: 0.1, loseAnswer: 0.1, duplicate: 0.1, hang: 0.02, delayMaxMs: 200 };
    expect(simulate(7, faults).records).toEqual(simulate(7, faults).records);
  });
});
