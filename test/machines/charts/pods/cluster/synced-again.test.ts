/** Pods that cannot run as they are: their reports, and what is retried for them. */
import { afterEach, describe, expect, it } from 'vitest';
import type { PodStatus } from '../../../../../src/machines/model/api/pod.ts';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { ADMISSION } from '../../../../support/counting-node.ts';
import { manifest, type PodsNode } from '../../../../support/pods-node.ts';
import { clusterNode } from './support.ts';

/** The last behavior before `syncsAsKubelet`. */
const EARLIER = 31;
let cluster: ReturnType<typeof clusterNode>;
let node: PodsNode;

function booted(settings: Partial<NodeSettings> = {}): PodsNode {
  cluster = clusterNode({ admission: ADMISSION, ...settings });
  node = cluster.node.boot().run(1_000);
  return node;
}

const statusOf = (name: string) => cluster.kube.pod(name)?.status;
const times = (text: string) =>
  node.logs('Event occurred').filter(({ reason, message }) => `${String(reason)}: ${String(message)}` === text).length;
const terminated = expect.objectContaining({ exitCode: 137, reason: 'ContainerStatusUnknown' });

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('a rejected pod', () => {
  const resources = { requests: { cpu: '100' } };
  const tooBig = { containers: [{ name: 'app', image: 'app:1', resources }], activeDeadlineSeconds: 20 };
  const exceeded = 'DeadlineExceeded: Pod was active on the node longer than the specified deadline';

  it('is reported once more when its deadline is exceeded', () => {
    booted();
    cluster.kube.createPod('web', tooBig);
    node.run(19_000);
    expect(statusOf('web')).toMatchObject({ phase: 'Failed', reason: 'OutOfcpu' });
    expect(statusOf('web')).not.toHaveProperty('conditions');
    const { startTime } = statusOf('web');
    node.run(3_000);
    expect(statusOf('web')).toMatchObject({
      phase: 'Failed',
      reason: 'DeadlineExceeded',
      message: 'Pod was active on the node longer than the specified deadline',
      startTime,
      containerStatuses: [{ name: 'app', state: { terminated } }],
    });
    node.run(60_000);
    expect(times(exceeded)).toBe(1);
  });

  it('kept its reason on an earlier node', () => {
    booted({ behavior: EARLIER });
    cluster.kube.createPod('web', tooBig);
    node.run(60_000);
    expect(statusOf('web')).toMatchObject({ phase: 'Failed', reason: 'OutOfcpu' });
    expect(times(exceeded)).toBe(0);
  });

  it.each([
    [NEWEST_BEHAVIOR, [['app', { terminated }]], [['False', 'PodFailed']]],
    [EARLIER, undefined, []],
  ])('that is static has, in behavior %d, containers and conditions', (behavior, containers, readiness) => {
    booted({ behavior });
    const containersOf = [{ name: 'app', image: 'app:1' }];
    const mine = manifest({ uid: 's1', name: 'mine', containers: containersOf, spec: { nodeSelector: { no: 'way' } } });
    node.world.setManifests([mine]);
    node.run(10_000);
    const { conditions = [], containerStatuses, ...status }: PodStatus = statusOf('mine-node');
    expect(status).toMatchObject({
      phase: 'Failed',
      reason: 'NodeAffinity',
      message: "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    });
    expect(containerStatuses?.map(({ name, state }) => [name, state])).toEqual(containers);
    const ready = conditions.filter(({ type }) => type === 'Ready');
    expect(ready.map((condition) => [condition.status, condition.reason])).toEqual(readiness);
  });
});

describe('a container without its ConfigMap', () => {
  const env = [{ name: 'K', valueFrom: { configMapKeyRef: { name: 'late', key: 'k' } } }];
  const spec = { containers: [{ name: 'app', image: 'app:1', env }] };
  const failed = 'Failed: Error: configmap "late" not found';

  it.each([
    [NEWEST_BEHAVIOR, 3, 4],
    [EARLIER, 5, 7],
  ])('is tried again, in behavior %d, %d to %d times in forty seconds', (behavior, least, most) => {
    booted({ behavior });
    cluster.kube.createPod('web', spec);
    node.run(40_000);
    expect(times(failed)).toBeGreaterThanOrEqual(least);
    expect(times(failed)).toBeLessThanOrEqual(most);
  });

  it('is tried again as soon as the ConfigMap comes', () => {
    booted();
    cluster.kube.createPod('web', spec);
    node.until('refused', () => times(failed) === 1);
    node.run(2_000);
    cluster.kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'late' }, data: { k: 'v' } });
    node.until('Running', () => statusOf('web').phase === 'Running', 2_000);
    expect(times(failed)).toBe(1);
  });
});

describe('a pod that its node cannot run', () => {
  const text = 'FailedCreatePodSandBox: Failed to create pod sandbox: runtimeclass.node.k8s.io "none" not found';

  it.each([
    [NEWEST_BEHAVIOR, 5, 7],
    [EARLIER, 2, 2],
  ])('is reported, in behavior %d, %d to %d times in a minute', (behavior, least, most) => {
    booted({ behavior });
    cluster.kube.createPod('web', { runtimeClassName: 'none' });
    node.run(60_000);
    expect(times(text)).toBeGreaterThanOrEqual(least);
    expect(times(text)).toBeLessThanOrEqual(most);
  });
});
