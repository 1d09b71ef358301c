/** Claims as a node may read them: one at a time, periodically, and never by a list or a watch. */
import { afterEach, describe, expect, it } from 'vitest';
import { BEHAVIORS } from '../../../../src/machines/model/settings/behavior-table.ts';
import type { NodeSettings } from '../../../../src/machines/model/settings/node-settings.ts';
import { type ClusterNode, clusterNode } from '../pods/cluster/support.ts';

const NFS = { server: 's', path: '/p' };
const OPTIONS = 'volume.beta.kubernetes.io/mount-options';
let cluster: ClusterNode;

/** A pod wants the claim `data`. */
function wanting(
  volume: { spec?: object; annotations?: object } = {},
  claim: { metadata?: object; spec?: object; isGoing?: boolean; mounts?: true } = {},
  settings: Partial<NodeSettings> = {},
) {
  cluster = clusterNode(settings);
  const { node, kube } = cluster;
  node.boot().run(1_000);
  node.world.folders.add('/srv/data');
  const { annotations = {}, spec } = volume;
  const wanted = { volumeName: 'pv', ...claim.spec };
  const { metadata } = create('PersistentVolumeClaim', 'data', wanted, { phase: 'Bound' }, claim.metadata);
  const held = { hostPath: { path: '/srv/data' }, claimRef: { uid: metadata.uid }, ...spec };
  create('PersistentVolume', 'pv', held, {}, { annotations });
  if (claim.isGoing) kube.delete('persistentvolumeclaims', 'data');
  const volumes = [{ name: 'v', persistentVolumeClaim: { claimName: 'data' } }];
  const containers = [{ name: 'c', image: 'app:1', volumeMounts: [{ name: 'v', mountPath: '/v' }] }];
  kube.createPod('web', { volumes, ...(claim.mounts ? { containers } : {}) });
  return cluster;
}

/** With a pod that uses the claim `data`, which is bound. */
function running(annotations: Readonly<Record<string, string>> = {}): ClusterNode {
  const { node, kube } = wanting({ annotations });
  node.until('Running', () => kube.pod('web')?.status?.phase === 'Running', 10_000);
  return cluster;
}

const create = (kind: string, name: string, spec: object, status: object = {}, metadata: object = {}) =>
  cluster.kube.create({ apiVersion: 'v1', kind, metadata: { name, ...metadata }, spec, status });
const asked = () =>
  cluster.node.sink.records.flatMap((record) =>
    record.k === 'effect' && JSON.stringify(record.input).includes('"persistentvolumeclaims"') ? [record.name] : [],
  );
const reported = () =>
  cluster.node.sink.records.filter(
    (record) => JSON.stringify(record).includes('"object.observed"') && JSON.stringify(record).includes(':data"'),
  ).length;

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

