/** The NUMA nodes that follow from hints, compared with the Go kubelet's topology manager. */

import { describe, expect, it } from 'vitest';
import { cpuHints } from '../../../../src/machines/model/allocation/cpu-manager.ts';
import type { ExclusiveRequest } from '../../../../src/machines/model/allocation/request.ts';
import { assign } from '../../../../src/machines/model/allocation/resource-assignment.ts';
import {
  align,
  MISALIGNED,
  type NumaHint,
  type ProviderHints,
} from '../../../../src/machines/model/allocation/topology-manager.ts';
import type { Holding, NumaSet } from '../../../../src/machines/model/operations/grants.ts';
import type {
  CpuManagerSettings,
  ResourceManagers,
  TopologyPolicy,
  TopologySettings,
} from '../../../../src/machines/model/settings/node-settings.ts';

const REFUSED = { rejection: MISALIGNED };
const yes = (...nodes: number[]): NumaHint => ({ nodes, preferred: true });
const no = (...nodes: number[]): NumaHint => ({ nodes, preferred: false });
const under = (policy: TopologyPolicy, nodes: NumaSet = [0, 1]): TopologySettings => ({
  policy,
  scope: 'container',
  nodes,
});

describe('hints are merged', () => {
  /** The results of best-effort, restricted and single-numa-node on a machine with two nodes. */
  it.each<[string, ProviderHints[], NumaHint, NumaHint | null, NumaHint | null]>([
    ['none at all', [], yes(0, 1), yes(0, 1), { nodes: null, preferred: true }],
    ['nobody cares', [{}, { gpu: null }], yes(0, 1), yes(0, 1), { nodes: null, preferred: true }],
    ['one cannot', [{ cpu: [] }], no(0, 1), null, null],
    ['one prefers a node', [{ cpu: [yes(0), yes(1), no(0, 1)] }], yes(0), yes(0), yes(0)],
    ['two agree on the second', [{ cpu: [yes(0), yes(1)] }, { gpu: [yes(1)] }], yes(1), yes(1), yes(1)],
    ['two do not agree', [{ cpu: [yes(0)] }, { gpu: [yes(1)] }], no(0, 1), null, null],
    ['both need both', [{ cpu: [yes(0, 1)] }, { gpu: [yes(0, 1)] }], yes(0, 1), yes(0, 1), null],
    ['one needs both, one has the first', [{ cpu: [yes(0, 1)] }, { gpu: [yes(0)] }], no(0), null, null],
    ['one would rather not', [{ cpu: [no(1)] }, { gpu: [yes(1)] }], no(1), null, null],
    ['one does not care', [{}, { gpu: [yes(1), no(0, 1)] }], yes(1), yes(1), yes(1)],
  ])('%s', (_, hints, bestEffort, restricted, single) => {
    expect(align(under('best-effort'), hints)).toEqual(bestEffort);
    expect(align(under('restricted'), hints)).toEqual(restricted ?? REFUSED);
    expect(align(under('single-numa-node'), hints)).toEqual(single ?? REFUSED);
  });

  it.each<[string, ProviderHints[], NumaHint]>([
    ['as many nodes as are needed', [{ a: [no(0), no(0, 1), no(0, 1, 2)] }, { b: [yes(1, 2), yes(0, 1)] }], no(0, 1)],
    [
      'a little less before more',
      [{ a: [no(0, 1, 2, 3)] }, { b: [yes(0, 1), no(0, 1, 2)] }, { c: [no(1, 2)] }],
      no(1, 2),
    ],
    ['lower nodes of as many', [{ a: [yes(2, 3), yes(0, 3), yes(1, 2)] }], yes(1, 2)],
  ])('into %s', (_, hints, expected) => {
    expect(align(under('best-effort', [0, 1, 2, 3]), hints)).toEqual(expected);
  });

  it('into the closest nodes where that is wanted', () => {
    const far = [10, 40];
    const distances = [
      [10, 40, 20, 30],
      [40, 10, 30, 20],
      [20, 30, 10, 40],
      [30, 20, 40, 10],
    ];
    const hints = [{ cpu: [yes(0, 1), yes(0, 2), yes(1, 3), yes(0, 3)] }];
    const nodes = [0, 1, 2, 3];
    expect(align(under('restricted', nodes), hints)).toEqual(yes(0, 1));
    expect(align({ ...under('restricted', nodes), distances }, hints)).toEqual(yes(0, 2));
    expect(align({ ...under('restricted'), distances: [far, far] }, [{ cpu: [yes(1), yes(0)] }])).toEqual(yes(0));
  });

  it('of many nodes in a moment', () => {
    const nodes = [0, 1, 2, 3, 4, 5, 6, 7];
    const all = nodes
      .reduce<number[][]>((sets, node) => [...sets, ...sets.map((set) => [...set, node])], [[]])
      .slice(1);
    const hints = all.map((set) => ({ nodes: set, preferred: set.length === 2 }));
    const lists = ['cpu', 'memory', 'gpu', 'nic'].map((name) => ({ [name]: hints }));
    expect(align(under('restricted', nodes), lists)).toEqual(yes(0, 1));
  });
});

