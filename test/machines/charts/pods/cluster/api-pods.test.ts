/** Pods of the API server: from the binding to the last DELETE. */
import { afterEach, describe, expect, it } from 'vitest';
import { Refusal } from '../../../../../src/simulation/api-server/errors.ts';
import { knownKind } from '../../../../../src/simulation/api-server/kinds.ts';
import type { Program } from '../../../../../src/simulation/world/runtime-model.ts';
import { type ClusterNode, clusterNode } from './support.ts';

const kindOfPods = knownKind('v1', 'pods');
let cluster: ClusterNode;
const status = (name: string) => cluster.kube.pod(name)?.status;
const isRunning = (name: string) => () => status(name)?.phase === 'Running';
const isGone = (name: string) => () => cluster.kube.pod(name) === undefined;
const stopInputs = () =>
  cluster.node.sink.records.flatMap((record) =>
    record.k === 'effect' && record.name === 'cri.stopContainer' ? [record.input] : [],
  );
const patches = () => cluster.kube.of('patch', /\/status$/);

function running(name = 'web', spec = {}, metadata = {}, programs: Program[] = []): ClusterNode {
  cluster = clusterNode();
  cluster.node.world.runtime.programs.set('app', programs);
  cluster.node.boot().run(1_000);
  cluster.kube.createPod(name, spec, metadata);
  cluster.node.until('Running', isRunning(name));
  return cluster;
}

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

/** At its start, each agent deletes the slices of drivers that have not registered yet. */
const SLICES_DELETED = { verb: 'deleteCollection', path: 'resourceslices' };

describe('a pod that is bound to the node', () => {
  it('runs, and its start costs at most two writes and no read', () => {
    const { node, kube } = running();
    node.run(30_000);
    expect(patches().length).toBeLessThanOrEqual(2);
    expect(kube.of('get')).toEqual([]);
    expect(status('web')).toMatchObject({ phase: 'Running', podIP: expect.any(String), hostIP: '192.168.0.1' });
    expect(status('web').observedGeneration).toBe(1);
  });

  it('ends when it is deleted while the next agent waits for the first word of the runtime', () => {
    const { node, kube } = running();
    node.world.fault = (name) => (name === 'cri.watchPods' ? { extraMs: 500 } : undefined);
    cluster = { ...cluster, node: node.restart() };
    const { uid } = kube.pod('web').metadata;
    cluster.node.until('it waits', () => cluster.node.podState(uid) === 'unheard');
    kube.delete('pods', 'web');
    cluster.node.until('it is gone', isGone('web'));
  });

  it('gets an event that this node does not admit it', () => {
    cluster = clusterNode();
    const volumes = Array.from({ length: 501 }, (_, at) => ({ name: `v${at}`, configMap: { name: `m${at}` } }));
    cluster.kube.createPod('large', { volumes });
    cluster.node.boot().run(30_000);
    const events = cluster.kube.of('create', /events$/).map(({ body }) => [body.reason, body.message]);
    expect(events).toEqual([
      [
        'FailedValidation',
        expect.stringMatching(/^Error validating pod large_default\(.+\) from api due to the pod needs 502/),
      ],
    ]);
    expect(cluster.node.world.runtime.started).toEqual([]);
  });

  it('knows where it came from and since when', () => {
    const { node } = running();
    const [sandbox] = node.world.runtime.sandboxes.values();
    expect(sandbox?.config.annotations).toMatchObject({
      'kubernetes.io/config.source': 'api',
      'kubernetes.io/config.seen': expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    });
  });

  it('is written twice when its start takes longer than a change may wait', () => {
    cluster = clusterNode();
    const { node, kube } = cluster;
    node.world.fault = (name) => (name === 'cri.runPodSandbox' ? { extraMs: 900 } : undefined);
    node.boot().run(1_000);
    kube.createPod('slow');
    node.until('Running', isRunning('slow'));
    node.run(30_000);
    expect(patches()).toHaveLength(2);
    expect(patches()[0]!.body.status).toMatchObject({ startTime: expect.any(String), hostIP: '192.168.0.1' });
  });
});