describe('a claim', () => {
  it('is asked for by its name alone, and again when a pod would be synced', () => {
    const { node } = running();
    expect(asked()).toEqual(['kube.get']);
    node.run(59_000);
    expect(asked()).toHaveLength(1);
    node.run(31_000);
    expect(asked()).toEqual(['kube.get', 'kube.get']);
  });

  it('that did not change is no news', () => {
    const { node } = running();
    const before = reported();
    expect(before).toBeGreaterThan(0);
    node.run(300_000);
    expect(reported()).toBe(before);
  });

  it.each([
    ['1234', ['1234']],
    ['users', undefined],
  ])('gives its pods the group that its volume names: %s', (gid, groups) => {
    const { node } = running({ 'pv.beta.kubernetes.io/gid': gid });
    const contexts = node.sink.records.flatMap((record) => {
      if (record.k !== 'effect' || !['cri.runPodSandbox', 'cri.createContainer'].includes(record.name)) return [];
      const { config } = record.input as { config: { linux: { security_context: object } } };
      return [config.linux.security_context];
    });
    const named = contexts.map((context) =>
      'supplemental_groups' in context ? context.supplemental_groups : undefined,
    );
    expect(named).toEqual([groups, groups]);
  });

  it.each([
    ['of the annotation', { nfs: NFS, mountOptions: ['soft'] }, 'hard,,vers=4', ['hard', 'vers=4']],
    ['of an empty annotation', { nfs: NFS, mountOptions: ['soft'] }, '', []],
    ['of the volume', { nfs: NFS, mountOptions: ['soft'] }, undefined, ['soft']],
  ])('mounts its volume with the options %s', (_, spec, text, options) => {
    const { node } = wanting(
      { spec: { hostPath: null, ...spec }, annotations: text === undefined ? {} : { [OPTIONS]: text } },
      { mounts: true },
    );
    node.run(3_000);
    const setUps = node.sink.records.flatMap((each) =>
      each.k === 'effect' && each.name === 'volume.setUp' ? each : [],
    );
    expect(setUps[0]?.input).toMatchObject({ volumes: [{ kind: 'nfs', options }] });
  });

  it.each([
    ['of a local volume', { local: { path: '/srv/data' } }, 'volume.setUp', '"options":["noexec"]'],
    ['of no driver of CSI', { csi: { driver: 'd', volumeHandle: 'h' } }, 'csi.wanted', '"mountOptions":["soft"]'],
  ])('has an annotation with the options %s', (_, source, name, options) => {
    const spec = { hostPath: null, mountOptions: ['soft'], ...source };
    const { node } = wanting({ spec, annotations: { [OPTIONS]: 'noexec' } }, { mounts: true });
    node.run(3_000);
    const texts = node.sink.records.map((each) => JSON.stringify(each)).filter((text) => text.includes(`"${name}"`));
    expect(texts.join()).toContain(options);
  });

  it('of a volume of a server was refused before, and no annotation was read', () => {
    const behavior = BEHAVIORS.findIndex(({ name }) => name === 'networkVolumes');
    const { node } = wanting({ spec: { hostPath: null, nfs: NFS } }, {}, { behavior });
    node.run(3_000);
    expect(node.events().join()).toContain(
      'PV "pv" is of kind nfs, which this node agent cannot mount; use hostPath, ',
    );
  });

  it.each([{ iscsi: { targetPortal: 't', iqn: 'i', lun: 0 } }, { fc: { wwids: ['w'] } }])(
    'of a disk of a storage network was refused before: %j',
    (source) => {
      const behavior = BEHAVIORS.findIndex(({ name }) => name === 'blockNetworkVolumes');
      const { node } = wanting({ spec: { hostPath: null, ...source } }, {}, { behavior });
      node.run(3_000);
      expect(node.events().join()).toContain('which this node agent cannot mount; use hostPath, local, csi, nfs');
    },
  );

  it('stays what it was while the API server is away', () => {
    const { node, kube } = running();
    const before = reported();
    kube.isAway = true;
    node.run(300_000);
    expect(reported()).toBe(before);
    kube.isAway = false;
    node.run(90_000);
    expect(reported()).toBe(before);
    expect(kube.pod('web').status.phase).toBe('Running');
  });

  it('that is being deleted, but protected, is used: a restarted agent takes it from no pod', () => {
    const { node, kube } = wanting({}, { metadata: { finalizers: ['kubernetes.io/pvc-protection'] }, isGoing: true });
    node.until('Running', () => kube.pod('web')?.status?.phase === 'Running', 10_000);
  });

  it.each([
    ['is being deleted', {}, { metadata: { finalizers: ['other/one'] }, isGoing: true }, 'PVC is being deleted'],
    ['names no volume', {}, { spec: { volumeName: '' } }, 'PVC has empty pvc.Spec.VolumeName'],
    [
      'lost its volume to another',
      { spec: { claimRef: { uid: 'u9' } } },
      {},
      'found PV object pv but its pv.Spec.ClaimRef.UID u9 does not point to claim.UID ',
    ],
    [
      'has a volume that is of another without a uid',
      { spec: { claimRef: { namespace: 'default', name: 'other' } } },
      {},
      'found PV object pv but its pv.Spec.ClaimRef.UID  does not point to claim.UID ',
    ],
    [
      'has a volume that is not bound yet',
      { spec: { claimRef: null } },
      {},
      'found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim',
    ],
  ])('that %s is not had', (_, volume, claim, text) => {
    const { node, kube } = wanting(volume, claim);
    node.run(10_000);
    expect(kube.pod('web').status.phase).toBe('Pending');
    expect(JSON.stringify(node.sink.records)).toContain(`error processing PVC default/data: ${text}`);
  });
});
