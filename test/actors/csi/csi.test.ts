/** `csi.*` with a driver on a real socket that really mounts: calls, records, leftovers of each failure. */
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, renameSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expandRequest } from '../../../src/machines/charts/csi/expansion-policy.ts';
import type { CSIVolume } from '../../../src/machines/model/csi/messages.ts';
import { deviceIdOf, devicePlace, mountPlace } from '../../../src/machines/model/csi/paths.ts';
import { deviceData, publishRequest, stageRequest, volumeData } from '../../../src/machines/model/csi/policy.ts';
import { NEWEST_BEHAVIOR } from '../../../src/machines/model/settings/behaviors.ts';
import { needsMounts } from '../volume/support.ts';
import { CsiRoom } from './support.ts';

const CANARY = 'canary-3b1f0c55-do-not-tell';
const volume: CSIVolume = {
  name: 'data',
  spec: 'pv1',
  driver: 'csi.example.test',
  handle: 'handle-1',
  isEphemeral: false,
  isBlock: false,
  readOnly: false,
  fsType: 'ext4',
  attributes: { size: 'big' },
  accessModes: ['ReadWriteOnce'],
  mountOptions: ['noatime'],
  stageSecret: null,
  publishSecret: null,
  expandSecret: null,
  size: null,
  fsGroup: null,
  fsGroupOnlyTop: false,
};
const pod = { kind: 'Pod', namespace: 'default', name: 'p', uid: 'u1', serviceAccount: 'default' } as const;
const CAPABILITIES = ['STAGE_UNSTAGE_VOLUME'];

let room: CsiRoom;
const device = () => devicePlace(room.root, deviceIdOf(volume)).directory;
const folder = (spec = volume.spec) => mountPlace(room, { spec, isBlock: false }).directory;
const target = () => mountPlace(room, volume).target;
const staged = () => ({ stagingPath: `${device()}/globalmount`, publishContext: { path: '/dev/x' } });

const stage = (secrets = {}, label = '') =>
  room.ask('csi.stage', {
    directory: device(),
    data: deviceData(volume, 'node1', label),
    block: null,
    request: stageRequest(volume, `${device()}/globalmount`, {
      capabilities: CAPABILITIES,
      secrets,
      label,
      publishContext: { path: '/dev/x' },
    }),
  });
const publish = (more: object = {}, secrets = {}) =>
  room.ask('csi.publish', {
    directory: folder(),
    data: volumeData(volume, 'node1', ''),
    again: false,
    block: null,
    request: publishRequest(volume, target(), {
      pod,
      spec: null,
      capabilities: CAPABILITIES,
      secrets,
      label: '',
      device: staged(),
      behavior: NEWEST_BEHAVIOR,
    }),
    tokens: {},
    tokensIn: 'volume_context',
    ownership: null,
    ...more,
  });
const unpublish = () => room.ask('csi.unpublish', { directory: folder(), handle: volume.handle, block: null });
const unstage = () =>
  room.ask('csi.unstage', { directory: device(), handle: volume.handle, isStaged: true, block: null });
const isLeft = () => existsSync(folder());

/** A socket of a process that died without removing it. */
async function deadSocket(path: string): Promise<void> {
  const server = createServer().listen(`${path}.alive`);
  await once(server, 'listening');
  renameSync(`${path}.alive`, path);
  server.close();
}

