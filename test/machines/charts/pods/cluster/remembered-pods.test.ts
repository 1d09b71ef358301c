/** A node that reboots while its API server is unreachable runs its remembered pods. */
import { afterEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../../../src/machines/model/operations/kube.ts';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;
const isRunning = (name: string) => () => cluster.kube.pod(name)?.status?.phase === 'Running';

function running(spec = {}, settings: Partial<NodeSettings> = { rememberedPodsDir: '/journal/pods' }): ClusterNode {
  cluster = clusterNode(settings);
  const { node, kube } = cluster;
  kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings' }, data: { a: '1' } });
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'login' }, stringData: { a: 'canary-9' } };
  kube.create(secret);
  node.boot().run(500);
  kube.createPod('web', spec);
  node.until('Running', isRunning('web'));
  node.run(1_000);
  return cluster;
}

/** The machine reboots, and the API server does not answer. */
function reboot(): void {
  const { node, kube } = cluster;
  kube.isAway = true;
  node.world.runtime.sandboxes.clear();
  node.world.runtime.containers.clear();
  node.world.runtime.started.length = 0;
  cluster.node = node.restart();
}

const started = () => cluster.node.world.runtime.started;

/** The actors that a test crashes. */
const crashing: string[] = [];

afterEach(() => {
  const crashes = cluster.node.crashes();
  expect(crashes).toEqual(crashing.splice(0).map((address) => expect.stringContaining(address)));
  cluster.node.assertReplays();
});

