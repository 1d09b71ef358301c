/** Volumes of NFS servers, with programs in place of mount(8) and umount(8): there is neither a server nor a client. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { systemCalls } from '../../../src/actors/host/kernel/syscall.ts';
import { podVolumes } from '../../../src/actors/stats/pod-folders.ts';
import { volumePorts } from '../../../src/actors/volume/index.ts';
import { NFS_AT_ONCE, type NFSVolume } from '../../../src/actors/volume/network-volume.ts';
import { HungMount, hungMountsAvailable } from '../../support/hung-mount.ts';
import { requirement } from '../../support/require.ts';
import { writeProgram } from '../../support/stand-in.ts';
import { needsMounts, VolumeRoom } from './support.ts';

const TMPFS = '/usr/bin/mount -t tmpfs tmpfs "$target"';
const UNMOUNTING = 'exec /usr/bin/umount "$@"';
const UNMOUNT_TIMEOUT_MS = 200;
const noFuse = requirement('root', hungMountsAvailable()).skip;

let room: VolumeRoom;
let path: string;
beforeEach(() => {
  room = new VolumeRoom();
  mkdirSync(join(room.root, 'bin'));
  path = room.path('nfs', 'v');
  become('mount', TMPFS);
  become('umount', UNMOUNTING);
  room = Object.assign(room, { ports: volumePorts({ network: programs() }) });
});
afterEach(async () => {
  become('umount', UNMOUNTING);
  await room.close();
});

const programs = () => ({
  mount: join(room.root, 'bin/mount'),
  umount: join(room.root, 'bin/umount'),
  unmountTimeoutMs: UNMOUNT_TIMEOUT_MS,
});
/** Makes the program do this after it has recorded its arguments. */
function become(name: 'mount' | 'umount', script: string): void {
  const file = join(room.root, 'bin', name);
  writeProgram(file, `#!/bin/bash\necho "$*" >> ${file}.calls\ntarget="\${@: -1}"\n${script}\n`);
}
const callsOf = (name: 'mount' | 'umount') => {
  const file = join(room.root, 'bin', `${name}.calls`);
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
};
const nfs = (more: Partial<NFSVolume> = {}): NFSVolume => ({
  kind: 'nfs',
  name: 'v',
  source: 'server:/data',
  path,
  options: [],
  ...more,
});
const setUp = (more: Partial<NFSVolume> = {}, signal?: AbortSignal) =>
  room.ask('volume.setUp', { volumes: [nfs(more)] }, signal);
const mounts = () =>
  readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes(room.root));

describe.skipIf(needsMounts)('a volume of a server', () => {
  it('is mounted once with its options, and unmounted with its folder at the end of its pod', async () => {
    expect(await setUp({ options: ['nfsvers=4.1', 'ro'] })).toEqual({ failed: [] });
    expect(await setUp({ options: ['nfsvers=4.1', 'ro'] })).toEqual({ failed: [] });
    expect(callsOf('mount')).toEqual([`-t nfs -o nfsvers=4.1,ro -- server:/data ${path}`]);
    await room.ask('volume.tearDown', {});
    expect(callsOf('umount')).toEqual([`--no-canonicalize ${path}`]);
    expect(mounts()).toEqual([]);
    expect(readdirSync(room.podDirectory)).toEqual([]);
  });

  it('that an earlier agent mounted stays, and is unmounted', async () => {
    await setUp();
    room = Object.assign(room, { ports: volumePorts({ network: programs() }) });
    expect(await setUp()).toEqual({ failed: [] });
    expect(callsOf('mount')).toHaveLength(1);
    await room.ask('volume.tearDown', {});
    expect(mounts()).toEqual([]);
  });

  it('named twice is mounted once', async () => {
    const volumes = [nfs(), nfs({ name: 'w' })];
    expect(await room.ask('volume.setUp', { volumes })).toEqual({ failed: [] });
    expect(mounts()).toHaveLength(1);
  });

  it('is unmounted by force if its server does not answer', async () => {
    await setUp();
    become('umount', `case "$*" in *--force*) ${UNMOUNTING};; esac; sleep 60`);
    await room.ask('volume.tearDown', {});
    expect(callsOf('umount')).toEqual([`--no-canonicalize ${path}`, `--no-canonicalize --force --lazy ${path}`]);
    expect(mounts()).toEqual([]);
  });

  it('is unmounted while a process uses it, with what is mounted in it, which is not looked at', async () => {
    await setUp();
    mkdirSync(join(path, 'inside'));
    systemCalls()!.mount('tmpfs', join(path, 'inside'), 'size=65536');
    await room.ask('volume.tearDown', {});
    expect(callsOf('umount')).toEqual([`--no-canonicalize ${path}`, `--no-canonicalize --lazy ${path}`]);
    expect(mounts()).toEqual([]);
  });

  it('that cannot be unmounted keeps its folder, and says why as upstream', async () => {
    await setUp();
    become('umount', 'echo "umount: no" >&2; exit 32');
    await expect(room.ask('volume.tearDown', {})).rejects.toThrow(
      `unmount failed: exit status 32\nUnmounting arguments: ${path}\nOutput: umount: no\n`,
    );
    expect(existsSync(path)).toBe(true);
    expect(mounts()).toHaveLength(1);
  });

  it.skipIf(noFuse)('that never answers is neither looked at nor in the way of its end', async () => {
    const hung = await HungMount.at(path);
    onTestFinished(() => hung.close());
    expect(await setUp()).toEqual({ failed: [] });
    const rootDir = room.root;
    const place = { uid: 'u1', name: 'p', namespace: 'default', rootDir, podLogsDir: rootDir };
    expect(await podVolumes(place)).toEqual([]);
    await room.ask('volume.tearDown', {});
    expect(mounts()).toEqual([]);
    expect(existsSync(path)).toBe(false);
  });

  it('whose mount failed after all is unmounted', async () => {
    become('mount', `${TMPFS}; exit 1`);
    expect((await setUp()).failed).toHaveLength(1);
    expect(mounts()).toEqual([]);
    expect(existsSync(path)).toBe(false);
  });
});

