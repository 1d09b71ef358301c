/** PersistentVolumes of former plug-ins as volumes of CSI drivers, plug-in by plug-in. */
import { expect, it } from 'vitest';
import type { PersistentVolumeSpec } from '../../../../src/machines/model/api/pod.ts';
import { migratedSpec } from '../../../../src/machines/model/csi/migration.ts';

type Spec = PersistentVolumeSpec;

const migrated = (
  spec: Spec,
  labels: Readonly<Record<string, string>> = {},
  annotations: Readonly<Record<string, string>> = {},
) => migratedSpec({ name: 'pv', spec, labels, annotations });

const ZONE = 'topology.kubernetes.io/zone';
const REGION = 'topology.kubernetes.io/region';
const BETA_ZONE = 'failure-domain.beta.kubernetes.io/zone';
const BETA_REGION = 'failure-domain.beta.kubernetes.io/region';
const disk = 'projects/UNSPECIFIED';
const secret = { name: 's', namespace: 'n' };

it.each([
  [
    { awsElasticBlockStore: { volumeID: 'aws://eu-1a/vol-1', fsType: 'ext4', partition: 1 } },
    { driver: 'ebs.csi.aws.com', volumeHandle: 'vol-1', fsType: 'ext4', volumeAttributes: { partition: '1' } },
  ],
  [
    { awsElasticBlockStore: { volumeID: 'aws:///vol-1' } },
    { driver: 'ebs.csi.aws.com', volumeHandle: 'vol-1', volumeAttributes: { partition: '0' } },
  ],
  [
    { gcePersistentDisk: { pdName: 'd', partition: 2 } },
    {
      driver: 'pd.csi.storage.gke.io',
      volumeHandle: `${disk}/zones/UNSPECIFIED/disks/d`,
      volumeAttributes: { partition: '2' },
    },
  ],
  [
    { azureDisk: { diskName: 'd', diskURI: '/d', cachingMode: 'ReadOnly', fsType: 'xfs', kind: 'managed' } },
    {
      driver: 'disk.csi.azure.com',
      volumeHandle: '/d',
      fsType: 'xfs',
      volumeAttributes: { kind: 'Managed', cachingmode: 'ReadOnly', fstype: 'xfs' },
    },
  ],
  [
    { azureFile: { secretName: 'azure-storage-account-a-secret', shareName: 's', secretNamespace: 'n' } },
    {
      driver: 'file.csi.azure.com',
      volumeHandle: '#a#s#pv#n',
      nodeStageSecretRef: { name: 'azure-storage-account-a-secret', namespace: 'n' },
      volumeAttributes: { sharename: 's' },
    },
  ],
  [
    { cinder: { volumeID: 'v', fsType: 'ext4' } },
    { driver: 'cinder.csi.openstack.org', volumeHandle: 'v', fsType: 'ext4' },
  ],
  [
    { vsphereVolume: { volumePath: '[d] v.vmdk', storagePolicyName: 'p' } },
    {
      driver: 'csi.vsphere.vmware.com',
      volumeHandle: '[d] v.vmdk',
      volumeAttributes: { storagepolicyname: 'p' },
    },
  ],
  [{ portworxVolume: { volumeID: 'v' } }, { driver: 'pxd.portworx.com', volumeHandle: 'v' }],
])('%j', (source, csi) => {
  const rest = { capacity: { storage: '1Gi' }, mountOptions: ['ro'] };
  expect(migrated({ ...rest, ...source } as Spec)).toEqual({ ...rest, csi });
});

it('other volumes stay as they are', () => {
  const spec = { nfs: { server: 's', path: '/' } };
  expect(migrated(spec)).toBe(spec);
});

it.each([
  [{ [ZONE]: 'eu-west1-b' }, 'zones/eu-west1-b'],
  [{ [BETA_ZONE]: 'eu-west1-b' }, 'zones/eu-west1-b'],
  [{ [ZONE]: 'eu-west1-b__eu-west1-c' }, 'regions/eu-west1'],
])('a disk of Google’s cloud is named by the zones in its labels: %j', (labels, place) => {
  const { csi } = migrated({ gcePersistentDisk: { pdName: 'd' } }, labels);
  expect(csi?.volumeHandle).toBe(`${disk}/${place}/disks/d`);
});

