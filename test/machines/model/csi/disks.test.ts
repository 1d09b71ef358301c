/** Names and paths of disks of storage networks, as upstream has them. */
import { describe, expect, it } from 'vitest';
import type { Pod, Volume } from '../../../../src/machines/model/api/pod.ts';
import {
  diskDirectory,
  diskFound,
  diskMount,
  diskOptions,
  diskVolumeOf,
} from '../../../../src/machines/model/csi/disks.ts';
import type { BoundVolume } from '../../../../src/machines/model/operations/volume.ts';

const pod = {
  metadata: { name: 'p', namespace: 'team', uid: 'u1' },
  spec: { containers: [], securityContext: { fsGroup: 7, fsGroupChangePolicy: 'OnRootMismatch' } },
} as unknown as Pod;
const IQN = 'iqn.2026-01.test:disks';
const iscsi = { targetPortal: '10.0.0.1', iqn: IQN, lun: 3, iscsiInterface: 'default' };
const inline = (source: object): Volume => ({ name: 'v', ...source });
const bound = (spec: object): BoundVolume =>
  ({
    name: 'pv1',
    spec: { accessModes: ['ReadWriteOnce'], ...spec },
    owner: '',
    nodeMismatch: '',
  }) as unknown as BoundVolume;
const claim = (readOnly = false): Volume => ({ name: 'v', persistentVolumeClaim: { claimName: 'c', readOnly } });
const of = (volume: Volume, pv: BoundVolume | null = null) => diskVolumeOf(volume, pv, pod)!;

describe('a volume of iSCSI', () => {
  it('of a pod has its names and its folder', () => {
    const volume = of(
      inline({ iscsi: { ...iscsi, fsType: 'xfs', readOnly: true, portals: ['10.0.0.2', '10.0.0.3:99'] } }),
    );
    const folder = `kubernetes.io/iscsi/iface-default/10.0.0.1:3260-${IQN}-lun-3`;
    expect(volume).toMatchObject({
      name: 'v',
      spec: 'v',
      driver: 'kubernetes.io/iscsi',
      readOnly: true,
      fsType: 'xfs',
      fsGroup: 7,
      fsGroupOnlyTop: true,
      stageSecret: null,
      disk: {
        folder,
        uniqueName: `kubernetes.io/iscsi/10.0.0.1:${IQN}:3`,
        source: { portals: ['10.0.0.1:3260', '10.0.0.2:3260', '10.0.0.3:99'], interface: 'default', initiatorName: '' },
      },
    });
    expect(diskDirectory('/r', volume.disk!)).toBe(`/r/plugins/${folder}`);
    expect(diskOptions({ ...volume, mountOptions: ['z', 'a', 'z'] })).toEqual(['a', 'ro', 'z']);
    const folders = { root: '/r', podDirectory: '/r/pods/u1' };
    expect(diskMount(folders, volume)).toEqual({ path: '/r/pods/u1/volumes/kubernetes.io~iscsi/v', map: null });
  });

  it('behind a claim is read-only as the claim, and may be a block device', () => {
    const pv = bound({ iscsi: { ...iscsi, readOnly: true }, volumeMode: 'Block', mountOptions: ['noatime', ''] });
    const volume = of(claim(), pv);
    expect(volume).toMatchObject({ spec: 'pv1', readOnly: false, isBlock: true, mountOptions: ['noatime'] });
    expect(of(claim(true), pv).readOnly).toBe(true);
    const folder = `/r/plugins/kubernetes.io/iscsi/volumeDevices/iface-default/10.0.0.1:3260-${IQN}-lun-3`;
    expect(diskMount({ root: '/r', podDirectory: '/r/pods/u1' }, volume)).toEqual({
      path: '/r/pods/u1/volumeDevices/kubernetes.io~iscsi/pv1',
      map: `${folder}/u1`,
    });
  });

  it('that names its initiator has an interface of its own', () => {
    const volume = of(claim(), bound({ iscsi: { ...iscsi, initiatorName: 'iqn.2026-01.test:me' } }));
    expect(volume.disk!.source).toMatchObject({ initialInterface: 'default', interface: '10.0.0.1:3260:pv1' });
    expect(volume.disk!.folder).toContain('/iface-10.0.0.1:3260:pv1/');
  });

  it.each([
    ['of the pod', inline({ iscsi: { ...iscsi, chapAuthSession: true, secretRef: { name: 's' } } }), null, 'team'],
    [
      'of another namespace',
      claim(),
      bound({ iscsi: { ...iscsi, chapAuthDiscovery: true, secretRef: { name: 's', namespace: 'vault' } } }),
      'vault',
    ],
    [
      'of a claim without one',
      claim(),
      bound({ iscsi: { ...iscsi, chapAuthSession: true, secretRef: { name: 's' } } }),
      'team',
    ],
  ])('needs the secret %s', (_case, volume, pv, namespace) => {
    expect(of(volume, pv).stageSecret).toEqual({ name: 's', namespace });
  });

  it('without CHAP needs no secret', () => {
    expect(of(inline({ iscsi: { ...iscsi, secretRef: { name: 's' } } })).stageSecret).toBeNull();
  });

  it.each([
    [{ iqn: `${IQN}/../../../csi/x` }],
    [{ iscsiInterface: '../x' }],
    [{ targetPortal: 'a/b' }],
    [{ iqn: `iqn.2026-01.test:${'x'.repeat(300)}` }],
  ])('whose name is no part of a path is refused: %j', (more) => {
    expect(() => of(inline({ iscsi: { ...iscsi, ...more } }))).toThrow('cannot be the name of a folder');
  });

  it('is found again by its folder, with the port of its portal', () => {
    const volume = of(inline({ iscsi }));
    expect(diskFound('kubernetes.io/iscsi', volume.disk!.folder)).toEqual({
      folder: volume.disk!.folder,
      uniqueName: `kubernetes.io/iscsi/10.0.0.1:3260:${IQN}:3`,
      source: null,
    });
    expect(volume.handle).toBe(`10.0.0.1:3260-${IQN}-lun-3`);
  });
});

