/** Volumes on disks of storage networks over a model world: K1 to K3 of `diskMachine`, B1 to B3 of `diskMountMachine`. */
import { afterEach, describe, expect, it } from 'vitest';
import { diskFound } from '../../../../src/machines/model/csi/disks.ts';
import type { CSIVolume } from '../../../../src/machines/model/csi/messages.ts';
import type { ISCSIDisk } from '../../../../src/machines/model/operations/disk.ts';
import { fail } from '../../../support/answering-world.ts';
import { csiNode, DRIVER, type Options, ROOT, volumeOf } from './support.ts';

const PLUGIN = 'kubernetes.io/iscsi';
const HANDLE = '10.0.0.1:3260-iqn.2026-01.test:disks-lun-0';
const FOLDER = `${PLUGIN}/iface-default/${HANDLE}`;
/** The portal of the volume has no port. */
const NAME = `${PLUGIN}/10.0.0.1:iqn.2026-01.test:disks:0`;
const SOURCE: ISCSIDisk = {
  kind: 'iscsi',
  volume: 'pv1',
  portals: ['10.0.0.1:3260'],
  iqn: 'iqn.2026-01.test:disks',
  lun: 0,
  initialInterface: 'default',
  interface: 'default',
  initiatorName: '',
  discoveryCHAP: false,
  sessionCHAP: false,
};
const disk = { folder: FOLDER, uniqueName: NAME, source: SOURCE };
const diskVolume = (more: Partial<CSIVolume> = {}) => volumeOf({ driver: PLUGIN, handle: HANDLE, disk, ...more });

let node: ReturnType<typeof csiNode>;
const boot = (options: Options = {}) => {
  node = csiNode(options);
  return node;
};
afterEach(() => expect(node.divergence()).toBeNull());
const attached = (more: object = {}) => node.send({ type: 'node.volumes', inUse: [NAME], attached: [NAME], ...more });
const ALL = ['attach', 'mountDevice', 'setUp'];
const mounted = (uid: string) => ({ type: 'csi.mounted', uid, names: ['data'] });

describe('a disk', () => {
  it('is attached once the Node lists it as in use and as attached, and detached after its pod', () => {
    boot();
    node.want('u1', diskVolume());
    expect(node.inUse().at(-1)).toEqual([NAME]);
    expect(node.diskCalls()).toEqual([]);
    attached({ attached: [] });
    expect(node.diskCalls()).toEqual([]);
    attached();
    expect(node.diskCalls()).toEqual(ALL);
    expect(node.toPods().at(-1)).toEqual(mounted('u1'));
    node.release('u1');
    expect(node.diskCalls().slice(3)).toEqual(['tearDown', 'detach']);
    expect(node.toPods().at(-1)).toEqual({ type: 'csi.unmounted', uid: 'u1' });
    expect(node.inUse().at(-1)).toEqual([]);
  });

  it('is told where it is', () => {
    boot();
    node.want('u1', diskVolume({ fsGroup: 5, mountOptions: ['b', 'a'], fsType: 'xfs' }));
    attached();
    const directory = `${ROOT}/plugins/${FOLDER}`;
    const options = ['a', 'b'];
    expect(node.askedFor('disk.attach')).toEqual([
      { root: ROOT, directory, source: SOURCE, isBlock: false, secrets: {} },
    ]);
    expect(node.askedFor('disk.mountDevice')).toEqual([
      { root: ROOT, directory, device: '/dev/sdx', fsType: 'xfs', options },
    ]);
    const mount = { path: `${ROOT}/pods/u1/volumes/kubernetes.io~iscsi/pv1`, map: null };
    const ownership = { groupId: 5, onlyTop: false };
    expect(node.askedFor('disk.setUp')).toEqual([
      { root: ROOT, directory, device: '/dev/sdx', mount, options, ownership },
    ]);
  });

  it('is mounted with the SELinux label of its pod, and again with that of the next one', () => {
    boot();
    node.want('u1', diskVolume({ seLinuxLabel: 'u:r:t:s0:c1', mountOptions: ['noatime'] }));
    attached();
    node.want('u2', diskVolume({ seLinuxLabel: 'u:r:t:s0:c2' }));
    expect(node.events().at(-1)).toContain('conflicting SELinux labels of volume pv1: "u:r:t:s0:c1" and "u:r:t:s0:c2"');
    node.release('u1');
    expect(node.diskCalls()).toEqual([...ALL, 'tearDown', 'detach', ...ALL]);
    const optionsOf = ({ options }: { options: readonly string[] }) => options;
    expect(node.askedFor('disk.mountDevice').map(optionsOf)).toEqual([
      ['noatime', 'context="u:r:t:s0:c1"'],
      ['context="u:r:t:s0:c2"'],
    ]);
    expect(node.toPods().at(-1)).toEqual({ ...mounted('u2'), labelled: ['data'] });
  });

  it('is shared by pods, and kept until the last one has left it', () => {
    boot();
    node.want('u1', diskVolume());
    attached();
    node.want('u2', diskVolume());
    expect(node.diskCalls()).toEqual([...ALL, 'setUp']);
    node.release('u1');
    expect(node.diskCalls().slice(4)).toEqual(['tearDown']);
    node.release('u2');
    expect(node.diskCalls().slice(5)).toEqual(['tearDown', 'detach']);
  });

  it('as a block device is not mounted, and its paths are recorded', () => {
    boot();
    const folder = `${PLUGIN}/volumeDevices/iface-default/${HANDLE}`;
    node.want('u1', diskVolume({ isBlock: true, disk: { ...disk, folder } }));
    attached();
    expect(node.diskCalls()).toEqual(['attach', 'setUp']);
    expect(node.events()).toEqual([
      `MapVolume.MapPodDevice succeeded for volume "pv1" globalMapPath "${ROOT}/plugins/${folder}"`,
      'MapVolume.MapPodDevice succeeded for volume "pv1" volumeMapPath ' +
        `"${ROOT}/pods/u1/volumeDevices/kubernetes.io~iscsi"`,
    ]);
  });

  it('does not wait for CSIDriver objects', () => {
    boot({ isListening: false });
    node.knobs.list = fail('forbidden', 'Forbidden');
    node.want('u1', diskVolume());
    attached();
    expect(node.diskCalls()).toEqual(ALL);
    expect(node.askedFor('kube.list')).toEqual([]);
  });

  it('whose target does not answer delays no other', () => {
    boot();
    node.knobs.fault = (name, { directory }: { directory?: string }) =>
      name === 'disk.attach' && directory?.endsWith('silent') ? 'hang' : undefined;
    const silent = { folder: `${PLUGIN}/iface-default/silent`, uniqueName: `${PLUGIN}/silent`, source: SOURCE };
    node.want('u1', diskVolume({ handle: 'silent', disk: silent }));
    node.want('u2', diskVolume());
    attached({ attached: [NAME, silent.uniqueName], inUse: [NAME, silent.uniqueName] });
    expect(node.toPods().at(-1)).toEqual(mounted('u2'));
  });
});

