/** A pod that runs outside of its cgroup when the agent starts: proves G4 and G5 of `pod-group.ts`. */
import { afterEach, describe, expect, it } from 'vitest';
import type { RestartPolicy } from '../../../../../src/machines/model/api/pod.ts';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { ADMISSION, bootCountingNode } from '../../../../support/counting-node.ts';
import { manifest, type PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const PATH = '/kubepods/besteffort/podu1';
let node: PodsNode;

/** A pod that runs under an agent without cgroups of pods; the next one has them. */
function bootMisplaced(restartPolicy: RestartPolicy, settings: Partial<NodeSettings> = {}): void {
  node = bootCountingNode({ makesPodCgroups: false });
  node.world.setManifests([manifest({ uid: 'u1', spec: { restartPolicy, terminationGracePeriodSeconds: 7 } })]);
  node.until('Running', () => node.phase('u1') === 'Running').run(3_000);
  node = node.restart(0, { admission: ADMISSION, makesPodCgroups: true, ...settings });
}
const started = () => node.world.runtime.started.length;
const stops = () =>
  node.sink.records.flatMap((record) =>
    record.k === 'effect' && record.name === 'cri.stopContainer' ? [record.input] : [],
  );

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('a pod that runs outside of its cgroup', () => {
  it('is stopped with its grace period, and runs again in a new sandbox in the cgroup', () => {
    bootMisplaced('Always');
    expect(node.world.groups.has(PATH)).toBe(false);
    node.until('runs again', () => started() === 2 && node.isReady('u1'));
    expect(stops()).toMatchObject([{ timeoutSeconds: 7 }]);
    expect(node.world.groups.has(PATH)).toBe(true);
    expect(node.world.callsOf('cri.runPodSandbox')).toHaveLength(2);
    expect(node.status('u1')?.containerStatuses).toMatchObject([{ restartCount: 1 }]);
    expect(node.events()).toContain('SandboxChanged: Pod sandbox changed, it will be killed and re-created.');
    node.run(60_000);
    expect(started()).toBe(2);
  });

  it('has ended if it runs only once', () => {
    bootMisplaced('Never');
    node.until('over', () => node.phase('u1') === 'Failed');
    node.run(60_000);
    expect(started()).toBe(1);
  });

  it('is moved by the agent after one that ended in between', () => {
    bootMisplaced('Always');
    node.until('stopping', () => stops().length === 1);
    expect(node.world.groups.has(PATH)).toBe(false);
    node = node.restart(0, { admission: ADMISSION, makesPodCgroups: true });
    node.until('runs again', () => started() === 2 && node.isReady('u1'));
  });

  it('stayed there before', () => {
    bootMisplaced('Always', { behavior: nodeBefore('podDetailsAsKubelet') });
    node.run(60_000);
    expect(started()).toBe(1);
    expect(node.world.groups.has(PATH)).toBe(true);
  });
});

it('a pod that runs in its cgroup is not touched', () => {
  node = bootCountingNode();
  node.world.setManifests([manifest({ uid: 'u1' })]);
  node.until('Running', () => node.phase('u1') === 'Running').run(3_000);
  node = node.restart(0, { admission: ADMISSION, makesPodCgroups: true });
  node.run(60_000);
  expect(started()).toBe(1);
  expect(stops()).toEqual([]);
});
