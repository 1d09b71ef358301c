/** A pod that the node ends (eviction, shutdown): its status, and that it stays ended. */
import { afterEach, expect, it } from 'vitest';
import type { PodKillWanted } from '../../../../src/machines/model/pods/pod-messages.ts';
import type { NodeSettings } from '../../../../src/machines/model/settings/node-settings.ts';
import { image, manifest, PodsNode } from '../../../support/pods-node.ts';
import { nodeBefore } from './support.ts';

const UID = 'u1';
let node: PodsNode;

function running(settings: Partial<NodeSettings> = {}): PodsNode {
  node = new PodsNode({ settings });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests([manifest({ uid: UID, spec: { terminationGracePeriodSeconds: 60 } })]);
  return node.boot().until('Running', () => node.phase(UID) === 'Running');
}

const order: PodKillWanted = {
  type: 'pods.kill',
  uid: UID,
  graceSeconds: 1,
  verdict: {
    reason: 'Evicted',
    message: 'The node was low on resource: memory. ',
    published: 'once',
    disruptionTarget: true,
  },
};
const kill = (more: Partial<PodKillWanted> = {}): void =>
  void node.kernel.dispatch('kubelet/pods', { ...order, ...more }, 'test');
const EXCEEDED = 'ExceededGracePeriod: Container runtime did not kill the pod within specified grace period.';
const reports = () => node.events().filter((text) => text === EXCEEDED).length;
const isOver = (): boolean => (node.podState(UID) as { terminated?: unknown } | undefined)?.terminated === 'kept';
const disruption = () => node.status(UID)?.conditions?.find(({ type }) => type === 'DisruptionTarget');

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('fails at once, for the reason of the node, with a word about the disruption', () => {
  running();
  kill();
  expect(node.status(UID)).toMatchObject({ phase: 'Failed', reason: 'Evicted', message: order.verdict.message });
  expect(disruption()).toMatchObject({
    status: 'True',
    reason: 'TerminationByKubelet',
    message: order.verdict.message,
  });
  node.until('over', isOver);
  const stops = node.sink.records.flatMap((record) =>
    record.k === 'effect' && record.name === 'cri.stopContainer' ? [record.input] : [],
  );
  // Every stop has a grace period of two seconds.
  expect(stops).toMatchObject([{ timeoutSeconds: 2 }]);
});

it('tells the shutdown manager that its containers have ended, then that its volumes are unmounted', () => {
  running({ shutdown: { periods: [{ priority: 0, graceSeconds: 10 }], stateFile: '/state' } });
  kill();
  node.until('over', isOver);
  const told = node.sink.records.flatMap((record) =>
    JSON.stringify(record).includes('node.podChanged') && record.k === 'message' ? [record.event] : [],
  );
  expect(told.slice(-2)).toEqual([
    { type: 'node.podChanged', uid: UID, pod: null },
    { type: 'node.podChanged', uid: UID, pod: null, isReclaimed: true },
  ]);
});

it.each([
  [1, 10],
  [null, 90],
])('with a grace of %s s is reported if its end takes more than %d s', (graceSeconds, limit) => {
  running();
  node.world.fault = (name) => (name === 'cri.stopPodSandbox' ? { hangs: true } : undefined);
  kill({ graceSeconds });
  node.run(limit * 1_000 - 100);
  expect(reports()).toBe(0);
  node.run(600_000);
  expect(reports()).toBe(1);
});

it('is not reported when it ends in time, nor on an earlier node', () => {
  running();
  kill();
  node.until('over', isOver).run(60_000);
  expect(reports()).toBe(0);
  running({ behavior: nodeBefore('podLifeAsKubelet') });
  node.world.fault = (name) => (name === 'cri.stopPodSandbox' ? { hangs: true } : undefined);
  kill();
  node.run(60_000);
  expect(reports()).toBe(0);
});

it('leaves nothing in the runtime a minute later, and its status as it was', () => {
  running();
  kill();
  node.until('over', isOver);
  const before = node.status(UID);
  expect(node.world.runtime.containers.size).toBe(1);
  node.run(90_000);
  expect(node.world.runtime.containers.size).toBe(0);
  expect(node.status(UID)).toEqual(before);
});

it('stays failed and is not started again, whatever its restart policy', () => {
  running();
  kill();
  node.until('over', isOver);
  node.run(600_000);
  expect(node.phase(UID)).toBe('Failed');
  expect(node.status(UID)?.reason).toBe('Evicted');
  expect(node.world.runtime.started).toHaveLength(1);
});

it('that ends well yet has succeeded, as the recorded kubelet has it', () => {
  node = new PodsNode();
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.runtime.programs.set('app', [{ stopExitCode: 0 }]);
  node.world.setManifests([manifest({ uid: UID, spec: { restartPolicy: 'OnFailure' } })]);
  node.boot().until('Running', () => node.phase(UID) === 'Running');
  kill();
  node.until('over', isOver);
  expect(node.phase(UID)).toBe('Succeeded');
  expect(node.status(UID)).not.toHaveProperty('reason');
});

it('goes when its manifest goes', () => {
  running();
  kill();
  node.until('over', isOver);
  node.world.setManifests([]);
  node.until('gone', () => node.podState(UID) === undefined);
  expect(node.world.runtime.containers.size).toBe(0);
});

it('an order for a pod that is not there changes nothing', () => {
  running();
  node.kernel.dispatch('kubelet/pods', { ...order, uid: 'nobody' }, 'test');
  node.run(1_000);
  expect(node.phase(UID)).toBe('Running');
});