describe('a failure', () => {
  it.each([
    ['attach', 'MountVolume.WaitForAttach', 1],
    ['mountDevice', 'MountVolume.MountDevice', 2],
    ['setUp', 'MountVolume.SetUp', 3],
  ])('of %s has the text of the kubelet and is tried again', (call, step, count) => {
    boot();
    node.knobs.fault = (name) => (name === `disk.${call}` ? fail('exit status 4') : undefined);
    node.want('u1', diskVolume());
    attached();
    expect(node.events()).toEqual([`${step} failed for volume "pv1" : exit status 4`]);
    expect(node.diskCalls()).toHaveLength(count);
    node.knobs.fault = () => undefined;
    node.advance(500);
    expect(node.toPods().at(-1)).toEqual(mounted('u1'));
  });

  it('of a block device has other steps', () => {
    boot();
    node.knobs.fault = (name) => (name === 'disk.attach' ? fail('no fc disk found') : undefined);
    node.want('u1', diskVolume({ isBlock: true }));
    attached();
    expect(node.events()).toEqual(['MapVolume.WaitForAttach failed for volume "pv1" : no fc disk found']);
  });

  it('of a disk that no pod wants any more leaves nothing behind', () => {
    boot();
    node.knobs.fault = (name) => (name === 'disk.attach' ? fail('exit status 4') : undefined);
    node.want('u1', diskVolume());
    attached();
    node.release('u1');
    expect(node.diskCalls()).toEqual(['attach', 'detach']);
    expect(node.toPods().at(-1)).toEqual({ type: 'csi.unmounted', uid: 'u1' });
  });

  it('to detach is logged and tried again, and the Node lists the volume until then', () => {
    boot();
    node.want('u1', diskVolume());
    attached();
    node.knobs.fault = (name) => (name === 'disk.detach' ? fail('target is busy') : undefined);
    node.release('u1');
    expect(node.inUse().at(-1)).toEqual([NAME]);
    expect(node.records()).toContainEqual(
      expect.objectContaining({ k: 'log', text: 'UnmountVolume.UnmountDevice failed' }),
    );
    node.knobs.fault = () => undefined;
    node.advance(500);
    expect(node.inUse().at(-1)).toEqual([]);
  });

  it('that a pod that comes meanwhile ends', () => {
    boot();
    node.want('u1', diskVolume());
    attached();
    node.knobs.fault = (name) => (name === 'disk.detach' ? fail('target is busy') : undefined);
    node.release('u1');
    node.want('u2', diskVolume());
    expect(node.toPods().at(-1)).toEqual(mounted('u2'));
  });
});

