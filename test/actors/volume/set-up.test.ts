/** Volumes on a real disk: layout, modes, owners, media, and the traps of an attacker. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { VolumeFile, VolumeSetUp } from '../../../src/machines/model/operations/volume.ts';
import { needsMounts, needsRoot, treeOf, VolumeRoom } from './support.ts';

let room: VolumeRoom;
beforeEach(() => void (room = new VolumeRoom()));
afterEach(() => room.close());

const file = (path: string, text: string, mode = 0o644): VolumeFile => ({ path, mode, content: { text } });
const files = (list: readonly VolumeFile[], more: Partial<VolumeSetUp> = {}): VolumeSetUp =>
  ({
    kind: 'files',
    name: 'v',
    path: room.path('configmap', 'v'),
    mount: null,
    groupId: null,
    files: list,
    ...more,
  }) as VolumeSetUp;
const emptyDir = (more: Partial<VolumeSetUp> = {}): VolumeSetUp =>
  ({
    kind: 'folder',
    name: 'v',
    path: room.path('empty-dir', 'v'),
    mount: null,
    groupId: null,
    ...more,
  }) as VolumeSetUp;
const setUp = (...volumes: VolumeSetUp[]) => room.ask('volume.setUp', { volumes });
const read = (path: string) => readFileSync(join(room.path('configmap', 'v'), path), 'utf8');
const data = () => readlinkSync(join(room.path('configmap', 'v'), '..data'));

describe('written volumes', () => {
  it('have a file below as many folders as an agent can hold open, and no more', async () => {
    expect(await setUp(files([file(`${'d/'.repeat(255)}f`, '1')]))).toEqual({ failed: [] });
    const { failed } = await setUp(files([file(`${'d/'.repeat(256)}f`, '1')]));
    expect(JSON.stringify(failed)).toContain('refusing to write a file below 256 folders: at most 256 levels are');
  });

  it('change all at once, keep what is equal, and leave nothing of the old', async () => {
    expect(await setUp(files([file('a', '1'), file('x/y', '2', 0o600)]))).toEqual({ failed: [] });
    const first = data();
    expect(first).toMatch(/^\.\.\d{4}(_\d\d){5}\.\d+$/);
    expect([read('a'), read('x/y')]).toEqual(['1', '2']);
    expect(statSync(join(room.path('configmap', 'v'), 'x/y')).mode & 0o777).toBe(0o600);
    await setUp(files([file('a', '1'), file('x/y', '2', 0o600)]));
    expect(data()).toBe(first);
    await setUp(files([file('a', '3'), file('b', '4')]));
    expect(data()).not.toBe(first);
    expect(readdirSync(room.path('configmap', 'v')).toSorted()).toEqual([data(), '..data', 'a', 'b']);
    expect([read('a'), read('b')]).toEqual(['3', '4']);
  });

  it('have folders for mounts of others, which stay when the files change', async () => {
    const place = room.path('configmap', 'v');
    const folders = ['cache', 'deep/er'];
    expect(await setUp(files([file('a', '1')], { folders }))).toEqual({ failed: [] });
    const { ino } = statSync(join(place, 'deep/er'));
    expect(readdirSync(place).toSorted()).toEqual([data(), '..data', 'a', 'cache', 'deep']);
    await setUp(files([file('b', '2')], { folders }));
    expect(readdirSync(place).toSorted()).toEqual([data(), '..data', 'b', 'cache', 'deep']);
    expect(statSync(join(place, 'deep/er')).ino).toBe(ino);
    expect(statSync(join(place, 'cache')).mode & 0o777).toBe(0o755);
  });

  it('have such a folder in place of files in a folder of that name, but not of a file', async () => {
    const place = room.path('configmap', 'v');
    const list = [file('d/f', '1'), file('g', '2')];
    await setUp(files(list));
    expect(await setUp(files(list, { folders: ['d/n', 'g'] }))).toEqual({ failed: [] });
    expect(readdirSync(join(place, 'd'))).toEqual(['n']);
    expect(read('g')).toBe('2');
  });

  it('refuse a folder that is not below them', async () => {
    const { failed } = await setUp(files([file('a', '1')], { folders: ['../x'] }));
    expect(failed[0]?.message).toBe('refusing to write "../x": it is no path below a volume');
  });

  it.each([
    ['a mode', [file('a', '1', 0o600)]],
    ['a length', [file('a', '12')]],
    ['a byte', [file('a', '2')]],
    ['one file fewer', []],
    ['one file more', [file('a', '1'), file('b', '')]],
  ])('%s is a change', async (_, changed) => {
    await setUp(files([file('a', '1')]));
    const first = data();
    await setUp(files(changed));
    expect(data()).not.toBe(first);
  });

  it('are made whole again after a write that was interrupted', async () => {
    await setUp(files([file('a', '1')]));
    const folder = room.path('configmap', 'v');
    mkdirSync(join(folder, '..2020_01_01_00_00_00.7'));
    writeFileSync(join(folder, '..2020_01_01_00_00_00.7/half'), 'x');
    symlinkSync('..2020_01_01_00_00_00.7', join(folder, '..data_tmp'));
    await setUp(files([file('a', '2')]));
    expect(readdirSync(folder).toSorted()).toEqual([data(), '..data', 'a']);
    expect(read('a')).toBe('2');
  });

  it('hold bytes and opened secrets', async () => {
    const secret = room.vault.seal('hunter2');
    const bytes = { path: 'b', mode: 0o644, content: { base64: 'AAEC' } };
    await setUp(files([{ path: 's', mode: 0o400, content: { text: secret } }, bytes]));
    expect(read('s')).toBe('hunter2');
    expect(readFileSync(join(room.path('configmap', 'v'), 'b'))).toEqual(Buffer.from([0, 1, 2]));
  });

  it('fail alone: a secret that is not in memory is named, the other volume is there', async () => {
    const unknown = { $secret: `§${'x'.repeat(22)}`, len: 3 };
    const other = files([{ path: 's', mode: 0o400, content: { text: unknown } }], {
      name: 'w',
      path: room.path('secret', 'w'),
    });
    const { failed } = await setUp(other, files([file('a', '1')]));
    expect(failed).toEqual([{ name: 'w', message: expect.stringContaining('must be fetched again') }]);
    expect(read('a')).toBe('1');
  });

  it('never delete or write through links that lie in the volume (CVE-2017-1002102)', async () => {
    const victim = join(room.root, 'victim');
    mkdirSync(victim);
    writeFileSync(join(victim, 'keep'), 'safe');
    const folder = room.path('configmap', 'v');
    mkdirSync(folder, { recursive: true });
    for (const name of ['a', 'stale', '..data', '..2020_01_01_00_00_00.7']) symlinkSync(victim, join(folder, name));
    expect(await setUp(files([file('a', '1')]))).toEqual({ failed: [] });
    expect(readdirSync(victim)).toEqual(['keep']);
    expect(readFileSync(join(victim, 'keep'), 'utf8')).toBe('safe');
    expect(read('a')).toBe('1');
    expect(readdirSync(folder).toSorted()).toEqual([data(), '..data', 'a']);
  });

  it('refuse a volume whose folder was exchanged for a link', async () => {
    mkdirSync(join(room.root, 'victim'));
    mkdirSync(join(room.podDirectory, 'volumes/kubernetes.io~configmap'), { recursive: true });
    symlinkSync(join(room.root, 'victim'), room.path('configmap', 'v'));
    const { failed } = await setUp(files([file('a', '1')]));
    expect(failed).toHaveLength(1);
    expect(readdirSync(join(room.root, 'victim'))).toEqual([]);
  });

  it.each(['../x', '..', 'a/../../x', '/x', '..data/x', ''])('refuse a payload at %j', async (path) => {
    await setUp(files([file('a', '1')]));
    const before = data();
    const { failed } = await setUp(files([file('a', '2'), file(path, 'evil')]));
    expect(failed).toEqual([{ name: 'v', message: expect.stringMatching(/\S/) as string }]);
    expect([data(), read('a')]).toEqual([before, '1']);
    expect(readdirSync(join(room.path('configmap', 'v'), '..'))).toEqual(['v']);
  });

  it('leave nothing of a write that fails in the middle', async () => {
    await setUp(files([file('a', '1')]));
    const before = readdirSync(room.path('configmap', 'v')).toSorted();
    const { failed } = await setUp(files([file('a', '2'), file('a/b', 'below a file')]));
    expect(failed).toHaveLength(1);
    expect(readdirSync(room.path('configmap', 'v')).toSorted()).toEqual(before);
    expect(read('a')).toBe('1');
  });

  it('refuse a path outside the root', async () => {
    const { failed } = await setUp(files([file('a', '1')], { path: '/tmp/elsewhere/v' }));
    expect(failed[0]?.message).toContain('refusing to touch');
    expect(existsSync('/tmp/elsewhere')).toBe(false);
  });
});

describe.skipIf(needsRoot)('owners', () => {
  it('a file may be one user’s, and another user is a change', async () => {
    const secret = (userId: number): VolumeFile => ({ ...file('t', '1', 0o600), userId });
    await setUp(files([secret(1_234), file('a', '1')], { groupId: 4242 }));
    const first = data();
    const owners = () => ['t', 'a'].map((name) => statSync(join(room.path('configmap', 'v'), name)).uid);
    expect(owners()).toEqual([1_234, 0]);
    await setUp(files([secret(1_234), file('a', '1')], { groupId: 4242 }));
    expect(data()).toBe(first);
    await setUp(files([secret(1_235), file('a', '1')], { groupId: 4242 }));
    expect(owners()).toEqual([1_235, 0]);
  });

  it('the link to a file is its user’s, too, and of the group from the first time on', async () => {
    const link = (name: string) => lstatSync(join(room.path('configmap', 'v'), name));
    for (const userId of [1_234, 1_235]) {
      await setUp(files([{ ...file('t', '1', 0o600), userId }, file('a', '1')], { groupId: 4242 }));
      expect(link('t')).toMatchObject({ uid: userId, gid: 4242 });
      expect(link('a')).toMatchObject({ uid: 0, gid: 4242 });
      expect(link('..data')).toMatchObject({ uid: 0, gid: 4242 });
    }
  });

  it('fsGroup owns the files, and may read those that no other group may read', async () => {
    await setUp(files([file('a', '1', 0o400), file('x/y', '2')], { groupId: 4242 }));
    const { 'x/y': _, ...tree } = treeOf(room.path('configmap', 'v'));
    expect(tree['..<rand>']).toMatchObject({ gid: 4242, mode: '2755' });
    expect(tree['..<rand>/a']).toMatchObject({ gid: 4242, mode: '0440' });
    expect(tree['..<rand>/x']).toMatchObject({ gid: 4242, mode: '2755' });
    expect(lstatSync(room.path('configmap', 'v'))).toMatchObject({ gid: 4242, mode: 0o42777 });
  });

  it('fsGroup is given to what an emptyDir holds already, never through a link', async () => {
    const victim = join(room.root, 'victim');
    writeFileSync(victim, '');
    chmodSync(victim, 0o600);
    const folder = room.path('empty-dir', 'v');
    mkdirSync(join(folder, 'deep'), { recursive: true });
    writeFileSync(join(folder, 'deep/f'), '');
    chmodSync(join(folder, 'deep/f'), 0o600);
    symlinkSync(victim, join(folder, 'deep/link'));
    await setUp(emptyDir({ groupId: 4242 }));
    expect(statSync(folder)).toMatchObject({ gid: 4242, mode: 0o42777 });
    expect(statSync(join(folder, 'deep/f'))).toMatchObject({ gid: 4242, mode: 0o100660 });
    expect(lstatSync(join(folder, 'deep/link')).gid).toBe(4242);
    expect(statSync(victim)).toMatchObject({ gid: 0, mode: 0o100600 });
  });
});

describe('an emptyDir is its containers’ once they have it', () => {
  const modeOf = (path: string) => statSync(path).mode & 0o7777;

  it('restrictions by its owner stay when other volumes of the pod change', async () => {
    const folder = room.path('empty-dir', 'v');
    expect(await setUp(emptyDir())).toEqual({ failed: [] });
    expect(modeOf(folder)).toBe(0o777);
    chmodSync(folder, 0o700);
    expect(await setUp(emptyDir(), files([file('a', '2')]))).toEqual({ failed: [] });
    expect(modeOf(folder)).toBe(0o700);
    rmSync(folder, { recursive: true });
    await setUp(emptyDir());
    expect(modeOf(folder)).toBe(0o777);
  });

  it('also what a group was given', async ({ skip }) => {
    if (needsRoot) skip();
    const folder = room.path('empty-dir', 'v');
    await setUp(emptyDir({ groupId: 4242 }));
    writeFileSync(join(folder, 'key'), '', { mode: 0o600 });
    for (const path of [folder, join(folder, 'key')]) chownSync(path, 26, 26);
    chmodSync(folder, 0o700);
    await setUp(emptyDir({ groupId: 4242 }));
    expect(statSync(folder)).toMatchObject({ uid: 26, gid: 26, mode: 0o40700 });
    expect(statSync(join(folder, 'key'))).toMatchObject({ uid: 26, gid: 26, mode: 0o100600 });
  });

  it('a mark says so, where other agents have it, and goes with the volume', async () => {
    const mark = join(room.podDirectory, 'plugins/kubernetes.io~empty-dir/v/ready');
    await setUp(emptyDir());
    expect(statSync(mark)).toMatchObject({ size: 0, mode: 0o100644 });
    await room.ask('volume.tearDown', {});
    expect(existsSync(mark)).toBe(false);
  });

  it('a link in place of the mark is not one', async () => {
    const folder = room.path('empty-dir', 'v');
    const plugin = join(room.podDirectory, 'plugins/kubernetes.io~empty-dir/v');
    mkdirSync(plugin, { recursive: true });
    writeFileSync(join(room.root, 'file'), '');
    symlinkSync(join(room.root, 'file'), join(plugin, 'ready'));
    const { failed } = await setUp(emptyDir());
    expect(modeOf(folder)).toBe(0o777);
    expect(failed[0]?.message).toContain('ELOOP');
  });
});

describe('hostPath', () => {
  const check = async (path: string, type: string) => {
    const { failed } = await setUp({ kind: 'host', name: 'v', path, type } as VolumeSetUp);
    return failed[0]?.message ?? 'fine';
  };

  it('says what is not there as upstream does', async () => {
    const path = join(room.root, 'file');
    writeFileSync(path, '');
    expect(await check(path, 'File')).toBe('fine');
    expect(await check(path, 'FileOrCreate')).toBe('fine');
    expect(await check(path, 'Directory')).toBe(`hostPath type check failed: ${path} is not a directory`);
    expect(await check(path, 'DirectoryOrCreate')).toMatch(/is not a directory$|file exists$/);
    expect(await check(path, 'Socket')).toBe(`hostPath type check failed: ${path} is not a socket file`);
    expect(await check(path, 'CharDevice')).toBe(`hostPath type check failed: ${path} is not a character device`);
    expect(await check(path, 'BlockDevice')).toBe(`hostPath type check failed: ${path} is not a block device`);
    expect(await check(room.root, 'File')).toBe(`hostPath type check failed: ${room.root} is not a file`);
    expect(await check(`${path}/below`, 'Directory')).toBe(
      `hostPath type check failed: ${path}/below is not a directory`,
    );
    expect(await check('/dev/null', 'CharDevice')).toBe('fine');
  });

  it('makes what may be made, and nothing else', async () => {
    const folder = join(room.root, 'new/deep');
    expect(await check(folder, 'Directory')).toContain('is not a directory');
    expect(existsSync(folder)).toBe(false);
    expect(await check(folder, 'DirectoryOrCreate')).toBe('fine');
    expect(statSync(folder).mode & 0o777).toBe(0o755);
    expect(await check(join(folder, 'f'), 'FileOrCreate')).toBe('fine');
    expect(statSync(join(folder, 'f')).mode & 0o777).toBe(0o644);
    const missing = join(folder, 'no/f');
    expect(await check(missing, 'FileOrCreate')).toBe(`open ${missing}: no such file or directory`);
  });

  it('is looked at before its pod begins, and not again while it runs', async () => {
    const path = join(room.root, 'file');
    const absent = `hostPath type check failed: ${path} is not a file`;
    expect(await check(path, 'File')).toBe(absent);
    writeFileSync(path, '');
    expect(await check(path, 'File')).toBe('fine');
    rmSync(path);
    expect(await check(path, 'File')).toBe('fine');
    await room.ask('volume.tearDown', {});
    expect(await check(path, 'File')).toBe(absent);
  });

  it('knows a socket', async () => {
    const path = join(room.root, 's');
    const server = createServer().listen(path);
    await new Promise((resolve) => server.once('listening', resolve));
    expect(await check(path, 'Socket')).toBe('fine');
    server.close();
  });

  it('does not open what it inspects: a FIFO blocks nothing', async () => {
    const path = join(room.root, 'fifo');
    execFileSync('mkfifo', [path]);
    expect(await check(path, 'FileOrCreate')).toBe(`hostPath type check failed: ${path} is not a file`);
  });
});

describe.skipIf(needsMounts)('file systems of their own', () => {
  const memory = (): VolumeSetUp => ({
    kind: 'folder',
    name: 'm',
    path: room.path('empty-dir', 'm'),
    mount: { type: 'tmpfs', options: ['size=8388608', 'noswap'], optional: false },
    groupId: null,
  });
  const mounts = () =>
    readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .filter((line) => line.includes(room.root));

  it('medium Memory is a tmpfs of the given size, mounted once', async () => {
    await setUp(memory());
    await setUp(memory());
    expect(mounts()).toHaveLength(1);
    expect(mounts()[0]).toMatch(/ - tmpfs tmpfs .*size=8192k/);
    expect(statSync(room.path('empty-dir', 'm')).mode & 0o7777).toBe(0o1777);
  });

  it('nothing is left of them', async () => {
    await setUp(memory());
    writeFileSync(join(room.path('empty-dir', 'm'), 'f'), 'x');
    await room.ask('volume.tearDown', {});
    expect(mounts()).toEqual([]);
    expect(readdirSync(room.podDirectory)).toEqual([]);
  });

  it('what an agent that crashed had mounted is found, in whatever order', async () => {
    const outer = room.path('empty-dir', 'm');
    await setUp(memory());
    mkdirSync(join(outer, 'inner'));
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', join(outer, 'inner')]);
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', outer]);
    const next = new VolumeRoom();
    const call = { root: room.root, podDirectory: room.podDirectory };
    await next.ports['volume.tearDown']({
      id: 1,
      input: call,
      resume: true,
      signal: new AbortController().signal,
      emit: () => {},
    });
    expect(mounts()).toEqual([]);
    await next.close();
  });

  it('a bound folder loses nothing when the pod goes', async () => {
    const kept = join(room.root, 'kept');
    mkdirSync(kept);
    writeFileSync(join(kept, 'f'), 'safe');
    const target = room.path('empty-dir', 'v');
    mkdirSync(target, { recursive: true });
    execFileSync('mount', ['--bind', kept, target]);
    await room.ask('volume.tearDown', {});
    expect(mounts()).toEqual([]);
    expect(readFileSync(join(kept, 'f'), 'utf8')).toBe('safe');
  });

  it('what is still mounted when it is to be removed is left alone', async () => {
    const { removeTree } = await import('../../../src/actors/volume/tree.ts');
    await setUp(memory());
    writeFileSync(join(room.path('empty-dir', 'm'), 'f'), 'safe');
    const volumes = join(room.podDirectory, 'volumes');
    await expect(removeTree(volumes, statSync(volumes).dev)).rejects.toThrow('on another file system');
    expect(readFileSync(join(room.path('empty-dir', 'm'), 'f'), 'utf8')).toBe('safe');
  });
});

describe('folders of pods', () => {
  it('are found, and nothing but folders', async () => {
    mkdirSync(join(room.root, 'pods/a/volumes'), { recursive: true });
    writeFileSync(join(room.root, 'pods/file'), '');
    symlinkSync('/', join(room.root, 'pods/link'));
    expect(await room.ask('volume.podFolders', {})).toEqual({ uids: ['a', 'u1'] });
  });

  it('need not be there', async () => {
    rmSync(join(room.root, 'pods'), { recursive: true });
    expect(await room.ask('volume.podFolders', {})).toEqual({ uids: [] });
    expect(await room.ask('volume.tearDown', {})).toBeNull();
  });
});