describe.skipIf(needsMounts)('a volume of a CSI driver', () => {
  beforeEach(async () => {
    room = await new CsiRoom().open();
  });
  afterEach(() => room.close());

  it('is staged, published, unpublished and unstaged, with the requests of the protocol', async () => {
    expect(await room.ask('csi.capabilities', {})).toEqual({ capabilities: CAPABILITIES });
    await stage();
    await publish();
    expect(await room.mounts()).toEqual([target(), `${device()}/globalmount`]);
    expect(room.driver.calls.map(({ request }) => request)).toEqual([
      {
        volume_id: 'handle-1',
        publish_context: { path: '/dev/x' },
        staging_target_path: `${device()}/globalmount`,
        volume_capability: {
          mount: { fs_type: 'ext4', mount_flags: ['noatime'], volume_mount_group: '' },
          access_mode: { mode: 'SINGLE_NODE_WRITER' },
        },
        secrets: {},
        volume_context: { size: 'big' },
      },
      {
        volume_id: 'handle-1',
        publish_context: { path: '/dev/x' },
        staging_target_path: `${device()}/globalmount`,
        target_path: target(),
        volume_capability: {
          mount: { fs_type: 'ext4', mount_flags: ['noatime'], volume_mount_group: '' },
          access_mode: { mode: 'SINGLE_NODE_WRITER' },
        },
        readonly: false,
        secrets: {},
        volume_context: { size: 'big' },
      },
    ]);
    await unpublish();
    await unstage();
    expect(await room.mounts()).toEqual([]);
    expect([isLeft(), existsSync(device())]).toEqual([false, false]);
    expect(room.driver.calls.slice(2).map(({ request }) => request)).toEqual([
      { volume_id: 'handle-1', target_path: target() },
      { volume_id: 'handle-1', staging_target_path: `${device()}/globalmount` },
    ]);
  });

  it('has its records where every kubelet has them', async () => {
    await stage();
    await publish();
    expect(room.record(device())).toEqual({ driverName: 'csi.example.test', volumeHandle: 'handle-1' });
    expect(room.record(folder())).toEqual({
      attachmentID: expect.stringMatching(/^csi-[0-9a-f]{64}$/),
      driverName: 'csi.example.test',
      nodeName: 'node1',
      specVolID: 'pv1',
      volumeHandle: 'handle-1',
      volumeLifecycleMode: 'Persistent',
    });
    expect(await room.ask('csi.inventory', {})).toEqual({
      volumes: [
        { uid: 'u1', spec: 'pv1', driver: 'csi.example.test', handle: 'handle-1', isEphemeral: false, isBlock: false },
      ],
      devices: [{ directory: device(), driver: 'csi.example.test', handle: 'handle-1', block: null }],
      errors: [],
    });
  });

  it('with an SELinux label is found with it', async () => {
    await stage({}, 'u:r:t:s0:c1');
    const { devices } = await room.ask('csi.inventory', {});
    expect(devices).toMatchObject([{ handle: 'handle-1', label: 'u:r:t:s0:c1' }]);
  });

  it('that is there already is asked for again, as after a restart, and stays if that fails', async () => {
    await stage();
    await publish();
    await stage();
    await publish();
    await publish({ again: true });
    const publications = ['NodePublishVolume', 'NodePublishVolume'];
    expect(room.methods()).toEqual(['NodeStageVolume', 'NodePublishVolume', 'NodeStageVolume', ...publications]);
    const mounts = await room.mounts();
    room.driver.fault = () => ({ code: status.INTERNAL, details: 'forgotten' });
    for (const call of [stage, publish]) await expect(call()).rejects.toThrow('code = Internal desc = forgotten');
    expect(await room.mounts()).toEqual(mounts);
    expect([room.record(device()), room.record(folder())]).not.toContain(null);
    room.driver.fault = () => undefined;
    await unpublish();
    await unpublish();
    expect(room.methods().slice(7)).toEqual(['NodeUnpublishVolume']);
  });

  it('that surely failed leaves nothing; that may have been done leaves its record', async () => {
    await stage();
    room.driver.fault = () => ({ code: status.INTERNAL, details: 'no such disk' });
    await expect(publish()).rejects.toThrow('rpc error: code = Internal desc = no such disk');
    expect(isLeft()).toBe(false);
    room.driver.fault = () => ({ code: status.ABORTED, details: 'busy', isDone: true });
    await expect(publish()).rejects.toThrow('rpc error: code = Aborted desc = busy');
    expect(room.record(folder())).toMatchObject({ volumeHandle: 'handle-1' });
    room.driver.fault = () => undefined;
    await unpublish();
    expect(isLeft()).toBe(false);
    expect(room.methods().at(-1)).toBe('NodeUnpublishVolume');
  });

  it('that the driver says to be gone, and that is mounted still, keeps its record', async () => {
    await stage();
    await publish();
    room.driver.fault = () => ({ lies: true });
    await expect(unpublish()).rejects.toThrow(/pv1\/mount is still mounted, though the driver says that it is not/);
    expect(room.record(folder())).not.toBeNull();
  });

  it('gets its secrets and tokens, and no error tells them', async () => {
    await stage();
    const [secret, token] = [room.vault.seal(CANARY), room.vault.seal(`${CANARY}-token`)];
    const tokens = { vault: { token, expirationTimestamp: '2026-01-01T00:00:00Z' } };
    const bytes = { base64: room.vault.seal(Buffer.from('raw').toString('base64')) };
    room.driver.fault = ({ request }) => ({ code: status.INTERNAL, details: `bad ${JSON.stringify(request)}` });
    const failure = await publish({ tokens }, { password: { text: secret }, bytes }).catch((error: Error) => error);
    expect((failure as Error).message).toContain('bad {');
    expect((failure as Error).message).not.toContain(CANARY);
    const { request } = room.driver.calls.at(-1)!;
    expect(request.secrets).toEqual({ password: CANARY, bytes: 'raw' });
    const shown =
      '{"vault":{"token":"canary-3b1f0c55-do-not-tell-token","expirationTimestamp":"2026-01-01T00:00:00Z"}}';
    expect(request.volume_context).toEqual({ size: 'big', 'csi.storage.k8s.io/serviceAccount.tokens': shown });
    room.driver.fault = () => undefined;
    await publish({ tokens, tokensIn: 'secrets' });
    expect(room.driver.calls.at(-1)!.request.volume_context).toEqual({ size: 'big' });
    expect(room.driver.calls.at(-1)!.request.secrets['csi.storage.k8s.io/serviceAccount.tokens']).toBe(shown);
  });

  it('becomes as large as its volume has become, while it is used', async () => {
    await stage();
    await publish();
    const sizeOf = () => statfsSync(target()).blocks * statfsSync(target()).bsize;
    expect(sizeOf()).toBe(65_536);
    const secret = room.vault.seal(CANARY);
    const request = expandRequest(volume, '128Ki', {
      target: target(),
      stagingPath: staged().stagingPath,
      capabilities: CAPABILITIES,
      secrets: { key: { text: secret } },
    });
    await room.ask('csi.expand', { request });
    expect(sizeOf()).toBe(131_072);
    expect(room.driver.calls.at(-1)!.request).toMatchObject({
      volume_path: target(),
      staging_target_path: staged().stagingPath,
      capacity_range: { required_bytes: '131072', limit_bytes: '0' },
      secrets: { key: CANARY },
    });
    room.driver.fault = () => ({ code: status.FAILED_PRECONDITION, details: `in use: ${CANARY}` });
    await expect(room.ask('csi.expand', { request })).rejects.toMatchObject({
      code: 'FAILED_PRECONDITION',
      message: expect.not.stringContaining(CANARY),
    });
  });

  it.each(['ECONNREFUSED', 'ENOENT'])('of a driver that is gone (%s) fails at once, in gRPC’s words', async (code) => {
    const gone = join(room.root, 'gone.sock');
    if (code === 'ECONNREFUSED') await deadSocket(gone);
    const { signal } = new AbortController();
    const beganMs = performance.now();
    const call = { id: 1, input: { endpoint: gone }, resume: false, signal, emit: () => {} };
    const text = code === 'ENOENT' ? 'no such file or directory' : 'connection refused';
    await expect(room.ports['csi.capabilities'](call)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message:
        'rpc error: code = Unavailable desc = connection error: ' +
        `desc = "transport: Error while dialing: dial unix ${gone}: connect: ${text}"`,
    });
    expect(performance.now() - beganMs).toBeLessThan(10_000);
  });

  it.each([
    ['whatever its top is like', false, 2001],
    ['only when its top is not', true, 0],
  ])('is handed to the group of its pod: %s', async (_, onlyTop, group) => {
    await stage();
    await publish({ ownership: { groupId: 2001, onlyTop } });
    expect(statSync(target()).gid).toBe(2001);
    writeFileSync(join(target(), 'new'), '');
    chownSync(join(target(), 'new'), 0, 0);
    await publish({ again: true, ownership: { groupId: 2001, onlyTop } });
    expect(statSync(join(target(), 'new')).gid).toBe(group);
  });
});

