/** Pods on a node that keeps CPUs and memory apart: proves C1 and C2 of `pod-cpus.ts`. */
import { afterEach, expect, it } from 'vitest';
import type { Pod, ResourceRequirements } from '../../../../src/machines/api/pod.ts';
import type { NodeSettings } from '../../../../src/machines/node-settings.ts';
import { withDefaults } from '../../../../src/machines/pods/config/defaults.ts';
import { image, PodsNode } from '../../../support/pods-node.ts';

const ADMISSION: NonNullable<NodeSettings['admission']> = {
  allocatable: { cpu: '3000', memory: '1000000000', pods: '110' },
  wholeNode: { cpu: '3000', memory: '1100000000' },
  labels: {},
  taints: [],
  sysctls: { kernelVersion: '6.1.0', allowedUnsafe: [] },
  appArmor: false,
  cpuManager: {
    cpus: [0, 1, 2, 3].map((id) => ({ id, core: id, socket: 0, numaNode: 0 })),
    reserved: [0],
    wholeCores: false,
    isReservationStrict: false,
  },
};

let node: PodsNode;

function apiPod(uid: string, resources: ResourceRequirements, generation = 1): Pod {
  const annotations = { 'kubernetes.io/config.source': 'api' };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: uid, namespace: 'default', uid, generation, annotations },
    spec: withDefaults({ containers: [{ name: 'c', image: 'app:1', resources }] }),
    status: { phase: 'Pending' },
  };
}

const tell = (op: 'ADD' | 'UPDATE', pod: Pod) =>
  void node.kernel.dispatch('kubelet/pods', { type: 'config.pods', op, source: 'api', pods: [pod] }, 'test');
const whole = (cpu: string) => ({ limits: { cpu, memory: '1Mi' }, requests: { cpu, memory: '1Mi' } });
const told = () => node.world.callsOf('cri.updateContainerResources').length;

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('others leave the CPUs of a guaranteed container, whose CPU cannot be resized', () => {
  node = new PodsNode({ settings: { admission: ADMISSION, makesPodCgroups: true } });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.boot().run(100);
  tell('ADD', apiPod('shared', {}));
  node.until('it runs', () => node.phase('shared') === 'Running');
  node.run(1_000);
  expect(told()).toBe(1);
  tell('ADD', apiPod('own', whole('2')));
  node.until('it runs', () => node.phase('own') === 'Running');
  node.run(1_000);
  expect(told()).toBe(3);
  expect(node.world.softState.grants).toMatchObject({ own: { cpus: { c: '1-2' } } });
  tell('UPDATE', apiPod('own', whole('3'), 2));
  node.run(1_000);
  expect(node.status('own')?.conditions).toContainEqual(
    expect.objectContaining({
      type: 'PodResizePending',
      reason: 'Infeasible',
      message: 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"',
    }),
  );
  expect(told()).toBe(3);
});

it('a guaranteed container is created on the NUMA nodes of its memory, which cannot be resized', () => {
  const memory = { memory: { total: '4194304', systemReserved: '1048576' } };
  const { cpuManager: _none, ...admission } = ADMISSION;
  const memoryManager = { nodes: [0, 1].map((id) => ({ id, memory })) };
  node = new PodsNode({ settings: { admission: { ...admission, memoryManager } } });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.boot().run(100);
  const wants = (amount: string) => ({
    limits: { cpu: '500m', memory: amount },
    requests: { cpu: '500m', memory: amount },
  });
  tell('ADD', apiPod('one', wants('2Mi')));
  tell('ADD', apiPod('two', wants('2Mi')));
  tell('ADD', apiPod('shared', {}));
  for (const uid of ['one', 'two', 'shared']) node.until(`${uid} runs`, () => node.phase(uid) === 'Running');
  const nodes = [...node.world.runtime.containers.values()].map(({ config, sandbox }) => [
    sandbox.config.metadata?.uid,
    config.linux?.resources?.cpuset_mems,
  ]);
  expect(Object.fromEntries(nodes)).toEqual({ one: '0', two: '1', shared: undefined });
  tell('UPDATE', apiPod('one', wants('1Mi'), 2));
  tell('ADD', apiPod('three', wants('2Mi')));
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
