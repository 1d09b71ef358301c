/** Pods and the volumes of their claims, with the node's calls to drivers: waits, refusals, ends. */
import { afterEach, describe, expect, it } from 'vitest';
import { type ClusterNode, clusterNode } from './support.ts';

const DRIVER = 'csi.example.test';
let cluster: ClusterNode;

afterEach(() => cluster.node.assertReplays());

const send = (id: string, event: object) => cluster.node.kernel.dispatch(`kubelet/${id}`, event as never, 'test');

function booted({ listens = true } = {}): ClusterNode {
  cluster = clusterNode();
  const { node, kube } = cluster;
  const spec = { attachRequired: false, volumeLifecycleModes: ['Persistent', 'Ephemeral'] };
  kube.create({ apiVersion: 'storage.k8s.io/v1', kind: 'CSIDriver', metadata: { name: DRIVER }, spec });
  node.boot().run(500);
  if (listens) listen();
  return cluster;
}
const listen = () => send('csiVolumes', { type: 'csi.driverListening', name: DRIVER, endpoint: '/csi.sock' });

function createClaim(spec: object = {}, metadata: object = {}, name = 'data'): void {
  const { kube } = cluster;
  const source = { csi: { driver: DRIVER, volumeHandle: 'h1' }, accessModes: ['ReadWriteOnce'] };
  const [volume, claim] = ['PersistentVolume', 'PersistentVolumeClaim'];
  const bound = { spec: { volumeName: 'pv1' }, status: { phase: 'Bound' } };
  const { uid } = kube.create({ apiVersion: 'v1', kind: claim, metadata: { name, ...metadata }, ...bound }).metadata;
  // As the API server stores it: without fields that have no value.
  const fields = Object.entries({ claimRef: { uid }, ...source, ...spec });
  const held = Object.fromEntries(fields.filter(([, value]) => value !== undefined));
  kube.create({ apiVersion: 'v1', kind: volume, metadata: { name: 'pv1' }, spec: held });
}

const mounting = (volume: object, container: object = { volumeMounts: [{ name: 'v', mountPath: '/data' }] }) => ({
  volumes: [{ name: 'v', ...volume }],
  containers: [{ name: 'app', image: 'app:1', ...container }],
});
const claimed = { persistentVolumeClaim: { claimName: 'data' } };
const isRunning = (name: string) => () => cluster.kube.pod(name)?.status?.phase === 'Running';
const messages = () => cluster.node.events();
const sandboxes = () => cluster.node.world.runtime.sandboxes.size;

describe('a pod with a disk of a storage network', () => {
  const iscsi = { targetPortal: '10.0.0.1', iqn: 'iqn.2026-01.test:disks', lun: 0 };
  const attach = (name: string) => send('csiVolumes', { type: 'node.volumes', inUse: [name], attached: [name] });

  it.each([
    ['its own', { iscsi }, {}, 'kubernetes.io/iscsi/10.0.0.1:iqn.2026-01.test:disks:0'],
    ['its own', { fc: { targetWWNs: ['5006'], lun: 1 } }, {}, 'kubernetes.io/fc/[5006]:1'],
    ['of a claim', claimed, { iscsi }, 'kubernetes.io/iscsi/10.0.0.1:iqn.2026-01.test:disks:0'],
  ])('begins when it is mounted and gives it back at its end: %s', (_case, volume, spec, name) => {
    const { node, kube } = booted();
    createClaim({ csi: undefined, ...spec });
    const { uid } = kube.createPod('web', mounting(volume)).metadata;
    node.run(5_000);
    expect([sandboxes(), node.world.disks.calls]).toEqual([0, []]);
    attach(name);
    node.until('Running', isRunning('web'), 10_000);
    expect(node.world.disks.calls).toEqual(['attach', 'mountDevice', 'setUp']);
    const created = node.sink.records.flatMap((record) =>
      record.k === 'effect' && record.name === 'cri.createContainer' ? [JSON.stringify(record.input)] : [],
    );
    expect(created[0]).toContain(`"host_path":"/var/lib/kubelet/pods/${uid}/volumes/kubernetes.io~`);
    kube.delete('pods', 'web');
    node.until('gone', () => kube.pod('web') === undefined, 60_000);
    expect(node.world.disks.calls.slice(3)).toEqual(['tearDown', 'detach']);
  });

  it('that names none waits with the reason of the kubelet', () => {
    const { node, kube } = booted();
    kube.createPod('web', mounting({ fc: {} }));
    node.run(5_000);
    expect(messages().join()).toContain(
      'MountVolume.NewMounter initialization failed for volume "v" : ' +
        'fc: no fc disk information found. failed to make a new mounter',
    );
  });
});