describe('the CHAP secret', () => {
  const stageSecret = { name: 'chap', namespace: 'vault' };
  it('is read for the login, as a handle', () => {
    boot();
    node.want('u1', diskVolume({ stageSecret }));
    attached();
    expect(node.askedFor('kube.get')).toMatchObject([{ resource: 'secrets', ...stageSecret }]);
    expect(node.askedFor('disk.attach')).toMatchObject([{ secrets: { key: { text: { len: 3 } } } }]);
  });

  it.each([
    [false, 'MountVolume.NewMounter initialization'],
    [true, 'MapVolume.NewBlockVolumeMapper initialization'],
  ])('that is missing has the text of the kubelet (block: %s)', (isBlock, step) => {
    boot();
    node.knobs.fault = (name) => (name === 'kube.get' ? fail('secrets "chap" not found', 'NotFound') : undefined);
    node.want('u1', diskVolume({ stageSecret, isBlock }));
    attached();
    expect(node.events()).toEqual([
      `${step} failed for volume "pv1" : couldn't get secret vault/chap error: secrets "chap" not found`,
    ]);
  });
});

describe('an agent that attaches volumes itself', () => {
  it('waits for nobody, says so, and lists nothing as in use', () => {
    boot({ attachesItself: true });
    node.want('u1', diskVolume());
    expect(node.diskCalls()).toEqual(ALL);
    expect(node.events()).toEqual(['AttachVolume.Attach succeeded for volume "pv1" ']);
    expect(node.inUse().flat()).toEqual([]);
  });

  it('cannot attach volumes of CSI drivers that need it', () => {
    boot({ attachesItself: true, spec: { attachRequired: true } });
    node.want('u1', volumeOf());
    expect(node.events()).toEqual([
      'AttachVolume.Attach failed for volume "pv1" : attaching volumes from the kubelet is not supported',
    ]);
    expect(node.disk.calls).toEqual([]);
  });

  it('mounts volumes of CSI drivers that need no attachment', () => {
    boot({ attachesItself: true });
    node.want('u1', volumeOf());
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
  });
});

describe('after a restart', () => {
  const found = { driver: PLUGIN, handle: HANDLE, folder: FOLDER };
  const left = (more: object = {}) => {
    const { disk: world } = csiNode();
    world.volumes.set('v', { uid: 'u1', spec: 'pv1', ...found, isEphemeral: false, isBlock: false });
    world.devices.set('d', { directory: `${ROOT}/plugins/${FOLDER}`, ...found, block: null });
    return { disk: world, ...more };
  };

  it('the disk of a pod that has gone is detached', () => {
    boot(left());
    expect(node.inUse().at(-1)).toEqual([diskFound(PLUGIN, FOLDER).uniqueName]);
    node.release('u1');
    expect(node.diskCalls()).toEqual(['tearDown', 'detach']);
    expect(node.askedFor('disk.detach')).toEqual([
      { root: ROOT, directory: `${ROOT}/plugins/${FOLDER}`, kind: 'iscsi', isBlock: false },
    ]);
    expect(node.toPods().at(-1)).toEqual({ type: 'csi.unmounted', uid: 'u1' });
  });

  it('the disk of a pod that is still there is used, under the name that the cluster knows', () => {
    boot(left());
    node.want('u1', diskVolume());
    expect(node.inUse().at(-1)).toEqual([NAME]);
    attached();
    expect(node.diskCalls()).toEqual(ALL);
    node.release('u1');
    expect(node.diskCalls().slice(3)).toEqual(['tearDown', 'detach']);
  });

  it('a disk without a pod is detached at once', () => {
    const options = left();
    options.disk.volumes.clear();
    boot(options);
    expect(node.diskCalls()).toEqual(['detach']);
  });
});

it('one pod has a disk that only one may have', () => {
  boot();
  node.want('u1', diskVolume({ accessModes: ['ReadWriteOncePod'] }));
  attached();
  node.want('u2', diskVolume({ accessModes: ['ReadWriteOncePod'] }));
  expect(node.events()).toEqual([
    'MountVolume.SetUp failed for volume "pv1" : ' +
      'volume uses the ReadWriteOncePod access mode and is already in use by another pod',
  ]);
  node.release('u1');
  expect(node.toPods().at(-1)).toEqual(mounted('u2'));
});

it('the volumes of drivers beside it are mounted as before', () => {
  boot({ spec: { attachRequired: false } });
  node.want('u1', diskVolume(), volumeOf({ name: 'other', spec: 'pv2' }));
  expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
  expect(node.inUse().at(-1)).toEqual([NAME]);
  expect(node.askedFor('csi.stage')).toMatchObject([{ data: { driverName: DRIVER } }]);
});
