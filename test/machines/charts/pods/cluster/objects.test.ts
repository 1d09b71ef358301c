/** Objects that pods use: ConfigMaps, Secrets, services, RuntimeClasses, tokens of service accounts. */
import { afterEach, describe, expect, it } from 'vitest';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { Refusal } from '../../../../../src/simulation/api-server/errors.ts';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;

function booted(settings: Partial<NodeSettings> = {}): ClusterNode {
  cluster = clusterNode(settings);
  cluster.node.boot().run(1_000);
  return cluster;
}

const configMap = (name: string, data: Record<string, string>, more = {}) =>
  cluster.kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data, ...more });
const isRunning = (name: string) => () => cluster.kube.pod(name)?.status?.phase === 'Running';
const messages = () =>
  cluster.node.logs('Event occurred').map(({ reason, message }) => `${String(reason)}: ${String(message)}`);
const setUps = () =>
  cluster.node.sink.records.flatMap((record) =>
    record.k === 'effect' && record.name === 'volume.setUp'
      ? [record.input as { podDirectory: string; volumes: { files: object[] }[] }]
      : [],
  );
// oxlint-disable-next-line typescript/no-explicit-any -- the runtime's requests
const created = (): any[] => [...cluster.node.world.runtime.containers.values()].map(({ config }) => config);
const variables = () =>
  Object.fromEntries(created()[0].envs.map(({ key, value }: { key: string; value: string }) => [key, value]));
const of = (name: string) => ({ volumes: [{ name: 'v', configMap: { name } }] });
const watchers = () =>
  (cluster.node.kernel.snapshotOf('kubelet/objects') as { context: { actors: string[] } }).context.actors;

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