describe('rememberedPods', () => {
  it('start with their ConfigMaps, and go on when the API server is back', () => {
    const { kube } = running({ volumes: [{ name: 'v', configMap: { name: 'settings' } }] });
    reboot();
    cluster.node.until('a start', () => started().length === 1, 30_000);
    expect(cluster.node.logs('The API server is away; starting the pods that are remembered')).toEqual([
      { pods: ['default/web'] },
    ]);
    cluster.node.run(60_000);
    kube.isAway = false;
    cluster.node.run(120_000);
    expect(started()).toHaveLength(1);
    expect(kube.pod('web').status.phase).toBe('Running');
    kube.delete('pods', 'web');
    cluster.node.until('gone', () => kube.pod('web') === undefined);
    expect([...cluster.node.world.remembered]).toEqual([]);
  });

  it('count the start of the machine, so that no log is written twice', () => {
    const { kube } = running();
    const status = () => kube.pod('web').status.containerStatuses[0];
    expect(status().restartCount).toBe(0);
    for (const attempt of [1, 2]) {
      reboot();
      kube.isAway = attempt === 1;
      cluster.node.until('a start', () => started().length === 1, 30_000);
      kube.isAway = false;
      cluster.node.until('said', () => status().state.running && status().restartCount === attempt, 60_000);
      const [container] = [...cluster.node.world.runtime.containers.values()];
      expect(container!.config).toMatchObject({ metadata: { attempt }, log_path: `app/${attempt}.log` });
      cluster.node.run(2_000);
    }
  });

  it.each([
    ['kubelet/pods', { type: 'config.pods', op: 'ADD', source: 'api', pods: null }],
    ['kubelet/podConfig/apiSource', { type: 'reflector.listed', items: null }],
  ])('are told again when %s crashes meanwhile, and nothing is started twice', (address, event) => {
    const { kube, node } = running();
    kube.isAway = true;
    node.kernel.dispatch(address, event, 'test');
    expect(node.crashes()).toEqual([expect.stringContaining(address)]);
    crashing.push(address);
    node.run(30_000);
    expect(started()).toHaveLength(1);
    const [container] = [...node.world.runtime.containers.values()];
    node.world.runtime.exit(container!, 1);
    node.until('a restart', () => started().length === 2, 5_000);
    kube.isAway = false;
    node.run(60_000);
    expect(started()).toHaveLength(2);
    expect(kube.pod('web').status.phase).toBe('Running');
  });

  it('are not told instead of what the API server said, when another one is wanted again', () => {
    const { kube, node } = running();
    kube.createPod('db');
    node.until('Running', isRunning('db'));
    node.run(1_000);
    const [web, db] = ['web', 'db'].map((name) => kube.pod(name).metadata.uid);
    const remembered = node.world.remembered.get(web)!;
    const { metadata, ...rest } = remembered.pod as KubeObject;
    const older = { ...rest, metadata: { ...metadata, labels: { of: 'before' } } };
    node.world.remembered.set(web, { ...remembered, pod: older });
    kube.isAway = true;
    const before = node.sink.records.length;
    crashing.push(`kubelet/pods/pod-${db}`);
    node.kernel.dispatch(crashing[0]!, { type: 'container.changed', name: 'app', view: null }, 'test');
    node.run(30_000);
    const reported = node.sink.records
      .slice(before)
      .filter(({ k }) => k === 'message')
      .map((record) => JSON.stringify(record));
    expect(reported.filter((text) => text.includes('"config.pods"') && text.includes(web))).toEqual([]);
    expect(node.podState(db)).toEqual({ sync: 'active' });
  });

  it('are not needed when the API server answers', () => {
    const { kube } = running();
    reboot();
    kube.isAway = false;
    cluster.node.until('a start', () => started().length === 1, 9_000);
    expect(cluster.node.logs('The API server is away; starting the pods that are remembered')).toEqual([]);
  });

  it('end when they were deleted meanwhile', () => {
    const { kube } = running();
    const { uid } = kube.pod('web').metadata;
    reboot();
    cluster.node.until('a start', () => started().length === 1, 30_000);
    kube.delete('pods', 'web', 0);
    kube.isAway = false;
    cluster.node.until('forgotten', () => cluster.node.podState(uid) === undefined, 120_000);
    expect(cluster.node.world.remembered.size).toBe(0);
  });

  it('are forgotten when the API server has them no more and nothing else of them is left', () => {
    const { kube, node } = running();
    const { uid } = kube.pod('web').metadata;
    const { pod, ...rest } = node.world.remembered.get(uid)!;
    const lost = { ...(pod as KubeObject), metadata: { ...(pod as KubeObject).metadata, name: 'lost', uid: 'lost' } };
    node.world.remembered.set('lost', { ...rest, pod: lost });
    reboot();
    kube.isAway = false;
    cluster.node.until('a start', () => started().length === 1, 9_000);
    cluster.node.run(1_000);
    expect([...cluster.node.world.remembered.keys()]).toEqual([uid]);
  });

  describe('with a token', () => {
    const spec = {
      volumes: [
        { name: 'v', projected: { sources: [{ serviceAccountToken: { path: 't', expirationSeconds: 3_600 } }] } },
      ],
    };
    const tokenOf = () =>
      [...cluster.node.world.remembered.values()].flatMap(({ objects }) =>
        Object.values(objects).flatMap((object) => (object?.kind === 'Token' ? [object] : [])),
      )[0]!;
    const setUps = () =>
      cluster.node.sink.records.flatMap((record) =>
        record.k === 'effect' && record.name === 'volume.setUp' ? [JSON.stringify(record.input)] : [],
      );

    it('start with the one that they had, and get another one when the API server is back', () => {
      const { kube } = running(spec);
      const kept = tokenOf();
      reboot();
      cluster.node.until('a start', () => started().length === 1, 30_000);
      expect(setUps().at(-1)).toContain(JSON.stringify(kept.data['token']));
      kube.isAway = false;
      cluster.node.until('another token', () => tokenOf().version !== kept.version, 200_000);
      expect(setUps().at(-1)).toContain(JSON.stringify(tokenOf().data['token']));
      expect(started()).toHaveLength(1);
    });

    it('remember the newest', () => {
      running(spec);
      const { version } = tokenOf();
      cluster.node.until('another one', () => tokenOf().version !== version, 3_600_000);
    });

    it('that has expired wait for the API server, and say so', () => {
      const { kube } = running(spec);
      const expired = new Date(cluster.node.world.time.now() - 1).toISOString();
      for (const { objects } of cluster.node.world.remembered.values()) {
        for (const object of Object.values(objects)) {
          if (object?.kind === 'Token') Object.assign(object.data, { expires: { text: expired } });
        }
      }
      reboot();
      cluster.node.run(60_000);
      expect(started()).toEqual([]);
      const logged = cluster.node.logs('Event occurred').map(({ message }) => String(message));
      expect(logged).toContainEqual(
        expect.stringMatching(
          /^MountVolume.SetUp failed for volume "v" : failed to fetch token: the one that was kept/,
        ),
      );
      kube.isAway = false;
      cluster.node.until('a start', () => started().length === 1, 200_000);
    });
  });

  it.each([
    ['with a Secret', { volumes: [{ name: 'v', secret: { secretName: 'login' } }] }],
    ['that may end', { restartPolicy: 'OnFailure' }],
  ])('are none of those %s: they wait for the API server', (_, spec) => {
    const { node } = running(spec);
    expect(node.world.remembered.size).toBe(0);
    reboot();
    cluster.node.run(120_000);
    expect(started()).toEqual([]);
    cluster.kube.isAway = false;
    cluster.node.until('a start', () => started().length === 1, 60_000);
  });

  it('are none where the node’s owner wants none', () => {
    running({}, {});
    reboot();
    cluster.node.run(120_000);
    expect(started()).toEqual([]);
  });
});
