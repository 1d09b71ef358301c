/** The calls to a driver for a volume, row by row, and the resulting names. */
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { sha256 } from '../../../../src/kernel/xstate.ts';
import type { PersistentVolumeSpec, Pod, PodSpec, Volume } from '../../../../src/machines/model/api/pod.ts';
import type { CSIVolume } from '../../../../src/machines/model/csi/messages.ts';
import { csiVolumeOf, ephemeralHandle, ownershipOf, stageRequest } from '../../../../src/machines/model/csi/policy.ts';
import { BEHAVIORS } from '../../../../src/machines/model/settings/behavior-table.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { podOf, volumeOf } from '../../charts/csi/support.ts';

describe('a hash', () => {
  it.each([
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    ['ä€😀', '819fe77d1c7897c4c541e21c63d27154d46e12cc65074d8d9c874626a40a6074'],
  ])('of %j is SHA-256', (text, hash) => expect(sha256(text)).toBe(hash));
});

describe('the access mode', () => {
  const modeOf = (accessModes: string[], capabilities: string[]) =>
    stageRequest(volumeOf({ accessModes }), '/d', { capabilities, secrets: {}, publishContext: {}, label: '' })
      .volume_capability.access_mode.mode;

  it.each([
    [[], 'SINGLE_NODE_WRITER', 'SINGLE_NODE_MULTI_WRITER'],
    [['ReadWriteOnce'], 'SINGLE_NODE_WRITER', 'SINGLE_NODE_MULTI_WRITER'],
    [['ReadWriteOncePod'], 'SINGLE_NODE_WRITER', 'SINGLE_NODE_SINGLE_WRITER'],
    [['ReadOnlyMany'], 'MULTI_NODE_READER_ONLY', 'MULTI_NODE_READER_ONLY'],
    [['ReadWriteMany', 'ReadWriteOnce'], 'MULTI_NODE_MULTI_WRITER', 'MULTI_NODE_MULTI_WRITER'],
    [['Whatever'], 'UNKNOWN', 'UNKNOWN'],
  ])('of %j', (accessModes, plain, precise) => {
    expect(modeOf(accessModes, [])).toBe(plain);
    expect(modeOf(accessModes, ['SINGLE_NODE_MULTI_WRITER'])).toBe(precise);
  });
});

describe('the group of the pod', () => {
  const own = { isEphemeral: true, accessModes: [] };
  it.each<[string, Partial<CSIVolume>, object | null, string[], boolean]>([
    ['no group', { fsGroup: null, fsType: 'ext4' }, null, [], false],
    ['no CSIDriver, a file system, one node', { fsType: 'ext4' }, null, [], true],
    ['no CSIDriver, no file system', {}, null, [], false],
    ['no CSIDriver, several nodes', { fsType: 'ext4', accessModes: ['ReadWriteMany'] }, null, [], false],
    ['one pod', { fsType: 'ext4', accessModes: ['ReadWriteOncePod'] }, {}, [], true],
    ['of the pod itself', { ...own, fsType: 'ext4' }, {}, [], true],
    ['File', { accessModes: ['ReadWriteMany'] }, { fsGroupPolicy: 'File' }, [], true],
    ['None', { fsType: 'ext4' }, { fsGroupPolicy: 'None' }, [], false],
    ['read-only', { fsType: 'ext4', readOnly: true }, { fsGroupPolicy: 'File' }, [], false],
    ['the driver does it', { fsType: 'ext4' }, { fsGroupPolicy: 'File' }, ['VOLUME_MOUNT_GROUP'], false],
  ])('%s', (_, volume, spec, capabilities, isGiven) => {
    const expected = isGiven ? { groupId: 7, onlyTop: false } : null;
    expect(ownershipOf(volumeOf({ fsGroup: 7, ...volume }), spec as never, capabilities)).toEqual(expected);
  });

  it('is in the request of a driver that hands the volume to it', () => {
    const more = { secrets: {}, publishContext: {}, label: '' };
    const groupOf = (capabilities: string[]) =>
      stageRequest(volumeOf({ fsGroup: 7 }), '/d', { capabilities, ...more }).volume_capability;
    expect([groupOf(['VOLUME_MOUNT_GROUP']), groupOf([])]).toMatchObject([
      { mount: { volume_mount_group: '7' } },
      { mount: { volume_mount_group: '' } },
    ]);
  });
});