it('a disk of Google’s cloud has one writer', () => {
  const accessModes = ['ReadWriteMany', 'ReadWriteOnce', 'ReadOnlyMany'];
  const spec = migrated({ gcePersistentDisk: { pdName: 'd' }, accessModes });
  expect(spec.accessModes).toEqual(['ReadWriteOnce', 'ReadOnlyMany']);
});

it('the secrets of a driver come from the volume, its claim or its annotations', () => {
  const claimRef = { namespace: 'team' };
  const azure = migrated({ azureFile: { secretName: 's', shareName: 'f' }, claimRef });
  expect(azure.csi).toMatchObject({
    volumeHandle: '#s#f#pv#team',
    nodeStageSecretRef: { name: 's', namespace: 'team' },
  });
  const annotations = { 'openstorage.io/auth-secret-name': 's', 'openstorage.io/auth-secret-namespace': 'n' };
  const portworx = migrated({ portworxVolume: { volumeID: 'v' } }, {}, annotations);
  expect(portworx.csi).toMatchObject({ nodeStageSecretRef: secret, nodePublishSecretRef: secret });
});

const only = (...expressions: readonly object[]) =>
  ({ required: { nodeSelectorTerms: [{ matchExpressions: expressions }] } }) as NonNullable<Spec['nodeAffinity']>;
const isIn = (key: string, ...values: readonly string[]) => ({ key, operator: 'In', values });
const EBS_ZONE = 'topology.ebs.csi.aws.com/zone';

it.each([
  ['its zones', only(isIn(ZONE, 'a')), { [ZONE]: 'b' }, only(isIn(EBS_ZONE, 'a'))],
  ['older names', only(isIn(BETA_ZONE, 'a'), isIn(BETA_REGION, 'r')), {}, only(isIn(EBS_ZONE, 'a'), isIn(REGION, 'r'))],
  ['labels', undefined, { [BETA_ZONE]: 'b__ a' }, only(isIn(EBS_ZONE, 'a', 'b'))],
  ['labels and other rules', only(isIn('x', 'y')), { [ZONE]: 'a' }, only(isIn('x', 'y'), isIn(EBS_ZONE, 'a'))],
  ['nothing', undefined, {}, undefined],
])('reachable nodes have the labels of the driver: by %s', (_, nodeAffinity, labels, expected) => {
  const spec = { awsElasticBlockStore: { volumeID: 'vol-1' }, ...(nodeAffinity && { nodeAffinity }) };
  expect(migrated(spec, labels).nodeAffinity).toEqual(expected);
});

it('a disk of vSphere is bound to zones and regions', () => {
  const labels = { [ZONE]: 'a__b', [REGION]: 'r' };
  const { nodeAffinity } = migrated({ vsphereVolume: { volumePath: 'v' } }, labels);
  const names = ['topology.csi.vmware.com/zone', 'topology.csi.vmware.com/region'] as const;
  expect(nodeAffinity).toEqual(only(isIn(names[0], 'a__b'), isIn(names[1], 'r')));
});

it.each([
  [{ awsElasticBlockStore: { volumeID: 'aws://a/b/c' } }, {}, 'Invalid format for AWS volume (aws://a/b/c)'],
  [{ azureDisk: { diskName: 'd', diskURI: 'u', kind: 'Shared' } }, {}, 'kind(Shared) is not supported'],
  [{ azureFile: { secretName: 's', shareName: 'f' } }, {}, 'could not find a secret namespace'],
  [{ gcePersistentDisk: { pdName: 'd' } }, { [ZONE]: 'a__b' }, 'zone in unexpected format'],
  [{ gcePersistentDisk: { pdName: 'd' } }, { [ZONE]: 'a-b-c__d-e-f' }, 'multiple or no regions'],
])('a volume that has no driver says why: %j', (source, labels, text) => {
  expect(() => migrated(source as Spec, labels)).toThrow(text);
});
