/** Volumes that are block devices, with a driver on a real socket and real devices: layout, records, leftovers. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { mounter } from '../../../src/actors/volume/mounter.ts';
import { Projects } from '../../../src/actors/volume/projects.ts';
import { setUpVolumes } from '../../../src/actors/volume/set-up.ts';
import { tearDownVolumes } from '../../../src/actors/volume/tear-down.ts';
import { expandRequest } from '../../../src/machines/charts/csi/expansion-policy.ts';
import { deviceIdOf, devicePlace, mountPlace } from '../../../src/machines/model/csi/paths.ts';
import { deviceData, publishRequest, stageRequest, volumeData } from '../../../src/machines/model/csi/policy.ts';
import { NEWEST_BEHAVIOR } from '../../../src/machines/model/settings/behaviors.ts';
import { podOf, volumeOf } from '../../machines/charts/csi/support.ts';
import { requirement } from '../../support/require.ts';
import { loopProblem, needsMounts } from '../volume/support.ts';
import { CsiRoom } from './support.ts';

const needsDevices = needsMounts || requirement('root', loopProblem()).skip;

const tools = { mounter: mounter(), projects: new Projects() };
const volume = volumeOf({ isBlock: true, attributes: { size: 'big' }, fsType: 'ext4' });
const capabilities = ['STAGE_UNSTAGE_VOLUME'];
const SIZE = 1024 * 1024;

let room: CsiRoom;
const plugin = () => join(room.root, 'plugins/kubernetes.io/csi/volumeDevices');
const device = () => devicePlace(room.root, deviceIdOf(volume));
const mount = () => mountPlace(room, volume);
const staged = () => ({ stagingPath: device().staging, publishContext: {} });
const more = { capabilities, secrets: {}, label: '', publishContext: {}, behavior: NEWEST_BEHAVIOR };
const isDevice = (path: string) => statSync(path).isBlockDevice();

const stage = () =>
  room.ask('csi.stage', {
    directory: device().directory,
    block: device().block,
    data: deviceData(volume, 'node1', ''),
    request: stageRequest(volume, device().staging, more),
  });
const publish = () =>
  room.ask('csi.publish', {
    directory: mount().directory,
    block: mount().block,
    data: volumeData(volume, 'node1', ''),
    again: false,
    request: publishRequest(volume, mount().target, { ...more, pod: podOf('u1'), spec: null, device: staged() }),
    tokens: {},
    tokensIn: 'volume_context',
    ownership: null,
  });
const unpublish = () =>
  room.ask('csi.unpublish', { directory: mount().directory, block: mount().block, handle: volume.handle });
const unstage = () =>
  room.ask('csi.unstage', { directory: device().directory, block: device().block, handle: 'h1', isStaged: true });

beforeEach(async () => {
  if (needsDevices) return;
  room = await new CsiRoom().open();
  const image = join(room.root, 'disk.img');
  writeFileSync(image, '');
  truncateSync(image, SIZE);
  room.driver.disk = image;
});
afterEach(async () => {
  if (!needsDevices) await room.close();
});

describe.skipIf(needsDevices)('a block device of a CSI driver', () => {
  it('is staged, published and bound where every kubelet has it, and leaves nothing', async () => {
    await stage();
    expect(statSync(device().staging).isDirectory()).toBe(true);
    await publish();
    expect(room.driver.calls.map(({ request }) => request.volume_capability)).toEqual([
      { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
      { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
    ]);
    expect(room.driver.calls[0]!.request.staging_target_path).toBe(join(plugin(), 'staging/pv1'));
    const { target_path: target, staging_target_path: from } = room.driver.calls[1]!.request;
    expect([target, from]).toEqual([join(plugin(), 'publish/pv1/u1'), join(plugin(), 'staging/pv1')]);
    const link = join(room.podDirectory, 'volumeDevices/kubernetes.io~csi/pv1');
    expect([readlinkSync(link), isDevice(link), isDevice(join(plugin(), 'pv1/dev/u1'))]).toEqual([target, true, true]);
    expect(JSON.parse(readFileSync(join(plugin(), 'pv1/data/vol_data.json'), 'utf8'))).toMatchObject({
      specVolID: 'pv1',
      volumeHandle: 'h1',
      nodeName: 'node1',
      attachmentID: expect.stringMatching(/^csi-/),
    });
    await unpublish();
    await unstage();
    expect(room.methods().slice(2)).toEqual(['NodeUnpublishVolume', 'NodeUnstageVolume']);
    expect(await room.mounts()).toEqual([]);
    expect(existsSync(link)).toBe(false);
    expect(['publish', 'staging'].flatMap((name) => readdirSync(join(plugin(), name)))).toEqual([]);
    expect(existsSync(join(plugin(), 'pv1'))).toBe(false);
  });

  it('is found by the next agent, with its pods', async () => {
    await stage();
    await publish();
    expect(await room.ask('csi.inventory', {})).toEqual({
      volumes: [{ uid: 'u1', spec: 'pv1', driver: volume.driver, handle: 'h1', isEphemeral: false, isBlock: true }],
      devices: [{ directory: device().directory, driver: volume.driver, handle: 'h1', block: 'pv1' }],
      errors: [],
    });
    await publish();
    expect((await room.mounts()).filter((point) => point.includes('/dev/'))).toHaveLength(1);
  });

  it('that surely failed leaves nothing; that may have been done is found', async () => {
    room.driver.fault = () => ({ code: status.INTERNAL, details: 'no such disk' });
    await expect(stage()).rejects.toThrow('rpc error: code = Internal desc = no such disk');
    expect(existsSync(join(plugin(), 'pv1'))).toBe(false);
    room.driver.fault = ({ method }) =>
      method === 'NodePublishVolume' ? { code: status.UNAVAILABLE, details: 'gone', isDone: true } : undefined;
    await stage();
    await expect(publish()).rejects.toThrow('gone');
    const { volumes } = await room.ask('csi.inventory', {});
    expect(volumes).toMatchObject([{ uid: 'u1', isBlock: true }]);
    room.driver.fault = () => undefined;
    await unpublish();
    await unpublish();
    expect(room.methods().slice(-1)).toEqual(['NodeUnpublishVolume']);
  });

  it('that is no device is not handed on, and is taken away', async () => {
    room.driver.disk = null;
    await stage();
    await expect(publish()).rejects.toThrow(
      `${mount().target} is not a block device; a volume of volumeMode Block has to be one`,
    );
    await unpublish();
    expect(await room.mounts()).toEqual([]);
  });

  it('is expanded at the path that pods have', async () => {
    const request = expandRequest(volume, '2Mi', { ...more, target: mount().target, stagingPath: device().staging });
    expect(request).toMatchObject({
      volume_path: mount().target,
      staging_target_path: device().staging,
      volume_capability: { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
    });
  });
});

describe.skipIf(needsDevices)('a block device of this machine', () => {
  let disk: string;
  const setUp = () => {
    const link = join(room.podDirectory, 'volumeDevices/kubernetes.io~local-volume/pv1');
    const map = join(room.root, 'plugins/kubernetes.io/local-volume/volumeDevices/pv1/u1');
    const volumes = [{ kind: 'device' as const, name: 'v', spec: 'pv1', device: disk, link, map }];
    const { signal } = new AbortController();
    const place = { root: room.root, podDirectory: room.podDirectory };
    return setUpVolumes({ ...place, volumes }, { ...tools, vault: room.vault, given: new Map() }, signal);
  };
  beforeEach(() => {
    disk = execFileSync('losetup', ['-f', '--show', join(room.root, 'disk.img')], { encoding: 'utf8' }).trim();
  });
  afterEach(() => execFileSync('losetup', ['-d', disk]));

  it('is bound once, and goes with its pod', async () => {
    expect(await setUp()).toEqual({ failed: [] });
    expect(await setUp()).toEqual({ failed: [] });
    const link = join(room.podDirectory, 'volumeDevices/kubernetes.io~local-volume/pv1');
    expect([readlinkSync(link), isDevice(link), (await room.mounts()).length]).toEqual([disk, true, 1]);
    const maps = join(room.root, 'plugins/kubernetes.io/local-volume/volumeDevices');
    await tearDownVolumes({ root: room.root, podDirectory: room.podDirectory }, tools);
    expect([existsSync(link), await room.mounts(), isDevice(disk)]).toEqual([false, [], true]);
    expect(readdirSync(join(maps, 'pv1'))).toEqual([]);
  });

  it('that is none is named', async () => {
    const there = disk;
    disk = room.root;
    expect(await setUp()).toEqual({
      failed: [
        {
          name: 'v',
          spec: 'pv1',
          step: 'MapVolume.MapBlockVolume',
          message: `${room.root} is not a block device; a volume of volumeMode Block has to be one`,
        },
      ],
    });
    disk = there;
  });
});