describe('a ConfigMap', () => {
  it('is in the volume, and so is its change', () => {
    const { node, kube } = booted();
    configMap('settings', { a: '1' });
    kube.createPod('web', of('settings'));
    node.until('Running', isRunning('web'));
    expect(setUps().at(-1)!.volumes[0]!.files).toMatchObject([{ path: 'a', content: { text: '1' } }]);
    kube.patch('configmaps', 'settings', { data: { a: '2' } });
    node.until('an update', () => JSON.stringify(setUps().at(-1)).includes('"text":"2"'), 5_000);
    kube.patch('configmaps', 'settings', { metadata: { labels: { only: 'a-label' } } });
    const before = setUps().length;
    node.run(5_000);
    expect(setUps()).toHaveLength(before);
  });

  it('that is missing keeps the pod waiting with upstream’s words, and one that comes lets it go on', () => {
    const { node, kube } = booted();
    kube.createPod('web', of('late'));
    node.run(3_000);
    expect(messages()).toContain('FailedMount: MountVolume.SetUp failed for volume "v" : configmap "late" not found');
    expect(node.world.runtime.started).toEqual([]);
    configMap('late', { a: '1' });
    node.until('Running', isRunning('web'), 5_000);
  });

  it('that is missing and optional is no reason to wait', () => {
    const { node, kube } = booted();
    kube.createPod('web', { volumes: [{ name: 'v', configMap: { name: 'none', optional: true } }] });
    node.until('Running', isRunning('web'), 5_000);
  });

  it('is followed as long as a pod uses it, and no longer', () => {
    const { node, kube } = booted();
    configMap('settings', { a: '1' });
    kube.createPod('one', of('settings'));
    kube.createPod('two', of('settings'));
    node.until('Running', () => isRunning('one')() && isRunning('two')());
    expect(watchers().filter((id) => id.includes('settings'))).toHaveLength(1);
    kube.delete('pods', 'one');
    node.until('gone', () => kube.pod('one') === undefined).run(2_000);
    expect(watchers().filter((id) => id.includes('settings'))).toHaveLength(1);
    kube.delete('pods', 'two');
    node.until('gone', () => kube.pod('two') === undefined).run(2_000);
    expect(watchers()).toEqual([]);
  });

  it('that is immutable is not watched', () => {
    const { node, kube } = booted();
    configMap('fixed', { a: '1' }, { immutable: true });
    kube.createPod('web', of('fixed'));
    node.until('Running', isRunning('web'));
    const state = node.kernel.snapshotOf('kubelet/objects/object-ConfigMap:default:fixed') as { value: string };
    expect(state.value).toBe('settled');
  });

  it('that may not be read is said with the server’s words, also when it is optional', () => {
    const { node, kube } = booted({ apiServer: { changeDetection: 'Get' } });
    kube.refuse = (verb, path) =>
      verb === 'get' && path.includes('configmaps')
        ? new Refusal('configmaps "x" is forbidden', { code: 403, reason: 'Forbidden' })
        : undefined;
    kube.createPod('web', { volumes: [{ name: 'v', configMap: { name: 'x', optional: true } }] });
    node.run(3_000);
    expect(messages()).toContain('FailedMount: MountVolume.SetUp failed for volume "v" : configmaps "x" is forbidden');
    expect(node.world.runtime.started).toEqual([]);
  });

  it('that cannot be listed in time is said so', () => {
    const { node, kube } = booted();
    kube.createPod('web', of('settings'));
    kube.refuse = (verb, path) =>
      verb === 'list' && path.includes('configmaps')
        ? new Refusal('no', { code: 500, reason: 'InternalError' })
        : undefined;
    node.run(15_000);
    expect(messages()).toContain(
      'FailedMount: MountVolume.SetUp failed for volume "v" : failed to sync configmap cache: ' +
        'timed out waiting for the condition',
    );
  });

  it.each(['Cache', 'Get'] as const)('by the strategy %s is asked for again every minute', (changeDetection) => {
    const { node, kube } = booted({ apiServer: { changeDetection } });
    configMap('settings', { a: '1' });
    kube.createPod('web', of('settings'));
    node.until('Running', isRunning('web'));
    expect(kube.of('get', /configmaps/)).toHaveLength(1);
    kube.patch('configmaps', 'settings', { data: { a: '2' } });
    node.until('an update', () => JSON.stringify(setUps().at(-1)).includes('"text":"2"'), 65_000);
    expect(kube.of('get', /configmaps/)).toHaveLength(2);
  });

  it('that is slow to be had is there for each of the pods that come meanwhile, and no older than they are', () => {
    const { node, kube } = booted({ apiServer: { changeDetection: 'Get' } });
    configMap('settings', { a: '0' });
    kube.createPod('web0', of('settings'));
    node.until('Running', isRunning('web0'));
    node.world.fault = (name) => (name === 'kube.get' ? { extraMs: 700 } : undefined);
    for (let n = 1; n <= 12; n++) {
      kube.patch('configmaps', 'settings', { data: { a: String(n) } });
      kube.createPod(`web${n}`, of('settings'));
      node.run(500);
    }
    expect(Array.from({ length: 9 }, (_, n) => isRunning(`web${n}`)())).not.toContain(false);
    node.run(3_000);
    const firstOf = (name: string): number => {
      const { volumes } = setUps().find(({ podDirectory }) => podDirectory.endsWith(kube.pod(name)!.metadata.uid))!;
      return Number((volumes[0]!.files[0] as { content: { text: string } }).content.text);
    };
    for (let n = 1; n <= 12; n++) expect(firstOf(`web${n}`)).toBeGreaterThanOrEqual(n);
  });
});