describe('a volume of a pod', () => {
  const of = (
    volume: Omit<Volume, 'name'>,
    bound: Partial<PersistentVolumeSpec> | null = null,
    spec = {},
    behavior = NEWEST_BEHAVIOR,
  ) => {
    const pod = { metadata: podOf('u1'), spec: { containers: [], ...spec } as PodSpec } as unknown as Pod;
    const size = { claim: { namespace: 'default', name: 'c', uid: 'c1' }, had: '1Gi', status: '' };
    const behind = bound && { name: 'pv1', spec: bound, size, owner: '', nodeMismatch: '' };
    return csiVolumeOf({ name: 'data', ...volume }, behind, { pod, node: { behavior } });
  };
  const claim = (readOnly: boolean) => ({ persistentVolumeClaim: { claimName: 'c', readOnly } });

  it('of another kind needs no driver', () => {
    expect(of({ emptyDir: {} })).toBeNull();
    expect(of(claim(false), { hostPath: { path: '/x' } })).toBeNull();
  });

  it('behind a claim is what its PersistentVolume says', () => {
    const secret = { name: 's', namespace: 'n' };
    const csi = {
      driver: 'd',
      volumeHandle: 'h',
      fsType: 'xfs',
      volumeAttributes: { a: 'b' },
      nodeStageSecretRef: secret,
      nodePublishSecretRef: secret,
      nodeExpandSecretRef: secret,
    };
    const bound = { csi, capacity: { storage: '2Gi' }, accessModes: ['ReadOnlyMany'], mountOptions: ['ro'] };
    const security = { securityContext: { fsGroup: 5, fsGroupChangePolicy: 'OnRootMismatch' } };
    expect(of(claim(true), bound, security)).toEqual({
      ...volumeOf({ driver: 'd', handle: 'h', readOnly: true, fsType: 'xfs', attributes: { a: 'b' } }),
      accessModes: ['ReadOnlyMany'],
      mountOptions: ['ro'],
      stageSecret: secret,
      publishSecret: secret,
      expandSecret: secret,
      size: { claim: { namespace: 'default', name: 'c', uid: 'c1' }, wanted: '2Gi', had: '1Gi', status: '' },
      fsGroup: 5,
      fsGroupOnlyTop: true,
    });
  });

  it('of an earlier plugin is one of the driver that took its place, which other pods can share', () => {
    const disk = { awsElasticBlockStore: { volumeID: 'vol-1', fsType: 'xfs', readOnly: true } };
    expect(of(disk)).toEqual({
      ...volumeOf({ spec: 'ebs.csi.aws.com-vol-1', driver: 'ebs.csi.aws.com', handle: 'vol-1', fsType: 'xfs' }),
      attributes: { partition: '0' },
      accessModes: ['ReadWriteOnce'],
      size: null,
    });
    const before = BEHAVIORS.findIndex(({ name }) => name === 'networkVolumes');
    expect(of(disk, null, {}, before)).toBeNull();
  });

  it('written into the pod has a handle of its own, and secrets of the pod’s namespace', () => {
    const csi = { driver: 'd', readOnly: true, nodePublishSecretRef: { name: 's' } };
    expect(of({ csi })).toEqual({
      ...volumeOf({ spec: 'data', driver: 'd', handle: ephemeralHandle('u1', 'data'), isEphemeral: true }),
      readOnly: true,
      accessModes: [],
      publishSecret: { name: 's', namespace: 'default' },
    });
    expect(ephemeralHandle('u1', 'data')).toBe(`csi-${createHash('sha256').update('u1data').digest('hex')}`);
  });
});