/** Two nodes with four CPUs each, one of which is reserved. */
const CPUS: CpuManagerSettings = {
  cpus: [0, 1, 2, 3, 4, 5, 6, 7].map((id) => ({
    id,
    core: id,
    socket: Math.floor(id / 4),
    numaNode: Math.floor(id / 4),
  })),
  reserved: [0],
  wholeCores: false,
  isReservationStrict: false,
};
const node = (id: number) => ({ id, memory: { memory: { total: '400', systemReserved: '100' } } });
const MANAGERS: ResourceManagers = { cpuManager: CPUS, memoryManager: { nodes: [node(0), node(1)] } };

describe('CPUs are hinted', () => {
  const nothing = { cpus: {}, reusable: [] };
  it.each<[number, Holding[], NumaHint[]]>([
    [3, [], [yes(0), yes(1), no(0, 1)]],
    [4, [], [yes(1), no(0, 1)]],
    [5, [], [yes(0, 1)]],
    [2, [{ cpus: { c: '1-2,4-6' } }], [no(0, 1)]],
    [8, [], []],
  ])('%i', (count, held, expected) => {
    expect(cpuHints({ settings: CPUS, grants: held, progress: nothing }, count)).toEqual(expected);
  });

  it('from where an init container had its own', () => {
    const progress = { cpus: {}, reusable: [4, 5] };
    const books = { settings: CPUS, grants: [{ cpus: { i: '4-5' } }], progress };
    expect(cpuHints(books, 1)).toEqual([yes(1), no(0, 1)]);
  });
});

const request = (container: string, cpus: number, memory: string, isInit = false): ExclusiveRequest => ({
  container,
  isInit,
  cpus,
  memory: { memory },
});
const block = (size: string, ...numaAffinity: number[]) => [{ numaAffinity, type: 'memory', size }];
const give = (
  topology: Partial<TopologySettings>,
  requests: readonly ExclusiveRequest[],
  held: readonly Holding[] = [],
) => assign({ ...MANAGERS, topology: { ...under('single-numa-node'), ...topology } }, requests, held);

describe('CPUs and memory come from one place', () => {
  it('also where the memory is the one that has to move', () => {
    const held = [{ cpus: { x: '1-2' }, memory: { x: block('250', 1) } }];
    expect(assign(MANAGERS, [request('a', 2, '100')], held)).toEqual({
      cpus: { a: '3-4' },
      memory: { a: block('100', 0) },
    });
    expect(give({}, [request('a', 1, '100')], held)).toEqual({ cpus: { a: '3' }, memory: { a: block('100', 0) } });
    expect(give({}, [request('a', 2, '100')], held)).toEqual(REFUSED);
    expect(give({ policy: 'best-effort' }, [request('a', 2, '100')], held)).toMatchObject({ cpus: { a: '3-4' } });
  });

  it('each container from its own, or all from the same', () => {
    const two = [request('a', 2, '100'), request('b', 2, '200')];
    expect(give({}, two)).toEqual({
      cpus: { a: '1-2', b: '4-5' },
      memory: { a: block('100', 0), b: block('200', 1) },
    });
    expect(give({ scope: 'pod' }, two)).toEqual({
      cpus: { a: '4-5', b: '6-7' },
      memory: { a: block('100', 1), b: block('200', 1) },
    });
    expect(give({ scope: 'pod' }, [...two, request('c', 1, '1')])).toEqual(REFUSED);
  });

  it('a pod needs the most that its containers have at once', () => {
    const containers = [request('i', 4, '300', true), request('a', 2, '100'), request('b', 2, '100')];
    expect(give({ scope: 'pod' }, containers)).toMatchObject({ cpus: { i: '4-7', a: '4-5', b: '6-7' } });
  });

  it('memory that cannot be had says so itself', () => {
    const message = expect.stringContaining('failed to find NUMA nodes to extend the current topology hint');
    expect(give({}, [request('a', 1, '700')])).toEqual({ rejection: { reason: 'UnexpectedAdmissionError', message } });
  });
});
