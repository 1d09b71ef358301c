/** Which CPUs are taken from a pool, with each option, compared with the answers of the Go kubelet 1.36.2. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { distribute, pack, threadsPerCore } from '../../../../src/machines/model/allocation/cpu-assignment.ts';
import { alignedCpus, cpuHints } from '../../../../src/machines/model/allocation/cpu-manager.ts';
import type { Cpu } from '../../../../src/machines/model/settings/node-settings.ts';
import { formatCpuSet, parseCpuSet } from '../../../../src/machines/model/values/cpu-set.ts';

/** As the kernel numbers them: first one thread of each core, socket by turns, then the second threads. */
function machine(sockets: number, cores: number, threads: number): readonly Cpu[] {
  const all = sockets * cores;
  return Array.from({ length: all * threads }, (_, id) => {
    const socket = (id % all) % sockets;
    return { id, core: Math.floor((id % all) / sockets), socket, numaNode: socket };
  });
}

/** Cores 0/4, 1/5, 2/6 and 3/7. */
const ONE_SOCKET = machine(1, 4, 2);
/** Even CPUs in one socket, odd ones in the other; cores 0/6, 2/8, 4/10 and 1/7, 3/9, 5/11. */
const TWO_SOCKETS = machine(2, 3, 2);

describe('CPUs are packed', () => {
  it.each([
    ['one, as a thread', ONE_SOCKET, [0, 1, 2, 3, 4, 5, 6, 7], 1, [0]],
    ['one, from a core that is broken into', ONE_SOCKET, [1, 2, 3, 4, 5, 6, 7], 1, [4]],
    ['two, as a core', ONE_SOCKET, [1, 2, 3, 4, 5, 6, 7], 2, [1, 5]],
    ['three, as a core and a thread that is left', ONE_SOCKET, [1, 2, 3, 4, 5, 6, 7], 3, [1, 4, 5]],
    ['all', ONE_SOCKET, [0, 1, 2, 3, 4, 5, 6, 7], 8, [0, 1, 2, 3, 4, 5, 6, 7]],
    ['a whole socket', TWO_SOCKETS, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 6, [1, 3, 5, 7, 9, 11]],
    ['a core of the socket that is broken into', TWO_SOCKETS, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 2, [2, 8]],
    [
      'a core of the lower of two like sockets, whichever CPU is its first',
      TWO_SOCKETS,
      [1, 2, 4, 7, 8, 10, 3, 9],
      2,
      [2, 8],
    ],
    ['none', ONE_SOCKET, [0], 0, []],
    ['more than there are, as nothing', ONE_SOCKET, [0, 2, 4, 6], 5, null],
  ] as const)('%s', (_, cpus, available, wanted, expected) => {
    expect(pack(cpus, available, wanted)).toEqual(expected);
  });
});

interface Recorded {
  /** Number, core, socket, NUMA node and cache of each CPU. */
  readonly cpus: readonly (readonly [number, number, number, number, number])[];
  readonly free: string;
  readonly wanted: number;
  readonly packed: string;
  readonly byCache: string;
  readonly distributed: string;
  readonly distributedCores: string;
  readonly spread: string;
  /** With `align-by-socket`: the hints for the CPUs, and the free CPUs that are aligned with a node. */
  readonly bySocket: {
    readonly hints: readonly (readonly [nodes: readonly number[], preferred: boolean])[];
    readonly node: number;
    readonly aligned: string;
  };
}

const GOLDEN = join(import.meta.dirname, '../../../golden/cpus/choices.ndjson');
const recorded = readFileSync(GOLDEN, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Recorded);

function machineOf({ cpus, free }: Recorded) {
  const parsed = parseCpuSet(free);
  return {
    cpus: cpus.map(([id, core, socket, numaNode, cache]) => ({ id, core, socket, numaNode, cache })),
    free: parsed.error === undefined ? parsed.value : [],
  };
}

it.each(recorded.map((each, at) => [at + 1, each] as const))('as recorded on machine %i', (_, each) => {
  const { cpus, free } = machineOf(each);
  const { wanted } = each;
  const answers = {
    packed: pack(cpus, free, wanted),
    byCache: pack(cpus, free, wanted, { byCache: true }),
    distributed: distribute(cpus, free, wanted, 1),
    distributedCores: distribute(cpus, free, wanted, threadsPerCore(cpus)),
    spread: pack(cpus, free, wanted, { isSpread: true }),
  };
  const texts = Object.fromEntries(Object.entries(answers).map(([name, found]) => [name, formatCpuSet(found!)]));
  const { packed, byCache, distributed, distributedCores, spread } = each;
  expect(texts).toEqual({ packed, byCache, distributed, distributedCores, spread });
});

it.each(recorded.map((each, at) => [at + 1, each] as const))('by socket as recorded on machine %i', (_, each) => {
  const { cpus, free } = machineOf(each);
  const settings = { cpus, reserved: [], wholeCores: false, isReservationStrict: false, isSocketAligned: true };
  const taken = cpus.map(({ id }) => id).filter((id) => !free.includes(id));
  const books = { settings, grants: [{ cpus: { other: formatCpuSet(taken) } }], progress: { cpus: {}, reusable: [] } };
  const hints = cpuHints(books, each.wanted).map(({ nodes, preferred }) => JSON.stringify([nodes, preferred]));
  const { hints: recordedHints, node, aligned } = each.bySocket;
  expect(hints.toSorted()).toEqual(recordedHints.map((hint) => JSON.stringify(hint)).toSorted());
  expect(formatCpuSet(alignedCpus(settings, free, [node]))).toBe(aligned);
});

it('fewer than are wanted are not distributed', () => {
  expect(distribute(ONE_SOCKET, [0, 1], 3, 1)).toBeNull();
});
