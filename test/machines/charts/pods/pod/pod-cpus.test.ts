/** Pods on a node with exclusive CPUs and memory: C1 and C2 of `pod-allocation.ts`, M1 and M2 of `pod-memory.ts`. */
import { afterEach, describe, expect, it } from 'vitest';
import type { ResourcesHeld } from '../../../../../src/machines/model/allocation/resource-grants.ts';
import type { Pod, ResourceRequirements } from '../../../../../src/machines/model/api/pod.ts';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { ADMISSION, apiPod, bootCountingNode, sendPods } from '../../../../support/counting-node.ts';
import { manifest, type PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const WITH_MANAGER: NonNullable<NodeSettings['admission']> = {
  ...ADMISSION,
  allocatable: { ...ADMISSION.allocatable, cpu: '3000' },
  wholeNode: { ...ADMISSION.wholeNode, cpu: '3000' },
  cpuManager: {
    cpus: [0, 1, 2, 3].map((id) => ({ id, core: id, socket: 0, numaNode: 0 })),
    reserved: [0],
    wholeCores: false,
    isReservationStrict: false,
  },
};

let node: PodsNode;

const asking = (uid: string, resources: ResourceRequirements, generation = 1): Pod =>
  apiPod(uid, { containers: [{ name: 'c', image: 'app:1', resources }] }, generation);
const send = (op: 'ADD' | 'UPDATE', pod: Pod) => sendPods(node, op, pod);
const whole = (cpu: string) => ({ limits: { cpu, memory: '1Mi' }, requests: { cpu, memory: '1Mi' } });
const reported = () => node.world.callsOf('cri.updateContainerResources').length;

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('others leave the CPUs of a guaranteed container, whose CPU cannot be resized', () => {
  node = bootCountingNode({ admission: WITH_MANAGER });
  send('ADD', asking('shared', {}));
  node.until('it runs', () => node.phase('shared') === 'Running');
  node.run(1_000);
  expect(reported()).toBe(1);
  send('ADD', asking('own', whole('2')));
  node.until('it runs', () => node.phase('own') === 'Running');
  node.run(1_000);
  // For the container with shared CPUs; the other one was created with its CPUs.
  expect(reported()).toBe(2);
  expect(node.world.softState.grants).toMatchObject({ own: { cpus: { c: '1-2' } } });
  send('UPDATE', asking('own', whole('3'), 2));
  node.run(1_000);
  expect(node.status('own')?.conditions).toContainEqual(
    expect.objectContaining({
      type: 'PodResizePending',
      reason: 'Infeasible',
      message: 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"',
    }),
  );
  expect(reported()).toBe(2);
});

it('a container that begins anew is created with its CPUs, too, and the next agent sends them once', () => {
  node = bootCountingNode({ admission: WITH_MANAGER });
  const containers = [{ name: 'c', image: 'app:1', resources: whole('2') }];
  node.world.setManifests([manifest({ uid: 'own', containers })]);
  node.until('it runs', () => node.phase('own') === 'Running');
  node.world.runtime.exit(node.world.runtime.running('c')!, 1);
  node.until('it runs again', () => node.status('own')?.containerStatuses?.[0]?.restartCount === 1);
  node.run(1_000);
  expect(reported()).toBe(0);
  node = node.restart();
  node.until('it is known', () => node.phase('own') === 'Running');
  node.run(1_000);
  expect(reported()).toBe(1);
});

describe('the memory of an init container', () => {
  const memory = { memory: { total: '4194304', systemReserved: '1048576' } };
  const memoryManager = { nodes: [{ id: 0, memory }] };
  const sized = (amount: string) => ({ cpu: '100m', memory: amount });
  const exactly = (amount: string) => ({ resources: { limits: sized(amount), requests: sized(amount) } });
  const spec = {
    initContainers: [{ name: 'init', image: 'app:1', ...exactly('3Mi') }],
    containers: [{ name: 'c', image: 'app:1', ...exactly('1Mi') }],
  };
  function start(behavior?: number): void {
    const change = behavior === undefined ? {} : { behavior };
    node = bootCountingNode({ admission: { ...ADMISSION, memoryManager }, makesPodCgroups: false, ...change });
    node.world.runtime.programs.set('init', [{ runsMs: 5_000, exitCode: 0 }]);
    node.world.setManifests([manifest({ uid: 'one', spec })]);
  }
  const heldBlocks = () => {
    const held = node.sink.records.flatMap((record) =>
      record.k === 'message' && record.event.type === 'resources.held'
        ? [record.event as unknown as ResourcesHeld]
        : [],
    );
    return held.at(-1)?.memory;
  };
  const small = () => asking('two', exactly('2Mi').resources);

  it('is that of other pods when the next container runs, and of its own pod until then', () => {
    start();
    node.run(3_000);
    expect(Object.keys(heldBlocks()?.['one'] ?? {})).toEqual(['init', 'c']);
    node.until('runs', () => node.phase('one') === 'Running');
    expect(heldBlocks()).toEqual({ one: { c: [{ numaAffinity: [0], type: 'memory', size: '1048576' }] } });
    send('ADD', small());
    node.until('runs', () => node.phase('two') === 'Running');
  });

  it('is free for the next agent as well, which finds the pod running', () => {
    start();
    node.until('runs', () => node.phase('one') === 'Running').run(3_000);
    node = node.restart(0, { admission: { ...ADMISSION, memoryManager } });
    node.run(2_000);
    expect(Object.keys(heldBlocks()?.['one'] ?? {})).toEqual(['c']);
  });

  it('stayed with the pod before', () => {
    start(nodeBefore('podDetailsAsKubelet'));
    node.until('runs', () => node.phase('one') === 'Running').run(1_000);
    send('ADD', small());
    node.run(1_000);
    expect(node.status('two')).toMatchObject({ phase: 'Failed', reason: 'UnexpectedAdmissionError' });
  });
});

it('a guaranteed container is created on the NUMA nodes of its memory, which cannot be resized', () => {
  const memory = { memory: { total: '4194304', systemReserved: '1048576' } };
  const memoryManager = { nodes: [0, 1].map((id) => ({ id, memory })) };
  node = bootCountingNode({ admission: { ...ADMISSION, memoryManager }, makesPodCgroups: false });
  const wants = (amount: string) => ({
    limits: { cpu: '500m', memory: amount },
    requests: { cpu: '500m', memory: amount },
  });
  send('ADD', asking('one', wants('2Mi')));
  send('ADD', asking('two', wants('2Mi')));
  send('ADD', asking('shared', {}));
  for (const uid of ['one', 'two', 'shared']) node.until(`${uid} runs`, () => node.phase(uid) === 'Running');
  const nodes = [...node.world.runtime.containers.values()].map(({ config, sandbox }) => [
    sandbox.config.metadata?.uid,
    config.linux?.resources?.cpuset_mems,
  ]);
  expect(Object.fromEntries(nodes)).toEqual({ one: '0', two: '1', shared: undefined });
  send('UPDATE', asking('one', wants('1Mi'), 2));
  send('ADD', asking('three', wants('2Mi')));
  node.run(1_000);
  expect(node.status('one')?.conditions).toContainEqual(
    expect.objectContaining({
      reason: 'Infeasible',
      message: 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"',
    }),
  );
  expect(node.status('three')).toMatchObject({
    phase: 'Failed',
    reason: 'UnexpectedAdmissionError',
    message:
      'Pod was rejected: Allocate failed due to [memorymanager] failed to get the default NUMA affinity, no NUMA ' +
      'nodes with enough memory is available, which is unexpected',
  });
});