describe('a Secret', () => {
  it('is in the environment as a handle, and nowhere in the journal as a value', () => {
    const { node, kube } = booted();
    kube.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'login' },
      stringData: { password: 'canary-7' },
    });
    const env = [{ name: 'P', valueFrom: { secretKeyRef: { name: 'login', key: 'password' } } }];
    kube.createPod('web', { containers: [{ name: 'app', image: 'app:1', env }] });
    node.until('Running', isRunning('web'));
    expect(variables()['P']).toMatch(/^§/);
    expect(JSON.stringify(node.sink.records)).not.toMatch(/canary-7|Y2FuYXJ5LTc/);
  });

  it('that is missing keeps a container from being created', () => {
    const { node, kube } = booted();
    const env = [{ name: 'P', valueFrom: { secretKeyRef: { name: 'login', key: 'password' } } }];
    kube.createPod('web', { containers: [{ name: 'app', image: 'app:1', env }] });
    node.run(5_000);
    expect(messages()).toContain('Failed: Error: secret "login" not found');
    expect(kube.pod('web').status.containerStatuses[0].state.waiting).toEqual({
      reason: 'CreateContainerConfigError',
      message: 'secret "login" not found',
    });
  });
});

describe('services', () => {
  const service = (name: string, spec: object, namespace = 'default') =>
    cluster.kube.create({ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec });

  it('of the namespace are in the environment, and the API server’s always', () => {
    const { node, kube } = booted();
    service('kubernetes', { clusterIP: '10.96.0.1', ports: [{ name: 'https', port: 443, protocol: 'TCP' }] });
    service('db', { clusterIP: '10.96.0.2', ports: [{ port: 5432, protocol: 'TCP' }] });
    service('elsewhere', { clusterIP: '10.96.0.3', ports: [{ port: 1, protocol: 'TCP' }] }, 'other');
    service('headless', { clusterIP: 'None', ports: [{ port: 1 }] });
    kube.createPod('web');
    node.until('Running', isRunning('web'));
    expect(
      Object.keys(variables())
        .filter((name) => name.endsWith('SERVICE_HOST'))
        .toSorted(),
    ).toEqual(['DB_SERVICE_HOST', 'KUBERNETES_SERVICE_HOST']);
    expect(variables()).toMatchObject({
      KUBERNETES_SERVICE_PORT_HTTPS: '443',
      KUBERNETES_PORT_443_TCP: 'tcp://10.96.0.1:443',
      DB_PORT_5432_TCP_PROTO: 'tcp',
    });
  });

  it('that are not wanted are left out, but for the API server’s', () => {
    const { node, kube } = booted();
    service('kubernetes', { clusterIP: '10.96.0.1', ports: [{ port: 443, protocol: 'TCP' }] });
    service('db', { clusterIP: '10.96.0.2', ports: [{ port: 5432, protocol: 'TCP' }] });
    kube.createPod('web', { enableServiceLinks: false });
    node.until('Running', isRunning('web'));
    expect(variables()).not.toHaveProperty('DB_SERVICE_HOST');
    expect(variables()).toHaveProperty('KUBERNETES_SERVICE_HOST', '10.96.0.1');
  });

  it('that are not known yet hold the pod back', () => {
    const { node, kube } = booted();
    kube.refuse = (verb, path) =>
      verb === 'list' && path === 'services' ? new Refusal('no', { code: 500, reason: 'InternalError' }) : undefined;
    kube.createPod('web');
    node.run(20_000);
    expect(node.world.runtime.started).toEqual([]);
    kube.refuse = () => undefined;
    node.until('Running', isRunning('web'), 60_000);
  });
});

