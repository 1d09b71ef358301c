import { describe, expect, it } from 'vitest';
import { migratedOfPod, migratedSpec } from '../../../../src/machines/model/csi/migration.ts';

const ZONE = 'topology.kubernetes.io/zone';
const of = (spec: object, more: { labels?: Record<string, string>; annotations?: Record<string, string> } = {}) =>
  migratedSpec({
    name: 'pv1',
    labels: {},
    annotations: {},
    ...more,
    spec: { accessModes: ['ReadWriteOnce'], ...spec },
  });
const csiOf = (spec: object, more = {}) => of(spec, more).csi;
const ofPod = (source: object) => migratedOfPod({ name: 'data', ...source }, 'shop');
const refusal = (text: string) => `failed to translate in-tree pv to CSI: ${text}`;

describe('a PersistentVolume of an earlier plugin', () => {
  it.each([
    [
      { awsElasticBlockStore: { volumeID: 'aws://us-east-1a/vol-7', fsType: 'xfs', partition: 2, readOnly: true } },
      {
        driver: 'ebs.csi.aws.com',
        volumeHandle: 'vol-7',
        fsType: 'xfs',
        readOnly: true,
        volumeAttributes: { partition: '2' },
      },
    ],
    [
      { awsElasticBlockStore: { volumeID: 'vol-7' } },
      { driver: 'ebs.csi.aws.com', volumeHandle: 'vol-7', volumeAttributes: { partition: '0' } },
    ],
    [
      { azureDisk: { diskName: 'd', diskURI: '/s/d', kind: 'managed', cachingMode: 'None', fsType: 'ext4' } },
      {
        driver: 'disk.csi.azure.com',
        volumeHandle: '/s/d',
        fsType: 'ext4',
        volumeAttributes: { kind: 'Managed', cachingmode: 'None', fstype: 'ext4' },
      },
    ],
    [
      { cinder: { volumeID: 'c1', fsType: 'ext4' } },
      { driver: 'cinder.csi.openstack.org', volumeHandle: 'c1', fsType: 'ext4', volumeAttributes: {} },
    ],
    [
      { vsphereVolume: { volumePath: '[ds] a/b.vmdk', fsType: 'ext4', storagePolicyName: 'gold' } },
      {
        driver: 'csi.vsphere.vmware.com',
        volumeHandle: '[ds] a/b.vmdk',
        fsType: 'ext4',
        volumeAttributes: { storagepolicyname: 'gold' },
      },
    ],
    [
      { portworxVolume: { volumeID: 'p1', readOnly: true } },
      { driver: 'pxd.portworx.com', volumeHandle: 'p1', volumeAttributes: {} },
    ],
  ])('is one of the driver that took its place: %j', (source, csi) => {
    expect(of(source)).toEqual({ accessModes: ['ReadWriteOnce'], csi });
  });

  it.each([
    [{}, 'projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d'],
    [{ [ZONE]: 'us-east1-a' }, 'projects/UNSPECIFIED/zones/us-east1-a/disks/d'],
    [{ [ZONE]: 'us-east1-a__us-east1-b' }, 'projects/UNSPECIFIED/regions/us-east1/disks/d'],
  ])('on GCE has the place of its labels in its handle: %j', (labels, volumeHandle) => {
    expect(csiOf({ gcePersistentDisk: { pdName: 'd' } }, { labels })).toEqual({
      driver: 'pd.csi.storage.gke.io',
      volumeHandle,
      volumeAttributes: { partition: '' },
    });
  });

  it.each([
    [['ReadWriteMany'], ['ReadWriteOnce']],
    [['ReadOnlyMany', 'ReadWriteOnce'], ['ReadWriteOnce']],
    [['ReadOnlyMany'], ['ReadOnlyMany']],
    [['ReadWriteOncePod'], ['ReadWriteOnce']],
  ])('on GCE with the modes %j has one that its driver accepts', (accessModes, expected) => {
    expect(of({ gcePersistentDisk: { pdName: 'd', partition: 1 }, accessModes }).accessModes).toEqual(expected);
  });

  it('limits its nodes by the label of its driver', () => {
    const { nodeAffinity } = of({ awsElasticBlockStore: { volumeID: 'vol-7' } }, { labels: { [ZONE]: 'us-east-1a' } });
    expect(nodeAffinity?.required?.nodeSelectorTerms).toEqual([
      { matchExpressions: [{ key: 'topology.ebs.csi.aws.com/zone', operator: 'In', values: ['us-east-1a'] }] },
    ]);
  });

  it('on Azure Files is read with the Secret of its own namespace, or of its claim’s', () => {
    const annotations = { 'kubernetes.io/azure-file-resource-group': 'group' };
    const file = { secretName: 'azure-storage-account-acc-secret', shareName: 'share' };
    const claimRef = { namespace: 'shop' };
    expect(csiOf({ azureFile: file, claimRef }, { annotations })).toEqual({
      driver: 'file.csi.azure.com',
      volumeHandle: 'group#acc#share#pv1#shop',
      volumeAttributes: { sharename: 'share' },
      nodeStageSecretRef: { name: file.secretName, namespace: 'shop' },
    });
    expect(csiOf({ azureFile: { ...file, secretName: 's', secretNamespace: 'own' }, claimRef })).toMatchObject({
      volumeHandle: '#s#share#pv1#own',
    });
  });

  it('of Portworx has the Secret of its annotations for each call', () => {
    const secret = { name: 's', namespace: 'n' };
    const annotations = { 'openstorage.io/auth-secret-name': 's', 'openstorage.io/auth-secret-namespace': 'n' };
    expect(csiOf({ portworxVolume: { volumeID: 'p1' } }, { annotations })).toMatchObject({
      nodeStageSecretRef: secret,
      nodePublishSecretRef: secret,
      nodeExpandSecretRef: secret,
    });
  });

  it.each([
    [
      { awsElasticBlockStore: { volumeID: 'aws://z/disk' } },
      'failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/disk)',
    ],
    [
      { azureDisk: { diskName: 'd', diskURI: 'u', kind: 'Dedicated' } },
      'kind(Dedicated) is not supported in csi migration',
    ],
    [
      { azureFile: { secretName: 's', shareName: 'x' } },
      'could not find a secret namespace in PersistentVolumeSource or ClaimRef',
    ],
  ])('that its driver cannot have is refused with the text of the kubelet: %j', (source, text) => {
    expect(() => of(source)).toThrow(refusal(text));
  });

  it.each([
    ['us-east1-a__eu-west1-a', 'multiple or no regions gotten from zones, got: map[eu-west1:{} us-east1:{}]'],
    ['here__there', 'zone in unexpected format, expected: {locale}-{region}-{zone}, got: here'],
  ])('on GCE in the zones %s is refused', (zones, text) => {
    const labels = { [ZONE]: zones };
    expect(() => of({ gcePersistentDisk: { pdName: 'd' } }, { labels })).toThrow(
      refusal(`failed to get region from zones: ${text}`),
    );
  });

  it('is left as it is if it is of another kind', () => {
    const spec = { hostPath: { path: '/x' }, accessModes: ['ReadWriteOnce'] };
    expect(of(spec)).toEqual(spec);
  });
});