describe('a pod that is deleted', () => {
  it('ends with its grace, says so, and then is deleted for good with its uid', () => {
    const { node, kube } = running();
    const { uid } = kube.pod('web').metadata;
    kube.delete('pods', 'web');
    node.until('gone', isGone('web'));
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 30 }]);
    expect(kube.of('delete')).toMatchObject([
      { path: 'default/pods/web', body: { gracePeriodSeconds: 0, preconditions: { uid } } },
    ]);
    expect(patches().at(-1)!.body.status).toMatchObject({ phase: expect.stringMatching(/Succeeded|Failed/) });
    node.until('forgotten', () => node.podState(uid) === undefined);
    expect([...node.world.folders].filter((path) => path.includes(uid))).toEqual([]);
  });

  it('stays for a finalizer, and is not deleted twice', () => {
    const { node, kube } = running('held', {}, { finalizers: ['example.com/hold'] });
    kube.delete('pods', 'held');
    node.until('deleted', () => kube.of('delete').length === 1);
    node.run(60_000);
    expect(kube.of('delete')).toHaveLength(1);
    kube.patch('pods', 'held', { metadata: { finalizers: null } });
    node.until('gone', isGone('held'));
    node.run(5_000);
    expect(kube.of('delete')).toHaveLength(1);
  });

  it('ends when its object is gone at once', () => {
    const { node, kube } = running();
    const { uid } = kube.pod('web').metadata;
    kube.delete('pods', 'web', 0);
    node.until('forgotten', () => node.podState(uid) === undefined);
    expect(kube.of('delete')).toEqual([]);
  });

  it('ends sooner when it is deleted again with less grace', () => {
    const { node, kube } = running('web', {}, {}, [{ stopsMs: 3_600_000 }]);
    kube.delete('pods', 'web', 30);
    node.run(2_000);
    kube.delete('pods', 'web', 1);
    node.until('gone', isGone('web'), 10_000);
  });

  it('never had a container: its object goes, too', () => {
    cluster = clusterNode();
    const { node, kube } = cluster;
    node.boot().run(1_000);
    node.world.fault = (name) => (name === 'cri.runPodSandbox' ? { error: 'no network' } : undefined);
    kube.createPod('none');
    node.run(3_000);
    kube.delete('pods', 'none');
    node.until('gone', isGone('none'), 60_000);
  });
});