describe('a PersistentVolumeClaim', () => {
  const create = (kind: string, name: string, spec: object, status = {}) => {
    const { kube } = cluster;
    return kube.create({ apiVersion: 'v1', kind, metadata: { name }, spec, status });
  };
  /** The claim `data` and its volume. */
  const createBound = (source: object, bound: object = { volumeName: 'pv' }, phase = 'Bound'): void => {
    const { uid } = create('PersistentVolumeClaim', 'data', bound, { phase }).metadata;
    create('PersistentVolume', 'pv', { claimRef: { uid }, ...source });
  };
  const claim = { volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'data' } }] };
  const mount = { containers: [{ name: 'app', image: 'app:1', volumeMounts: [{ name: 'v', mountPath: '/data' }] }] };
  const mounts = (): { container_path: string; host_path: string }[] => created()[0].mounts;

  it.each([
    ['hostPath', { hostPath: { path: '/srv/data' } }, /^\/srv\/data$/],
    ['local', { local: { path: '/srv/data' } }, /\/pods\/[^/]+\/volumes\/kubernetes\.io~local-volume\/pv$/],
    ['nfs', { nfs: { server: 's', path: '/p' } }, /\/pods\/[^/]+\/volumes\/kubernetes\.io~nfs\/pv$/],
  ])('is mounted from where its volume of kind %s lies', (_, source, place) => {
    const { node, kube } = booted();
    node.world.folders.add('/srv/data');
    createBound({ capacity: { storage: '1Gi' }, ...source });
    kube.createPod('web', { ...claim, ...mount });
    node.until('Running', isRunning('web'), 10_000);
    expect(mounts()[0]).not.toHaveProperty('readonly', true);
    expect(mounts()).toContainEqual(
      expect.objectContaining({ container_path: '/data', host_path: expect.stringMatching(place) }),
    );
  });

  it('that another pod has with another group is had as it is, and said', () => {
    const { node, kube } = booted();
    node.world.notGiven = { kept: [{ spec: 'pv', wanted: 4321, has: 1234 }] };
    createBound({ local: { path: '/srv/data' } });
    kube.createPod('web', { ...claim, ...mount, securityContext: { fsGroup: 4321 } });
    node.until('Running', isRunning('web'), 10_000);
    node.run(1_000);
    expect(messages()).toContain(
      'AlreadyMountedVolume: The requested fsGroup is 4321, but the volume pv has GID 1234. ' +
        'The volume may not be shareable.',
    );
  });

  it('is used although something in it could not be given to the group, and that is said', () => {
    const { node, kube } = booted();
    const fields = { path: '/v/f', err: 'EPERM', more: 2 };
    node.world.notGiven = { unshared: [{ text: 'Lchown failed', ...fields }] };
    createBound({ local: { path: '/srv/data' } });
    kube.createPod('web', { ...claim, ...mount, securityContext: { fsGroup: 4321 } });
    node.until('Running', isRunning('web'), 10_000);
    expect(node.logs('Lchown failed')).toEqual([fields]);
  });

  it('holds the pod back until it is there and bound', () => {
    const { node, kube } = booted();
    node.world.folders.add('/srv/data');
    kube.createPod('web', { ...claim, ...mount });
    node.run(3_000);
    const failed =
      'FailedMount: Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], ' +
      'failed to process volumes=[v]: error processing PVC default/data: ';
    expect(messages()).toContain(
      `${failed}failed to fetch PVC from API server: persistentvolumeclaims "data" not found`,
    );
    createBound({ hostPath: { path: '/srv/data' } }, {}, 'Pending');
    node.run(3_000);
    expect(messages()).toContain(`${failed}PVC is not bound`);
    kube.patch('persistentvolumeclaims', 'data', { spec: { volumeName: 'pv' } });
    kube.patch('persistentvolumeclaims', 'data', { status: { phase: 'Bound' } }, 'status');
    node.until('Running', isRunning('web'), 10_000);
  });

  it('whose volume cannot be mounted here says which kind that is', () => {
    const { node, kube } = booted();
    createBound({ capacity: { storage: '1Gi' }, rbd: { monitors: ['m'], image: 'i' } });
    kube.createPod('web', claim);
    node.run(3_000);
    expect(messages().some((each) => each.includes('PV "pv" is of kind rbd, which this node agent cannot mount'))).toBe(
      true,
    );
  });
});