describe('a pod with a volume of a CSI driver', () => {
  it('begins when it is published, sees it, and is gone when it is not any more', () => {
    const { node, kube } = booted({ listens: false });
    createClaim();
    const { uid } = kube.createPod('web', mounting(claimed)).metadata;
    node.run(5_000);
    expect(sandboxes()).toBe(0);
    listen();
    node.until('Running', isRunning('web'), 10_000);
    expect(node.world.csi.calls).toEqual(['stage h1', 'publish h1']);
    const path = `/var/lib/kubelet/pods/${uid}/volumes/kubernetes.io~csi/pv1/mount`;
    const created = node.sink.records.flatMap((record) =>
      record.k === 'effect' && record.name === 'cri.createContainer' ? [JSON.stringify(record.input)] : [],
    );
    expect(created[0]).toContain(`"host_path":"${path}"`);
    kube.delete('pods', 'web');
    node.until('gone', () => kube.pod('web') === undefined, 60_000);
    expect(node.world.csi.calls.slice(2)).toEqual(['unpublish h1', 'unstage h1']);
  });

  it('has volumes of a plugin of earlier times from the driver that took its place', () => {
    const { node, kube } = booted();
    const migrated = 'ebs.csi.aws.com';
    kube.create({
      apiVersion: 'storage.k8s.io/v1',
      kind: 'CSIDriver',
      metadata: { name: migrated },
      spec: { attachRequired: false },
    });
    send('csiVolumes', { type: 'csi.driverListening', name: migrated, endpoint: '/ebs.sock' });
    createClaim({ csi: undefined, awsElasticBlockStore: { volumeID: 'aws://z/vol-7' } });
    const inPod = { name: 'own', awsElasticBlockStore: { volumeID: 'vol-8' } };
    const [volumeMounts] = [['v', 'own'].map((name) => ({ name, mountPath: `/${name}` }))];
    const { volumes, containers } = mounting(claimed, { volumeMounts });
    const { uid } = kube.createPod('web', { volumes: [...volumes, inPod], containers }).metadata;
    node.until('Running', isRunning('web'), 10_000);
    expect(node.world.csi.calls.toSorted()).toEqual(['publish vol-7', 'publish vol-8', 'stage vol-7', 'stage vol-8']);
    const folder = `/var/lib/kubelet/pods/${uid}/volumes/kubernetes.io~csi`;
    expect(node.world.csi.published.map(({ directory }) => directory).toSorted()).toEqual([
      `${folder}/${migrated}-vol-8`,
      `${folder}/pv1`,
    ]);
    kube.delete('pods', 'web');
    node.until('gone', () => kube.pod('web') === undefined, 60_000);
    expect(node.world.csi.calls.slice(4).toSorted()).toEqual([
      'unpublish vol-7',
      'unpublish vol-8',
      'unstage vol-7',
      'unstage vol-8',
    ]);
  });

  it('of the pod itself, of a plugin of earlier times, gives it back at its end', () => {
    const { node, kube } = booted();
    const spec = { attachRequired: false };
    const metadata = { name: 'ebs.csi.aws.com' };
    kube.create({ apiVersion: 'storage.k8s.io/v1', kind: 'CSIDriver', metadata, spec });
    send('csiVolumes', { type: 'csi.driverListening', ...metadata, endpoint: '/ebs.sock' });
    kube.createPod('web', mounting({ awsElasticBlockStore: { volumeID: 'vol-8' } }));
    node.until('Running', isRunning('web'), 10_000);
    kube.delete('pods', 'web');
    node.until('gone', () => kube.pod('web') === undefined, 60_000);
    expect(node.world.csi.calls.slice(2)).toEqual(['unpublish vol-8', 'unstage vol-8']);
  });

  it('waits with the reason of a volume that its driver cannot have', () => {
    const { node, kube } = booted();
    createClaim({ csi: undefined, azureDisk: { diskName: 'd', diskURI: 'u', kind: 'Shared' } });
    kube.createPod('web', mounting(claimed));
    node.run(260_000);
    expect(node.sink.records.map((record) => (record.k === 'log' ? JSON.stringify(record) : '')).join()).toContain(
      'failed to translate in-tree pv to CSI: kind(Shared) is not supported in csi migration',
    );
    expect(sandboxes()).toBe(0);
  });

  it('keeps it while the agent is replaced, whatever crashes', () => {
    const { node, kube } = booted();
    createClaim();
    kube.createPod('web', mounting(claimed));
    node.until('Running', isRunning('web'), 10_000);
    const uid = kube.pod('web').metadata.uid as string;
    for (const address of ['csiVolumes', `pods/pod-${uid}/volumes`]) {
      send(address, { type: address === 'csiVolumes' ? 'csi.wanted' : 'volumes.planned', pod: null, plan: null });
      node.run(3_000);
      listen();
    }
    expect(node.crashes()).toHaveLength(2);
    cluster = { ...cluster, node: node.restart() };
    cluster.node.run(2_000);
    listen();
    cluster.node.run(2_000);
    expect(new Set(node.world.csi.calls)).toEqual(new Set(['stage h1', 'publish h1']));
    expect(node.world.runtime.started).toHaveLength(1);
    kube.delete('pods', 'web');
    cluster.node.until('gone', () => kube.pod('web') === undefined, 60_000);
    expect(node.world.csi.calls.slice(-2)).toEqual(['unpublish h1', 'unstage h1']);
  });

  it.each([0, 2, 4, 8, 40, 120, 320, 350, 700, 1_500])(
    'is gone when it is deleted %i ms after the next agent began, whatever that waits for then',
    (afterMs) => {
      const { node, kube } = booted();
      createClaim();
      kube.createPod('web', mounting(claimed));
      node.until('Running', isRunning('web'), 10_000);
      const slow = new Map([
        ['cri.watchPods', 300],
        ['csi.inventory', 100],
        ['kube.get', 30],
      ]);
      node.world.fault = (name) => ({ extraMs: slow.get(name) ?? 0 });
      cluster = { ...cluster, node: node.restart() };
      cluster.node.run(afterMs);
      kube.delete('pods', 'web');
      cluster.node.run(1_000);
      listen();
      cluster.node.until('gone', () => kube.pod('web') === undefined, 60_000);
      cluster.node.run(1_000);
      const calls = node.world.csi.calls.slice(2);
      expect(calls.filter((call) => call !== 'stage h1')).toEqual(['unpublish h1', 'unstage h1']);
      expect(calls.at(-1)).toBe('unstage h1');
      expect(sandboxes()).toBe(0);
    },
  );

  it('that is not mounted is no event, as its driver may still mount it', () => {
    const { node, kube } = booted();
    node.world.fault = (name) => (name === 'csi.stage' ? { hangs: true } : undefined);
    createClaim();
    kube.createPod('web', mounting(claimed));
    node.run(260_000);
    expect(messages().filter((each) => each.startsWith('FailedMount'))).toEqual([]);
  });

  it.each([
    ['once writing, once not', false, true, false],
    ['never writing', true, true, true],
  ])('that it claims twice is published once: %s', (_, first, second, readonly) => {
    const { node, kube } = booted();
    createClaim();
    const volume = (name: string, readOnly: boolean) => ({
      name,
      persistentVolumeClaim: { claimName: 'data', readOnly },
    });
    const volumeMounts = [
      { name: 'v', mountPath: '/data' },
      { name: 'w', mountPath: '/again' },
    ];
    const { uid } = kube.createPod('web', {
      volumes: [volume('v', first), volume('w', second)],
      containers: [{ name: 'app', image: 'app:1', volumeMounts }],
    }).metadata;
    node.until('Running', isRunning('web'), 10_000);
    expect(node.world.csi.published.map(({ request }) => request.readonly)).toEqual([readonly]);
    const host_path = `/var/lib/kubelet/pods/${uid}/volumes/kubernetes.io~csi/pv1/mount`;
    const mounts = node.sink.records.flatMap((record) =>
      record.k === 'effect' && record.name === 'cri.createContainer'
        ? (record.input as { config: { mounts: readonly Readonly<Record<string, unknown>>[] } }).config.mounts
        : [],
    );
    expect(mounts.slice(0, 2)).toEqual([
      { container_path: '/data', host_path, ...(first ? { readonly: true } : {}) },
      { container_path: '/again', host_path, ...(second ? { readonly: true } : {}) },
    ]);
    kube.delete('pods', 'web');
    node.until('gone', () => kube.pod('web') === undefined, 60_000);
    expect(node.world.csi.calls).toEqual(['stage h1', 'publish h1', 'unpublish h1', 'unstage h1']);
  });

  it('written into the pod needs no claim', () => {
    const { node, kube } = booted();
    kube.createPod('web', mounting({ csi: { driver: DRIVER } }));
    node.until('Running', isRunning('web'), 10_000);
    expect(node.world.csi.calls).toEqual([expect.stringMatching(/^publish csi-[0-9a-f]{64}$/)]);
  });

  it('is read-only where its claim says so', () => {
    const { node, kube } = booted();
    createClaim();
    kube.createPod('web', mounting({ persistentVolumeClaim: { claimName: 'data', readOnly: true } }));
    node.until('Running', isRunning('web'), 10_000);
    expect(node.world.csi.published[0]!.request.readonly).toBe(true);
  });
});

