/** The NUMA nodes of containers' memory, compared with the Go kubelet's static policy. */

import { describe, expect, it } from 'vitest';
import {
  allocatableMemory,
  machineMemory,
  memorySettings,
} from '../../../../src/machines/model/allocation/memory-state.ts';
import { exclusiveRequests } from '../../../../src/machines/model/allocation/request.ts';
import { assign } from '../../../../src/machines/model/allocation/resource-assignment.ts';
import { isNarrower, subsetsOf } from '../../../../src/machines/model/allocation/topology-manager.ts';
import type { Pod } from '../../../../src/machines/model/api/pod.ts';
import type { Holding, MemoryBlock } from '../../../../src/machines/model/operations/grants.ts';
import type { MemoryManagerSettings } from '../../../../src/machines/model/settings/node-settings.ts';
import { MACHINE_INFO } from '../../startup/boot-node.ts';

const GIB = 1_024n ** 3n;
const gib = (count: number) => String(BigInt(count) * GIB);

/** Two nodes of 4 GiB, with 1 GiB of each reserved for the system. */
const table = (total: number, systemReserved: number) => ({ total: gib(total), systemReserved: gib(systemReserved) });
const TWO: MemoryManagerSettings = { nodes: [0, 1].map((id) => ({ id, memory: { memory: table(4, 1) } })) };
const FOUR: MemoryManagerSettings = { nodes: [0, 1, 2, 3].map((id) => ({ id, memory: { memory: table(4, 1) } })) };

type Asked = readonly [name: string, memory: string, restartPolicy?: string];
const containers = (asked: readonly Asked[]) =>
  asked.map(([name, memory, restartPolicy]) => ({
    name,
    ...(restartPolicy === undefined ? {} : { restartPolicy: 'Always' as const }),
    resources: { limits: { cpu: '1500m', memory } },
  }));
const pod = (apps: readonly Asked[], inits: readonly Asked[] = []): Pod => ({
  metadata: { uid: 'u', name: 'p', namespace: 'n' },
  spec: { containers: containers(apps), initContainers: containers(inits) },
});

const give = (settings: MemoryManagerSettings, wanted: Pod, held: readonly Holding[] = []) =>
  assign(
    { memoryManager: settings },
    exclusiveRequests(wanted, { admission: { memoryManager: settings } as never }),
    held,
  );
const block = (numaAffinity: readonly number[], count: number, type = 'memory'): MemoryBlock => ({
  numaAffinity,
  type,
  size: gib(count),
});
const holding = (...blocks: readonly MemoryBlock[]): Holding => ({ memory: { other: blocks } });

describe('memory comes', () => {
  it.each([
    ['from the first node that has enough', TWO, '2Gi', [], [block([0], 2)]],
    ['from the next one when that is taken', TWO, '2Gi', [holding(block([0], 2))], [block([1], 2)]],
    ['from both when one is too small', TWO, '5Gi', [], [block([0, 1], 5)]],
    ['from a group again for as large a request', TWO, '4Gi', [holding(block([0, 1], 2))], [block([0, 1], 4)]],
    ['from a group that is free beside a single', FOUR, '5Gi', [holding(block([0], 1))], [block([1, 2], 5)]],
    ['from a group where no node is alone any more', TWO, '1Gi', [holding(block([0, 1], 1))], [block([0, 1], 1)]],
    ['from another node than those of a group', FOUR, '1Gi', [holding(block([0, 1], 4))], [block([2], 1)]],
  ] as const)('%s', (_, settings, amount, held, expected) => {
    expect(give(settings, pod([['a', amount]]), held)).toEqual({ memory: { a: expected } });
  });

  it('with huge pages of the same node', () => {
    const huge = { 'hugepages-2Mi': table(1, 0) };
    const settings = {
      nodes: [0, 1].map((id) => ({ id, memory: { memory: table(4, 1), ...(id === 1 ? huge : {}) } })),
    };
    const wanted = pod([['a', '1Gi']]);
    const [first] = wanted.spec.containers;
    const limits = { cpu: '1500m', memory: '1Gi', 'hugepages-2Mi': '1Gi' };
    const spec = { containers: [{ ...first!, resources: { limits } }] };
    expect(give(settings, { ...wanted, spec })).toEqual({
      memory: { a: [block([1], 1, 'hugepages-2Mi'), block([1], 1)] },
    });
  });
});

describe('memory is refused', () => {
  const because = (cause: string) => ({
    rejection: {
      reason: 'UnexpectedAdmissionError',
      message: `Allocate failed due to [memorymanager] ${cause}, which is unexpected`,
    },
  });
  const none = 'failed to get the default NUMA affinity, no NUMA nodes with enough memory is available';
  it.each([
    ['where no node has enough', '7Gi', []],
    ['where what is left is in nodes that serve others alone', '4Gi', [holding(block([0], 1)), holding(block([1], 1))]],
  ] as const)('%s', (_, amount, held) => {
    expect(give(TWO, pod([['a', amount]]), held)).toEqual(because(none));
  });
});

describe('nodes are chosen for', () => {
  it('guaranteed pods only, and not where the pod as a whole has its resources', () => {
    const { metadata, spec } = pod([['a', '1Gi']]);
    const [first] = spec.containers;
    const burstable = { ...first!, resources: { requests: { memory: '1Gi' }, limits: { memory: '2Gi' } } };
    expect(give(TWO, { metadata, spec: { containers: [burstable] } })).toEqual({});
    const resources = { requests: { cpu: '2', memory: '1Gi' }, limits: { cpu: '2', memory: '1Gi' } };
    expect(give(TWO, { metadata, spec: { ...spec, resources } })).toEqual({});
  });

  it('each container, and what init containers had is used again', () => {
    expect(give(TWO, pod([['a', '3Gi']], [['i', '2Gi']]))).toEqual({
      memory: { i: [block([0], 0)], a: [block([0], 3)] },
    });
    const sidecar: Asked = ['s', '1Gi', 'Always'];
    expect(give(TWO, pod([['a', '1Gi']], [['i', '2Gi'], sidecar]))).toEqual({
      memory: { i: [block([0], 0)], s: [block([0], 1)], a: [block([0], 1)] },
    });
  });
});

it('a machine is what its nodes are, less what is reserved and set aside for huge pages', () => {
  const machine = {
    ...MACHINE_INFO,
    topology: {
      ...MACHINE_INFO.topology,
      numaNodes: [{ id: 0, memoryBytes: gib(4), hugePages: [{ kib: 2_048, count: 512 }] }],
    },
  };
  const settings = memorySettings(machine, new Map([[0, new Map([['memory', GIB]])]]));
  expect(allocatableMemory(settings)).toEqual([block([0], 1, 'hugepages-2Mi'), block([0], 2)]);
  expect(allocatableMemory(memorySettings({ ...MACHINE_INFO, memoryBytes: gib(4) }, new Map()))).toEqual([
    block([0], 4),
  ]);
});

it('blocks of nodes and resources that are gone count nowhere', () => {
  const given = [{ a: [block([7], 1), block([0], 1, 'hugepages-1Gi'), block([0], 1)] }];
  expect(machineMemory(TWO, given).get(0)!.tables.get('memory')!.free).toBe(2n * GIB);
});

it('sets of nodes are tried from the narrowest, in the order of their ids', () => {
  expect(subsetsOf([0, 1, 2])).toEqual([[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]);
  expect(isNarrower([3], [0, 1])).toBe(true);
  expect(isNarrower([0, 3], [1, 2])).toBe(false);
  expect(isNarrower([1, 2], [1, 2])).toBe(false);
});
