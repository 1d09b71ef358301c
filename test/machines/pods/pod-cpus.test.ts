/** Pods on a node that keeps CPUs apart: proves C1 and C2 of `pod-cpus.ts`. */
import { afterEach, expect, it } from 'vitest';
import type { Pod, ResourceRequirements } from '../../../src/machines/api/pod.ts';
import type { NodeSettings } from '../../../src/machines/node-settings.ts';
import { withDefaults } from '../../../src/machines/pods/defaults.ts';
import { image, PodsNode } from '../../support/pods-node.ts';

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