describe('a RuntimeClass', () => {
  it('names the handler; one that is missing blocks the pod until it is there', () => {
    const { node, kube } = booted();
    kube.createPod('web', { runtimeClassName: 'sandboxed' });
    node.run(3_000);
    expect(messages()).toContain(
      'FailedCreatePodSandBox: Failed to create pod sandbox: runtimeclass.node.k8s.io "sandboxed" not found',
    );
    kube.create({
      apiVersion: 'node.k8s.io/v1',
      kind: 'RuntimeClass',
      metadata: { name: 'sandboxed' },
      handler: 'runsc',
    });
    node.until('Running', isRunning('web'), 5_000);
    const [call] = node.sink.records.flatMap((record) =>
      record.k === 'effect' && record.name === 'cri.runPodSandbox' ? [record.input] : [],
    );
    expect(call).toMatchObject({ runtimeHandler: 'runsc' });
  });
});

describe('a token of the pod’s service account', () => {
  const token = (expirationSeconds = 3_607) => ({
    automountServiceAccountToken: false,
    volumes: [{ name: 'v', projected: { sources: [{ serviceAccountToken: { path: 'token', expirationSeconds } }] } }],
  });
  const requests = () => cluster.kube.of('create', /serviceaccounts\/default\/token$/);

  it('is asked for as the recorded kubelet asks, and lies in the volume as a handle', () => {
    const { node, kube } = booted();
    const { uid } = kube.createPod('web', token()).metadata;
    node.until('Running', isRunning('web'));
    expect(requests()[0]!.body).toEqual({
      kind: 'TokenRequest',
      apiVersion: 'authentication.k8s.io/v1',
      metadata: {},
      spec: {
        audiences: null,
        expirationSeconds: 3_607,
        boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'web', uid },
      },
      status: { token: '', expirationTimestamp: null },
    });
    expect(setUps().at(-1)!.volumes[0]!.files).toMatchObject([
      { path: 'token', mode: 0o644, content: { text: { $secret: expect.stringMatching(/^§/) } } },
    ]);
    expect(JSON.stringify(node.sink.records)).not.toContain('token-1"');
  });

  it('is renewed when most of its lifetime has passed, and written again', () => {
    const { node, kube } = booted();
    kube.createPod('web', token(600));
    node.until('Running', isRunning('web'));
    const [bornMs] = requests().map(({ atMs }) => atMs);
    node.until('a second one', () => requests().length === 2);
    expect(requests()[1]!.atMs - bornMs!).toBeGreaterThan(465_000);
    expect(requests()[1]!.atMs - bornMs!).toBeLessThanOrEqual(481_000);
    node.run(100);
    const files = setUps().map(({ volumes }) => JSON.stringify(volumes[0]!.files));
    expect(new Set(files).size).toBe(2);
  });

  it('is renewed by the life that it has, which may be less than was asked for', () => {
    const { node, kube } = booted();
    kube.tokenSecondsMax = 3_600;
    kube.createPod('web', token(86_400));
    node.until('Running', isRunning('web'), 10_000);
    node.run(600_000);
    expect(requests()).toHaveLength(1);
    node.run(2_400_000);
    expect(requests()).toHaveLength(2);
  });

  it('that is refused is said, and tried again', () => {
    const { node, kube } = booted();
    let left = 2;
    kube.refuse = (verb, path) =>
      verb === 'create' && path.endsWith('token') && left-- > 0
        ? new Refusal('not now', { code: 500, reason: 'InternalError' })
        : undefined;
    kube.createPod('web', token());
    node.until('Running', isRunning('web'), 20_000);
    expect(messages()).toContain(
      'FailedMount: MountVolume.SetUp failed for volume "v" : failed to fetch token: not now',
    );
  });

  it('stays while a new one cannot be had', () => {
    const { node, kube } = booted();
    kube.createPod('web', token(600));
    node.until('Running', isRunning('web'));
    kube.refuse = (verb, path) =>
      verb === 'create' && path.endsWith('token')
        ? new Refusal('no', { code: 500, reason: 'InternalError' })
        : undefined;
    node.run(550_000);
    expect(messages().filter((each) => each.includes('failed to fetch token'))).toEqual([]);
  });
});