describe('a volume of an earlier plugin in a pod', () => {
  it.each([
    [{ awsElasticBlockStore: { volumeID: 'vol-7' } }, 'ebs.csi.aws.com-vol-7', ['ReadWriteOnce']],
    [{ gcePersistentDisk: { pdName: 'd', readOnly: true } }, 'pd.csi.storage.gke.io-d', ['ReadOnlyMany']],
    [{ gcePersistentDisk: { pdName: 'd' } }, 'pd.csi.storage.gke.io-d', ['ReadWriteOnce']],
    [{ cinder: { volumeID: 'c1' } }, 'cinder.csi.openstack.org-c1', ['ReadWriteOnce']],
    [{ portworxVolume: { volumeID: 'p1' } }, 'pxd.portworx.com-p1', ['ReadWriteOnce']],
    [{ vsphereVolume: { volumePath: 'a/b' } }, 'csi.vsphere.vmware.com-a~b', ['ReadWriteOnce']],
    [{ azureDisk: { diskName: 'd', diskURI: '/s/d' } }, '~s~d', ['ReadWriteOnce']],
    [{ azureFile: { secretName: 's', shareName: 'x' } }, '#s#x#data#shop', ['ReadWriteMany']],
  ])('stands for a PersistentVolume with a name that is unique for the disk: %j', (source, name, accessModes) => {
    expect(ofPod(source)).toMatchObject({ name, spec: { accessModes } });
  });

  it('on Azure Files is read with a Secret of the pod’s namespace', () => {
    expect(ofPod({ azureFile: { secretName: 's', shareName: 'x' } })?.spec.csi?.nodeStageSecretRef).toEqual({
      name: 's',
      namespace: 'shop',
    });
  });

  it('of another kind stands for none', () => {
    expect(ofPod({ emptyDir: {} })).toBeNull();
  });

  it('that its driver cannot have is refused', () => {
    const azureDisk = { diskName: 'd', diskURI: 'u', kind: 'Shared' };
    expect(() => ofPod({ azureDisk })).toThrow(refusal('kind(Shared) is not supported in csi migration'));
  });
});
