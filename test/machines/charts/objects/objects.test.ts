/** Objects that are not watched: what later pods get, and how many requests it takes. */
import { afterEach, describe, expect, it } from 'vitest';
import { Refusal } from '../../../../src/simulation/api-server/errors.ts';
import { type ClusterNode, clusterNode } from '../pods/cluster/support.ts';

let cluster: ClusterNode;

const configMap = (name: string, data: Record<string, string>) =>
  cluster.kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data });
const isRunning = (name: string) => () => cluster.kube.pod(name)?.status?.phase === 'Running';
const messages = () =>
  cluster.node.logs('Event occurred').map(({ reason, message }) => `${String(reason)}: ${String(message)}`);
const of = (name: string) => ({ volumes: [{ name: 'v', configMap: { name } }] });
const effects = (name: string): string[] =>
  cluster.node.sink.records.flatMap((record) =>
    record.k === 'effect' && record.name === name ? [JSON.stringify(record.input)] : [],
  );
const setUps = () => effects('volume.setUp');
const asks = () => effects('kube.get').filter((input) => input.includes('configmaps')).length;

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

describe('how long an object is good enough', () => {
  /** The times of requests for a pod's ConfigMap, in seconds after its first answer. */
  function askedAt(changeDetection: 'Cache' | 'Get', ttl: string | null, seconds: number): number[] {
    cluster = clusterNode({ apiServer: { changeDetection } });
    const { node, kube } = cluster;
    node.boot().run(1_000);
    const send = (objectTtl: string | null) =>
      node.kernel.dispatch('kubelet/objects', { type: 'node.labels', labels: {}, objectTtl }, 'test');
    configMap('settings', { a: '1' });
    kube.createPod('one', of('settings'));
    node.until('Running', isRunning('one'));
    send(ttl);
    const before = asks();
    const at: number[] = [];
    for (let second = 1; second <= seconds; second++) {
      node.run(1_000);
      if (asks() > before + at.length) at.push(second);
    }
    return at;
  }

  it.each([null, '', 'soon', '0', '15', '-5', '60'])('is a minute where the Node says %j', (ttl) => {
    expect(askedAt('Cache', ttl, 130)).toHaveLength(2);
  });

  it('is what the Node says where that is longer', () => {
    const [first, second, ...later] = askedAt('Cache', '300', 700);
    expect(first).toBeGreaterThan(290);
    expect(second! - first!).toBeGreaterThanOrEqual(300);
    expect(later).toEqual([]);
  });

  it('is a sync of its pod by the strategy Get', () => {
    expect(askedAt('Get', '300', 130)).toHaveLength(2);
  });
});

it('of many objects of one pod some are asked for in each turn, and all in the end', () => {
  cluster = clusterNode({ apiServer: { changeDetection: 'Get' } });
  const { node, kube } = cluster;
  node.boot().run(1_000);
  const names = Array.from({ length: 130 }, (_, at) => `m${at}`);
  for (const name of names) configMap(name, {});
  kube.createPod('many', { volumes: names.map((name) => ({ name, configMap: { name } })) });
  node.until('Running', isRunning('many'), 10_000);
  const perTurn = [0];
  for (const record of node.sink.records) {
    if (record.k === 'end') perTurn.push(0);
    if (record.k === 'effect' && record.name === 'kube.get') perTurn[perTurn.length - 1]! += 1;
  }
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(51);
  expect(asks()).toBe(130);
  const asked = asks();
  kube.delete('pods', 'many', 0);
  node.run(120_000);
  expect(asks()).toBe(asked);
});

describe.each(['Cache', 'Get'] as const)('a ConfigMap that is not watched, by the strategy %s', (changeDetection) => {
  function booted(): ClusterNode {
    cluster = clusterNode({ apiServer: { changeDetection } });
    cluster.node.boot().run(1_000);
    return cluster;
  }

  it('is requested again for a new pod, and published to it even if it is unchanged', () => {
    const { node, kube } = booted();
    configMap('settings', { a: '1' });
    kube.createPod('one', of('settings'));
    node.until('Running', isRunning('one'));
    kube.createPod('two', of('settings'));
    node.until('Running', isRunning('two'), 10_000);
    expect(asks()).toBe(2);
    kube.patch('configmaps', 'settings', { data: { a: '2' } });
    const before = setUps().length;
    kube.createPod('three', of('settings'));
    node.until('Running', isRunning('three'), 10_000);
    expect(asks()).toBe(3);
    const since = setUps().slice(before);
    expect(since.length).toBeGreaterThan(0);
    expect(since.join()).not.toContain('"text":"1"');
  });

  it('is asked for twice at most for many pods at once', () => {
    const { node, kube } = booted();
    configMap('settings', { a: '1' });
    kube.createPod('first', of('settings'));
    node.until('Running', isRunning('first'));
    const before = asks();
    const names = Array.from({ length: 10 }, (_, index) => `p${index}`);
    for (const name of names) kube.createPod(name, of('settings'));
    node.until('Running', () => names.every((name) => isRunning(name)()), 60_000);
    expect(asks() - before).toBeLessThanOrEqual(2);
  });

  it('keeps a new pod waiting while it cannot be read, and no other', () => {
    const { node, kube } = booted();
    configMap('settings', { a: '1' });
    kube.createPod('one', of('settings'));
    node.until('Running', isRunning('one'));
    kube.refuse = (verb, path) =>
      verb === 'get' && path.includes('configmaps')
        ? new Refusal('no', { code: 500, reason: 'InternalError' })
        : undefined;
    kube.createPod('two', of('settings'));
    node.run(10_000);
    expect(isRunning('two')()).toBe(false);
    expect(messages()).toContain('FailedMount: MountVolume.SetUp failed for volume "v" : no');
    kube.refuse = () => undefined;
    node.until('Running', isRunning('two'), 60_000);
    expect(isRunning('one')()).toBe(true);
  });

  it('that is missing is found soon after it came', () => {
    const { node, kube } = booted();
    kube.createPod('web', of('late'));
    node.run(5_000);
    configMap('late', { a: '1' });
    node.until('Running', isRunning('web'), 20_000);
  });
});
