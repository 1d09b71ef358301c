/** What ends a crash loop, in the kubelet and before `containersAsKubelet`. */
import { afterEach, describe, expect, it } from 'vitest';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { apiPod, bootCountingNode, sendPods } from '../../../../support/counting-node.ts';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const EARLIER = nodeBefore('containersAsKubelet');

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

const starts = (): number => node.world.runtime.started.length;

describe('a crash loop with a short longest back-off', () => {
  /** The number of starts in an hour, of a container that always fails after this time. */
  function startsInAnHour(runsMs: number, settings: Partial<NodeSettings> = {}): number {
    node = new PodsNode({ settings: { crashLoopBackOffMaxMs: 60_000, ...settings } });
    node.world.runtime.images.set('app:1', image('app:1'));
    node.world.runtime.programs.set('app', [{ runsMs, exitCode: 1 }]);
    node.world.setManifests([manifest({ uid: 'u1' })]);
    node.boot().run(3_600_000);
    return starts();
  }

  it('goes on with the longest pause although an instance runs for longer than twice that', () => {
    expect(startsInAnHour(140_000)).toBe(19);
  });

  it('was forgotten then before: there was no pause at all', () => {
    expect(startsInAnHour(140_000, { behavior: EARLIER })).toBe(26);
  });

  it('is forgotten after ten minutes', () => {
    expect(startsInAnHour(601_000)).toBe(6);
  });
});

describe('other resources', () => {
  const asking = (generation: number, cpu: string) =>
    apiPod('p', { containers: [{ name: 'c', image: 'app:1', resources: { requests: { cpu } } }] }, generation);
  const isBackingOff = () => node.status('p')?.containerStatuses?.[0]?.state?.waiting?.reason === 'CrashLoopBackOff';

  function crashLoop(instances: number, settings: Partial<NodeSettings> = {}): void {
    node = bootCountingNode(settings);
    node.world.runtime.programs.set('c', [{ runsMs: 1_000, exitCode: 1 }]);
    sendPods(node, 'ADD', asking(1, '100m'));
    node.until('a pause', () => starts() === instances && isBackingOff(), 60_000);
  }

  it('end the pause of a container that waits for its next start, and reset its back-off', () => {
    crashLoop(4);
    sendPods(node, 'UPDATE', asking(2, '200m'));
    node.run(5_000);
    expect(starts()).toBe(5);
    node.run(10_000);
    expect(starts()).toBe(6);
  });

  it('did not end it before', () => {
    crashLoop(4, { behavior: EARLIER });
    sendPods(node, 'UPDATE', asking(2, '200m'));
    node.run(15_000);
    expect(starts()).toBe(4);
  });

  it('make the first crash of a container that runs the first of all', () => {
    crashLoop(3);
    node.world.runtime.programs.set('c', [{ runsMs: 8_000, exitCode: 1 }]);
    node.until('it runs again', () => node.world.runtime.running('c') !== undefined, 30_000);
    sendPods(node, 'UPDATE', asking(2, '200m'));
    node.run(10_000);
    expect(starts()).toBe(5);
  });
});

describe('an init container that the kernel has killed a process of', () => {
  const pod = (restartPolicy: string, behavior?: number): PodsNode => {
    node = new PodsNode(behavior === undefined ? {} : { settings: { behavior } });
    node.world.runtime.images.set('app:1', image('app:1'));
    node.world.runtime.programs.set('init', [{ runsMs: 1_000, reason: 'OOMKilled' }, { runsMs: 1_000 }]);
    const spec = { restartPolicy, initContainers: [{ name: 'init', image: 'app:1' }] };
    node.world.setManifests([manifest({ uid: 'u1', spec })]);
    return node.boot();
  };
  const started = () => node.world.runtime.started.map((name) => name.replace(/^.*\//, ''));

  it.each(['Always', 'OnFailure'])('runs again with the policy %s, though it ended with 0', (policy) => {
    pod(policy).until('Running', () => node.phase('u1') === 'Running', 60_000);
    expect(started()).toEqual(['init#0', 'init#1', 'app#0']);
  });

  it('has had its run with the policy Never', () => {
    pod('Never').until('Running', () => node.phase('u1') === 'Running', 60_000);
    expect(started()).toEqual(['init#0', 'app#0']);
  });

  it('had its run before', () => {
    pod('Always', EARLIER).until('Running', () => node.phase('u1') === 'Running', 60_000);
    expect(started()).toEqual(['init#0', 'app#0']);
  });
});