describe('what lies behind a claim', () => {
  const affinity = (zone: string) => ({
    nodeAffinity: {
      required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'zone', operator: 'In', values: [zone] }] }] },
    },
  });
  const label = (zone: string) => send('objects', { type: 'node.labels', labels: { zone } });

  it('and is on another node waits until it is not', () => {
    const { node, kube } = booted();
    createClaim(affinity('a'));
    kube.createPod('web', mounting(claimed));
    node.run(2_000);
    expect(messages()).toEqual([]);
    label('b');
    node.run(2_000);
    expect(messages()[0]).toBe(
      'FailedMount: MountVolume.NodeAffinity check failed for volume "pv1" : no matching NodeSelectorTerms',
    );
    label('a');
    node.until('Running', isRunning('web'), 10_000);
  });

  it.each([
    [{ hostPath: { path: '/srv' }, csi: undefined }, '/srv'],
    [{ local: { path: '/srv' }, csi: undefined }, '/srv'],
  ])('of this node is used where it lies: %j', (source, path) => {
    const { node, kube } = booted();
    node.world.folders.add(path);
    createClaim({ ...source, ...affinity('a') });
    label('a');
    kube.createPod('web', mounting(claimed));
    node.until('Running', isRunning('web'), 10_000);
    expect(node.world.csi.calls).toEqual([]);
  });

  const asDevice = { volumeMounts: [], volumeDevices: [{ name: 'v', devicePath: '/dev/data' }] };
  const devicesOf = () =>
    cluster.node.sink.records.flatMap((record) =>
      record.k === 'effect' && record.name === 'cri.createContainer'
        ? [(record.input as { config: { devices?: object[] } }).config.devices]
        : [],
    );

  it.each([
    ['Block', { volumeMounts: [{ name: 'v', mountPath: '/d' }] }, 'Block, but is specified in volumeMounts'],
    ['Filesystem', asDevice, 'Filesystem, but is specified in volumeDevices'],
  ])('of volumeMode %s is refused where a container wants the other', (volumeMode, container, message) => {
    const { node, kube } = booted();
    createClaim({ volumeMode });
    kube.createPod('web', mounting(claimed, container));
    node.run(2_000);
    expect(messages()[0]).toContain(`volume v has volumeMode ${message}`);
    expect(node.world.csi.calls).toEqual([]);
  });

  it('as a block device is handed to the container by its link, and is gone with the pod', () => {
    const { node, kube } = booted();
    createClaim({ volumeMode: 'Block' });
    const { uid } = kube.createPod('web', mounting(claimed, asDevice)).metadata;
    node.until('Running', isRunning('web'), 10_000);
    const folder = `/var/lib/kubelet/pods/${uid}/volumeDevices/kubernetes.io~csi`;
    expect(devicesOf()).toEqual([[{ container_path: '/dev/data', host_path: `${folder}/pv1`, permissions: 'mrw' }]]);
    const recorded = messages().filter((each) => each.startsWith('SuccessfulMountVolume'));
    expect(recorded).toEqual([
      'SuccessfulMountVolume: MapVolume.MapPodDevice succeeded for volume "pv1" ' +
        'globalMapPath "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pv1/dev"',
      `SuccessfulMountVolume: MapVolume.MapPodDevice succeeded for volume "pv1" volumeMapPath "${folder}"`,
    ]);
    kube.delete('pods', 'web');
    node.until('gone', () => kube.pod('web') === undefined, 60_000);
    expect(node.world.csi.calls).toEqual(['stage h1', 'publish h1', 'unpublish h1', 'unstage h1']);
  });

  it.each([
    [false, 'mrw'],
    [true, 'r'],
  ])('of this machine is a block device, too; read-only: %s', (readOnly, permissions) => {
    const { node, kube } = booted();
    createClaim({ csi: undefined, local: { path: '/dev/sdx' }, volumeMode: 'Block' });
    const volume = { persistentVolumeClaim: { claimName: 'data', readOnly } };
    const { uid } = kube.createPod('web', mounting(volume, asDevice)).metadata;
    node.until('Running', isRunning('web'), 10_000);
    const link = `/var/lib/kubelet/pods/${uid}/volumeDevices/kubernetes.io~local-volume/pv1`;
    expect(devicesOf()).toEqual([[{ container_path: '/dev/data', host_path: link, permissions }]]);
  });

  it('that is a folder cannot be a block device', () => {
    const { node, kube } = booted();
    createClaim({ csi: undefined, hostPath: { path: '/srv' }, volumeMode: 'Block' });
    kube.createPod('web', mounting(claimed, asDevice));
    node.run(2_000);
    expect(messages()[0]).toBe(
      'FailedMapVolume: MapVolume.FindMapperPluginBySpec failed for volume "pv1" : only local volumes and those of ' +
        'CSI drivers can be block devices; use volumeMode Filesystem',
    );
  });

  it('that no container sees is left alone', () => {
    const { node, kube } = booted();
    createClaim();
    kube.createPod('web', mounting(claimed, { volumeMounts: [] }));
    node.until('Running', isRunning('web'), 10_000);
    expect(node.world.csi.calls).toEqual([]);
  });

  it('that was made for a pod is that pod’s alone', () => {
    const { node, kube } = booted();
    createClaim({}, {}, 'web-v');
    const { uid } = kube.createPod('web', mounting({ ephemeral: { volumeClaimTemplate: { spec: {} } } })).metadata;
    node.run(2_000);
    expect(messages()[0]).toContain('PVC default/web-v was not created for pod default/web (pod is not owner)');
    const owner = { apiVersion: 'v1', kind: 'Pod', name: 'web', uid, controller: true, blockOwnerDeletion: true };
    kube.patch('persistentvolumeclaims', 'web-v', { metadata: { ownerReferences: [owner] } });
    // A node may not watch claims: it reads them again after a while.
    node.until('Running', isRunning('web'), 120_000);
  });
});