describe('a status that another client changed', () => {
  it('is written back, and what belongs to others stays', () => {
    const { node, kube } = running();
    const gate = { type: 'example.com/gate', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' };
    kube.registry.patch(
      { kind: kindOfPods, namespace: 'default', name: 'web', subresource: 'status' },
      'application/strategic-merge-patch+json',
      { status: { phase: 'Failed', podIP: '10.9.9.9', conditions: [gate] } },
    );
    node.until('healed', () => status('web').podIP !== '10.9.9.9');
    expect(status('web').conditions).toContainEqual(gate);
  });

  it('opens a readiness gate', () => {
    const { node, kube } = running('gated', { readinessGates: [{ conditionType: 'example.com/gate' }] });
    const ready = () => status('gated').conditions.find(({ type }: { type: string }) => type === 'Ready');
    expect(ready()).toMatchObject({ status: 'False', reason: 'ReadinessGatesNotReady' });
    kube.registry.patch(
      { kind: kindOfPods, namespace: 'default', name: 'gated', subresource: 'status' },
      'application/strategic-merge-patch+json',
      { status: { conditions: [{ type: 'example.com/gate', status: 'True' }] } },
    );
    node.until('Ready', () => ready().status === 'True', 10_000);
  });
});

describe('an API server that does not do what it is asked', () => {
  const refuseNext = (times: number, refusal: Refusal) => {
    let left = times;
    cluster.kube.refuse = (verb) => (verb === 'patch' && left-- > 0 ? refusal : undefined);
  };

  it.each([
    ['500', new Refusal('no', { code: 500, reason: 'InternalError' })],
    ['409', new Refusal('the object has been modified', { code: 409, reason: 'Conflict' })],
  ])('%s: is asked again, later and later', (_, refusal) => {
    cluster = clusterNode();
    refuseNext(3, refusal);
    cluster.node.boot().run(1_000);
    cluster.kube.createPod('web');
    cluster.node.until('Running', isRunning('web'), 30_000);
    const at = patches().map(({ atMs }) => atMs);
    expect(at).toHaveLength(4);
    expect(at[2]! - at[1]!).toBeGreaterThan(at[1]! - at[0]!);
  });

  it('409: is asked again to delete what is over', () => {
    const { node, kube } = running();
    let left = 2;
    const refusal = new Refusal('the object has been modified', { code: 409, reason: 'Conflict' });
    kube.refuse = (verb) => (verb === 'delete' && left-- > 0 ? refusal : undefined);
    kube.delete('pods', 'web', 1);
    node.until('gone', isGone('web'), 30_000);
    expect(kube.of('delete')).toHaveLength(3);
  });

  it('429: is left alone as long as it asks', () => {
    cluster = clusterNode();
    refuseNext(1, new Refusal('slow down', { code: 429, reason: 'TooManyRequests', retryAfterSeconds: 17 }));
    cluster.node.boot().run(1_000);
    cluster.kube.createPod('web');
    cluster.node.until('Running', isRunning('web'), 30_000);
    const [first, second] = patches();
    expect(second!.atMs - first!.atMs).toBeGreaterThanOrEqual(17_000);
  });

  it('is away for ten minutes after the pod was bound: nothing is started twice', () => {
    const { node, kube } = running();
    kube.isAway = true;
    kube.breakWatches();
    node.run(600_000);
    kube.isAway = false;
    node.run(60_000);
    expect(node.world.runtime.started).toEqual(['web/app#0']);
    kube.delete('pods', 'web');
    node.until('gone', isGone('web'));
  });

  it('is away at the start: pods come when it is there', () => {
    cluster = clusterNode();
    const { node, kube } = cluster;
    kube.createPod('web');
    kube.isAway = true;
    node.boot().run(600_000);
    expect(node.world.runtime.started).toEqual([]);
    kube.isAway = false;
    node.until('Running', isRunning('web'), 120_000);
  });

  it('lost the pod while the watch was broken: it ends', () => {
    const { node, kube } = running();
    const { uid } = kube.pod('web').metadata;
    kube.isAway = true;
    kube.breakWatches();
    node.run(5_000);
    kube.delete('pods', 'web', 0);
    kube.isAway = false;
    node.until('forgotten', () => node.podState(uid) === undefined);
  });
});

describe('a restart of the agent', () => {
  it('writes nothing and says nothing of what did not change', () => {
    const { node, kube } = running();
    node.run(30_000);
    kube.requests.length = 0;
    cluster.node = node.restart();
    cluster.node.run(120_000);
    expect(kube.requests.filter(({ verb }) => verb !== 'list')).toMatchObject([SLICES_DELETED]);
    expect(cluster.node.events()).toEqual([]);
    expect(cluster.node.world.runtime.started).toHaveLength(1);
  });

  it('during an end does not shorten the grace period: a container that ends in time is not killed', () => {
    const { node, kube } = running('web', {}, {}, [{ stopsMs: 20_000 }]);
    kube.delete('pods', 'web', 30);
    node.run(10_000);
    const begin = node.time.ms;
    cluster.node = node.restart();
    cluster.node.until('gone', isGone('web'), 60_000);
    expect(cluster.node.time.ms - begin).toBeGreaterThan(9_000);
    expect(patches().at(-1)!.body.status.containerStatuses).toMatchObject([
      { state: { terminated: { exitCode: 143 } } },
    ]);
    expect(stopInputs()).toMatchObject([{ timeoutSeconds: 30 }]);
  });

  it('ends what was deleted meanwhile', () => {
    const { node, kube } = running();
    kube.delete('pods', 'web');
    cluster.node = node.restart();
    cluster.node.until('gone', isGone('web'));
    expect(kube.of('delete')).toHaveLength(1);
  });
});