describe.skipIf(needsMounts)('what is found on disk', () => {
  beforeEach(async () => {
    room = await new CsiRoom().open();
  });
  afterEach(() => room.close());

  const write = (directory: string, text: string) => {
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'vol_data.json'), text);
  };

  it('is nothing on a new node', async () => {
    expect(await room.ask('csi.inventory', {})).toEqual({ volumes: [], devices: [], errors: [] });
  });

  it('is believed only where it agrees with its folder', async () => {
    const data = JSON.stringify({ driverName: 'd', volumeHandle: 'h', specVolID: 'other' });
    write(folder('broken'), '{');
    write(folder('moved'), data);
    write(folder('big'), ' '.repeat(70_000));
    write(join(room.root, 'plugins/kubernetes.io/csi/d/0123'), data);
    const { volumes, devices, errors } = await room.ask('csi.inventory', {});
    expect([volumes, devices]).toEqual([[], []]);
    expect(errors.map((error) => error.replace(room.root, ''))).toEqual([
      '/pods/u1/volumes/kubernetes.io~csi/big/vol_data.json cannot be read: ' +
        `${folderOf('big')}/vol_data.json has 70000 bytes: not reading it`,
      ...['broken', 'moved'].map((name) => `${shown(name)} is missing or says nothing of "${name}": it is left alone`),
      '/plugins/kubernetes.io/csi/d/0123/vol_data.json is not of this folder: it is left alone',
    ]);
  });
  const shown = (name: string) => `/pods/u1/volumes/kubernetes.io~csi/${name}/vol_data.json`;
  const folderOf = (name: string) => folder(name);
});