describe('a volume of Fibre Channel', () => {
  it.each([
    [{ targetWWNs: ['5006', '5007'], lun: 0 }, '[5006 5007]:0', '5006-5007-lun-0'],
    [{ wwids: ['36005', 'VENDOR 01'] }, '[36005 VENDOR 01]', '36005-VENDOR_01'],
    [{ targetWWNs: ['5006'], wwids: ['36005'] }, '[36005]', '36005'],
  ])('is named by %j', (fc, name, folder) => {
    expect(of(inline({ fc })).disk).toMatchObject({
      uniqueName: `kubernetes.io/fc/${name}`,
      folder: `kubernetes.io/fc/${folder}`,
    });
  });

  it('that names no disk is refused with the text of the kubelet', () => {
    expect(() => of(inline({ fc: { targetWWNs: ['5006'] } }))).toThrow(
      'fc: no fc disk information found. failed to make a new mounter',
    );
  });

  it.each([['volumeDevices'], ['..'], ['a/b'], ['a\0b']])('whose name is %j is refused', (wwid) => {
    expect(() => of(inline({ fc: { wwids: [wwid] } }))).toThrow('cannot be the name of a folder');
  });

  it.each([
    ['kubernetes.io/fc/5006-5007-lun-2', '[5006 5007]:2'],
    ['kubernetes.io/fc/36005', '[36005]'],
    ['kubernetes.io/fc/a-b', '[a b]'],
  ])('is found again by its folder %s', (folder, name) => {
    expect(diskFound('kubernetes.io/fc', folder).uniqueName).toBe(`kubernetes.io/fc/${name}`);
  });
});

it('another volume is none', () => {
  expect(diskVolumeOf(inline({ emptyDir: {} }), null, pod)).toBeNull();
});
