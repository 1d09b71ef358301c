/** Ended pods hold nothing of the node, whichever agent ended them. */
import { afterEach, expect, it } from 'vitest';
import type { Pod, PodStatus } from '../../../../../src/machines/model/api/pod.ts';
import { apiPod, bootCountingNode, sendPods } from '../../../../support/counting-node.ts';
import { manifest, type PodsNode } from '../../../../support/pods-node.ts';

let node: PodsNode;

const asking = (uid: string, cpu: string, status?: PodStatus | null): Pod => {
  const containers = [{ name: uid, image: 'app:1', resources: { requests: { cpu } } }];
  const pod = apiPod(uid, { restartPolicy: 'Never', containers });
  return { ...pod, ...(status ? { status } : {}) };
};
const isRunning = (uid: string) => () => node.phase(uid) === 'Running';
const succeeded = (uid: string): PodStatus => ({
  phase: 'Succeeded',
  containerStatuses: [{ name: uid, state: { terminated: { exitCode: 0 } } }] as PodStatus['containerStatuses'] & object,
});

function restartWith(...pods: readonly Pod[]): void {
  node = node.restart();
  node.world.fault = () => undefined;
  node.run(1);
  const uids = pods.map(({ metadata }) => metadata.uid);
  node.kernel.dispatch('kubelet/syncLoop', { type: 'config.sourceReady', source: 'api', uids }, 'test');
  for (const pod of pods) {
    sendPods(node, 'ADD', pod);
    node.run(100);
  }
}

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('one that ended before the agent began again leaves its room to others', () => {
  node = bootCountingNode();
  node.world.setManifests([]);
  node.world.runtime.programs.set('job', [{ runsMs: 3_000, exitCode: 0 }]);
  sendPods(node, 'ADD', asking('job', '1500m'));
  node.until('over', () => node.phase('job') === 'Succeeded');
  node.run(3_000);
  restartWith(asking('new', '1'), asking('job', '1500m', node.status('job')));
  node.until('Running', isRunning('new'));
  expect(node.phase('job')).toBe('Succeeded');
});

it('one whose end was not published runs again after a reboot, and has its resources', () => {
  node = bootCountingNode();
  node.world.setManifests([]);
  node.world.runtime.programs.set('job', [
    { runsMs: 3_000, exitCode: 0 },
    { runsMs: 60_000, exitCode: 0 },
  ]);
  sendPods(node, 'ADD', asking('job', '1500m'));
  node.until('over', () => node.phase('job') === 'Succeeded');
  node.run(3_000);
  node.world.runtime.containers.clear();
  node.world.runtime.sandboxes.clear();
  restartWith(asking('job', '1500m'));
  node.until('Running again', isRunning('job'));
  sendPods(node, 'ADD', asking('new', '1'));
  node.until('refused', () => node.status('new')?.reason === 'OutOfcpu');
});

it('one whose sandbox is still to be stopped stays ended, even if another pod has its resources by now', () => {
  node = bootCountingNode();
  node.world.setManifests([]);
  node.world.runtime.programs.set('job', [{ runsMs: 3_000, exitCode: 0 }]);
  node.world.fault = (name) => (name === 'cri.stopPodSandbox' ? { hangs: true } : undefined);
  sendPods(node, 'ADD', asking('job', '1500m'));
  node.until('over', () => node.phase('job') === 'Succeeded');
  sendPods(node, 'ADD', asking('new', '1'));
  node.until('Running', isRunning('new'));
  node.run(3_000);
  restartWith(asking('new', '1', node.status('new')), asking('job', '1500m'));
  node.run(5_000);
  expect(node.phase('job')).toBe('Succeeded');
  expect(node.phase('new')).toBe('Running');
});

it('one of which only the API server knows stays what it was, is given nothing, and its image is not pulled', () => {
  node = bootCountingNode();
  sendPods(node, 'ADD', asking('big', '3', succeeded('big')), asking('job', '1500m', succeeded('job')));
  sendPods(node, 'ADD', asking('new', '1'));
  node.until('Running', isRunning('new'));
  expect(['big', 'job'].map((uid) => node.phase(uid))).toEqual(['Succeeded', 'Succeeded']);
  expect(node.world.callsOf('cri.imageStatus')).toHaveLength(1);
});

it('one that the API server has as over is not given its image while its sandbox is stopped', () => {
  node = bootCountingNode();
  node.world.setManifests([]);
  node.world.fault = (name) => (name === 'cri.createContainer' ? { hangs: true } : undefined);
  sendPods(node, 'ADD', asking('job', '100m'));
  node.until('created', () => node.world.callsOf('cri.createContainer').length === 1);
  const before = node.world.callsOf('cri.imageStatus').length;
  restartWith(asking('job', '100m', succeeded('job')));
  node.run(5_000);
  expect(node.phase('job')).toBe('Succeeded');
  expect(node.world.callsOf('cri.imageStatus')).toHaveLength(before);
});

it('one from a file that the node ended, and that runs again after the next start, is counted again', () => {
  node = bootCountingNode();
  const containers = [{ name: 'app', image: 'app:1', resources: { requests: { cpu: '1500m' } } }];
  node.world.setManifests([manifest({ uid: 'st', containers })]);
  node.until('Running', isRunning('st'));
  const verdict = { reason: 'Terminated', message: 'Pod was terminated in response to imminent node shutdown.' };
  const kill = { type: 'pods.kill', uid: 'st', graceSeconds: 0, verdict: { ...verdict, published: 'always' } };
  node.kernel.dispatch('kubelet/pods', kill, 'test');
  node.until('over', () => node.phase('st') === 'Failed');
  node.run(3_000);
  restartWith();
  node.until('Running', isRunning('st'));
  sendPods(node, 'ADD', asking('new', '1'));
  node.run(2_000);
  expect(node.status('new')).toMatchObject({ phase: 'Failed', reason: 'OutOfcpu' });
});

it('one of the API server that the node ended, and that runs again before its end was published, is counted again', () => {
  node = bootCountingNode();
  node.world.setManifests([]);
  const always = {
    ...asking('web', '1500m'),
    spec: { ...asking('web', '1500m').spec, restartPolicy: 'Always' },
  } as Pod;
  sendPods(node, 'ADD', always);
  node.until('Running', isRunning('web'));
  const before = node.status('web') as PodStatus;
  const verdict = { reason: 'Evicted', message: 'The node was low on resource: memory.', published: 'always' };
  node.kernel.dispatch('kubelet/pods', { type: 'pods.kill', uid: 'web', graceSeconds: 0, verdict }, 'test');
  node.until('over', () => node.phase('web') === 'Failed');
  node.run(3_000);
  restartWith({ ...always, status: before });
  node.until('Running', isRunning('web'));
  sendPods(node, 'ADD', asking('new', '1'));
  node.run(2_000);
  expect(node.status('new')).toMatchObject({ phase: 'Failed', reason: 'OutOfcpu' });
});
