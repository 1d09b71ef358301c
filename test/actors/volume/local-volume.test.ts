/** Folders of the machine that pods claim: bound, given to a group once, and unchanged when their pods end. */
import { chmodSync, chownSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { mounter } from '../../../src/actors/volume/mounter.ts';
import type { VolumeSetUp } from '../../../src/machines/model/operations/volume.ts';
import { needsMounts, VolumeRoom } from './support.ts';

let room: VolumeRoom;
let source: string;
beforeEach(() => {
  room = new VolumeRoom();
  source = join(room.root, 'disk');
  mkdirSync(source, { mode: 0o755 });
  writeFileSync(join(source, 'f'), 'kept', { mode: 0o600 });
});
afterEach(() => room.close());

type Local = Extract<VolumeSetUp, { kind: 'local' }>;

const pathIn = (pod: string) => join(pod, 'volumes/kubernetes.io~local-volume/pv');
const local = (more: Partial<Local> = {}): Local => ({
  kind: 'local',
  name: 'v',
  spec: 'pv',
  source,
  path: pathIn(room.podDirectory),
  ownership: null,
  filesystem: { type: 'ext4', options: [], readOnly: false },
  ...more,
});
const setUp = (more: Partial<Local> = {}) => room.ask('volume.setUp', { volumes: [local(more)] });
const given = (groupId: number, onlyTop = false) => ({ ownership: { groupId, onlyTop } });
const mounts = () =>
  readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes(room.root));

it.each([
  ['is not there', 'gone', 'does not exist'],
  ['is a file', 'f', 'only directory and block device are supported'],
])('one that %s is said as upstream does', async (_, name, message) => {
  const path = join(source, name);
  const failure = { name: 'v', spec: 'pv', step: 'MountVolume.NewMounter initialization' };
  expect(await setUp({ source: path })).toEqual({
    failed: [{ ...failure, message: expect.stringContaining(message) }],
  });
});

describe.skipIf(needsMounts)('one that is there', () => {
  it('is bound once, and stays as it is when its pod goes', async () => {
    expect(await setUp()).toEqual({ failed: [] });
    expect(await setUp()).toEqual({ failed: [] });
    expect(mounts()).toHaveLength(1);
    expect(readFileSync(join(pathIn(room.podDirectory), 'f'), 'utf8')).toBe('kept');
    await room.ask('volume.tearDown', {});
    expect(mounts()).toEqual([]);
    expect(readFileSync(join(source, 'f'), 'utf8')).toBe('kept');
  });

  it.each([
    [{ options: ['noexec', 'nodev'], readOnly: false }, /^rw,.*nodev,noexec/],
    [{ options: [], readOnly: true }, /^ro,/],
  ])('is bound with its options: %j', async (wanted, options) => {
    expect(await setUp({ filesystem: { type: 'ext4', ...wanted } })).toEqual({ failed: [] });
    const [mount, ...more] = mounts();
    expect(mount!.split(' ')[5]).toMatch(options);
    expect(more).toEqual([]);
    writeFileSync(join(source, 'g'), 'still writable here');
  });

  it('is not bound without them', async () => {
    const refusing = new VolumeRoom({ mounter: { ...mounter(), remount: () => Promise.reject(new Error('no')) } });
    onTestFinished(() => refusing.close());
    const volume = local({ path: pathIn(refusing.podDirectory) });
    const filesystem = { type: 'ext4', options: ['noexec'], readOnly: false };
    const { failed } = await refusing.ask('volume.setUp', { volumes: [{ ...volume, filesystem }] });
    expect(failed).toEqual([{ name: 'v', spec: 'pv', message: 'no' }]);
    expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(refusing.root);
  });

  it('is given to the group of the first pod, and to no other while that has it', async () => {
    expect(await setUp(given(1234))).toEqual({ failed: [] });
    expect(statSync(source)).toMatchObject({ gid: 1234, mode: 0o42775 });
    expect(statSync(join(source, 'f'))).toMatchObject({ gid: 1234, mode: 0o100660 });
    const other = join(room.root, 'pods/u2');
    mkdirSync(other);
    const kept = [{ spec: 'pv', wanted: 4321, has: 1234 }];
    expect(await setUp({ path: pathIn(other), ...given(4321) })).toEqual({ failed: [], kept });
    expect(await setUp({ path: pathIn(other), ...given(4321) })).toEqual({ failed: [] });
    expect(statSync(source).gid).toBe(1234);
    await room.ask('volume.tearDown', {});
    await room.ports['volume.tearDown']({
      id: 1,
      input: { root: room.root, podDirectory: other },
      resume: false,
      signal: new AbortController().signal,
      emit: () => {},
    });
    await setUp(given(4321));
    expect(statSync(join(source, 'f')).gid).toBe(4321);
  });

  it.each([
    [true, 26],
    [false, 1234],
  ])('is looked through where its top belongs to the group: not with onlyTop %s', async (onlyTop, gid) => {
    chownSync(source, 0, 1234);
    chmodSync(source, 0o2775);
    chownSync(join(source, 'f'), 26, 26);
    await setUp(given(1234, onlyTop));
    expect(statSync(join(source, 'f')).gid).toBe(gid);
  });

  it('may be a link of the administrator', async () => {
    const link = join(room.root, 'link');
    symlinkSync(source, link);
    expect(await setUp({ source: link })).toEqual({ failed: [] });
    expect(statSync(pathIn(room.podDirectory)).ino).toBe(statSync(source).ino);
  });
});