describe('a volume that cannot be mounted', () => {
  const failure = async (more: Partial<NFSVolume> = {}) => (await setUp(more)).failed[0];

  it('says what mount(8) said, as upstream, and leaves no folder', async () => {
    become('mount', 'echo "mount.nfs: Connection refused" >&2; exit 32');
    const { mount } = programs();
    expect(await failure({ spec: 'pv', options: ['ro'] })).toEqual({
      name: 'v',
      spec: 'pv',
      message:
        `mount failed: exit status 32\nMounting command: ${mount}\n` +
        `Mounting arguments: -t nfs -o ro server:/data ${path}\nOutput: mount.nfs: Connection refused\n`,
    });
    expect(existsSync(path)).toBe(false);
  });

  it('says that there is no such program', async () => {
    const ports = volumePorts({ network: { mount: 'no-mount-here', umount: 'no-umount-here' } });
    room = Object.assign(room, { ports });
    expect(await failure()).toMatchObject({
      name: 'v',
      message: expect.stringMatching(
        /^mount failed: exec: "no-mount-here": executable file not found in \$PATH\nMount/,
      ),
    });
  });

  it('names no option of mount(8) with its server', async () => {
    become('mount', 'exit 1');
    await setUp({ source: '--bind:/etc' });
    expect(callsOf('mount')).toEqual([`-t nfs -- --bind:/etc ${path}`]);
  });

  it('continues for the next request, and is killed with all its processes when its pod ends', async () => {
    become('mount', `sleep 300 & echo $! > ${room.root}/helper; wait`);
    const [changing, ending] = [new AbortController(), new AbortController()];
    const first = setUp({}, changing.signal);
    const helper = () => readFileSync(join(room.root, 'helper'), 'utf8').trim();
    await expect.poll(() => existsSync(join(room.root, 'helper')) && helper(), { timeout: 20_000 }).toBeTruthy();
    changing.abort();
    expect((await first).failed).toHaveLength(1);
    const next = setUp({}, ending.signal);
    ending.abort();
    expect((await next).failed).toHaveLength(1);
    expect([callsOf('mount').length, stateOf(helper())]).toEqual([1, 'S']);
    await room.ask('volume.tearDown', {});
    await expect.poll(() => stateOf(helper()), { timeout: 20_000 }).toBeNull();
    expect(existsSync(path)).toBe(false);
  });

  it('reports the end of its mount to the next request', async () => {
    become('mount', `echo > ${room.root}/began; while [ ! -e ${room.root}/go ]; do sleep 0.05; done; exit 7`);
    const changing = new AbortController();
    const first = setUp({}, changing.signal);
    await expect.poll(() => existsSync(join(room.root, 'began')), { timeout: 20_000 }).toBe(true);
    changing.abort();
    await first;
    const next = setUp();
    writeFileSync(join(room.root, 'go'), '');
    expect((await next).failed[0]!.message).toMatch(/^mount failed: exit status 7\n/);
    expect(callsOf('mount')).toHaveLength(1);
  });

  it('is one of a few at a time', async () => {
    const running = join(room.root, 'running');
    mkdirSync(running);
    become(
      'mount',
      `touch ${running}/$$; ls ${running} | wc -l >> ${room.root}/counts; sleep 0.2; rm ${running}/$$; exit 1`,
    );
    const volumes = Array.from({ length: 2 * NFS_AT_ONCE }, (_, at) => nfs({ name: `v${at}`, path: `${path}${at}` }));
    expect((await room.ask('volume.setUp', { volumes })).failed).toHaveLength(volumes.length);
    const counts = readFileSync(join(room.root, 'counts'), 'utf8').trim().split('\n').map(Number);
    expect(counts).toHaveLength(volumes.length);
    expect(Math.max(...counts)).toBeLessThanOrEqual(NFS_AT_ONCE);
  });
});

/** The state of a process; `null` if it has ended. */
function stateOf(pid: string): string | null {
  try {
    const state = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]![0]!;
    return state === 'Z' ? null : state;
  } catch {
    return null;
  }
}
