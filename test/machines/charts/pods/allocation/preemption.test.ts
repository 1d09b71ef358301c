/** How long a critical pod waits for the pods that it displaces: proves A3 of `allocation.ts`. */
import { afterEach, describe, expect, it } from 'vitest';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { apiPod, bootCountingNode, sendPods } from '../../../../support/counting-node.ts';
import { manifest, type PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const HIGHEST = 2_000_000_000;
const EXCEEDED = 'ExceededGracePeriod: Container runtime did not kill the pod within specified grace period.';
let node: PodsNode;

interface Wanted {
  readonly cpu: string;
  readonly grace?: number;
}

/** The specification of a pod with this name; `high` has a higher priority than all others. */
const specOf = (uid: string, { cpu, grace = 1 }: Wanted) => ({
  containers: [{ name: 'app', image: 'app:1', resources: { requests: { cpu } } }],
  priority: uid === 'high' ? HIGHEST : 1,
  terminationGracePeriodSeconds: grace,
});

/** Static pods, because they stay wanted without a server. */
const want = (pods: Readonly<Record<string, Wanted>>): void =>
  node.world.setManifests(
    Object.entries(pods).map(([uid, each]) => manifest({ uid, name: uid, spec: specOf(uid, each) })),
  );

/** A full node, whose runtime does not stop the sandboxes of these pods. */
function bootStuck(pods: Readonly<Record<string, Wanted>>, settings: Partial<NodeSettings> = {}): void {
  node = bootCountingNode(settings);
  want(pods);
  node.until('Running', () => Object.keys(pods).every(isUp));
  node.world.fault = (name) => (name === 'cri.stopPodSandbox' ? { hangs: true } : undefined);
}
const isUp = (uid: string): boolean => node.phase(uid) === 'Running';
const exceeded = (): number => node.events().filter((text) => text === EXCEEDED).length;

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('a critical pod', () => {
  it.each([
    [200, 300],
    [1, 10],
  ])('waits for a pod with a grace period of %d s for %d s, as by the kubelet', (grace, seconds) => {
    const low = { cpu: '1500m', grace };
    bootStuck({ low });
    want({ low, high: { cpu: '1' } });
    node.run(seconds * 1_000 - 500);
    expect(node.podState('high')).toBe('admitting');
    expect(exceeded()).toBe(0);
    node.run(1_500);
    expect(isUp('high')).toBe(true);
    expect(exceeded()).toBe(1);
  });

  it('came after a minute before', () => {
    const low = { cpu: '1500m', grace: 200 };
    bootStuck({ low }, { behavior: nodeBefore('podDetailsAsKubelet') });
    want({ low, high: { cpu: '1' } });
    node.run(59_500);
    expect(node.podState('high')).toBe('admitting');
    node.run(1_500);
    expect(isUp('high')).toBe(true);
  });

  it('waits for each of the pods that it displaces', () => {
    const others = { low: { cpu: '1500m', grace: 20 }, slow: { cpu: '500m', grace: 80 } };
    bootStuck(others);
    want({ ...others, high: { cpu: '2' } });
    node.run(100_000);
    expect(exceeded()).toBe(1);
    expect(node.podState('high')).toBe('admitting');
    node.run(21_000);
    expect(isUp('high')).toBe(true);
    expect(exceeded()).toBe(2);
  });

  it('does not wait for ever for a pod that was evicted before', () => {
    const low = { cpu: '1500m', grace: 200 };
    bootStuck({ low });
    const verdict = { reason: 'Evicted', message: 'low on memory', published: 'once', disruptionTarget: true };
    node.kernel.dispatch('kubelet/pods', { type: 'pods.kill', uid: 'low', graceSeconds: 1, verdict }, 'test');
    node.run(1_000);
    want({ low, high: { cpu: '1' } });
    node.run(302_000);
    expect(isUp('high')).toBe(true);
    expect(node.status('low')?.reason).toBe('Evicted');
  });
});

it('a resize for a critical pod waits as long', () => {
  node = bootCountingNode();
  const asking = (uid: string, wanted: Wanted, generation: number) => apiPod(uid, specOf(uid, wanted), generation);
  const [low, high] = [asking('low', { cpu: '1500m', grace: 40 }, 1), asking('high', { cpu: '100m' }, 1)];
  sendPods(node, 'ADD', low, high);
  node.until('Running', () => isUp('low') && isUp('high'));
  node.world.fault = (name) => (name === 'cri.stopPodSandbox' ? { hangs: true } : undefined);
  sendPods(node, 'UPDATE', asking('high', { cpu: '1' }, 2));
  const allocated = () => node.status('high')?.allocatedResources;
  node.run(59_000);
  expect(allocated()).toEqual({ cpu: '100m' });
  node.run(2_000);
  expect(allocated()).toEqual({ cpu: '1' });
});
