/**
 * Sub-paths of volumes under attack: the mounted file was in the volume, even if an attacker exchanges names meanwhile.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BOUNDED_CALLS_MAX, boundedCall } from '../../../src/actors/host/bounded-calls.ts';
import { mounter } from '../../../src/actors/volume/mounter.ts';
import { openSubPath } from '../../../src/actors/volume/sub-path.ts';
import { fdPath } from '../../../src/actors/volume/tree.ts';
import { needsMounts, VolumeRoom } from './support.ts';

let room: VolumeRoom;
let volume: string;
beforeEach(() => {
  room = new VolumeRoom();
  volume = room.path('empty-dir', 'v');
  mkdirSync(volume, { recursive: true });
});
afterEach(() => room.close());

const target = (at = 0) => join(room.podDirectory, `volume-subpaths/v/c/${at}`);
const bind = (subPath: string, at = 0) =>
  room.ask('volume.bindSubPaths', {
    subPaths: [{ container: 'c', volume: 'v', volumePath: volume, subPath, target: target(at) }],
  });
const why = async (subPath: string) => (await bind(subPath)).failed['c']?.why ?? 'fine';

/** The targets of this process's descriptors in `folder` and below; the process has others, too. */
const handlesIn = (folder: string): string[] =>
  readdirSync('/proc/self/fd').flatMap((fd) => {
    const place = placeOf(fd);
    return place === folder || place.startsWith(`${folder}/`) ? [place] : [];
  });

/** Empty for a descriptor that was closed meanwhile. */
function placeOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}

describe('where a sub-path leads', () => {
  const contentOf = async (subPath: string) => {
    const handle = await openSubPath(volume, subPath);
    try {
      return readFileSync(fdPath(handle), 'utf8');
    } finally {
      await handle.close();
    }
  };

  it('follows links that stay in the volume, as those of a ConfigMap do', async () => {
    mkdirSync(join(volume, '..1/deep'), { recursive: true });
    writeFileSync(join(volume, '..1/deep/f'), 'in');
    symlinkSync('..1', join(volume, '..data'));
    symlinkSync('..data/deep', join(volume, 'deep'));
    symlinkSync('../..1/deep/../deep/f', join(volume, '..1/up'));
    expect(await contentOf('deep/f')).toBe('in');
    expect(await contentOf('./deep//f')).toBe('in');
    expect(await contentOf('..1/up')).toBe('in');
  });

  it('follows a link that names the volume by its path on the host', async () => {
    mkdirSync(join(volume, 'releases/7'), { recursive: true });
    writeFileSync(join(volume, 'releases/7/f'), 'seven');
    symlinkSync(join(volume, 'releases'), join(volume, 'all'));
    symlinkSync(join(volume, 'all/7'), join(volume, 'releases/current'));
    expect(await contentOf('releases/current/f')).toBe('seven');
    const linked = `${volume}-linked`;
    symlinkSync(volume, linked);
    const handle = await openSubPath(`${linked}/`, 'releases/current/f');
    expect(readFileSync(fdPath(handle), 'utf8')).toBe('seven');
    await handle.close();
  });

  it.each([
    ['one that only begins alike', (own: string) => `${own}2/f`],
    ['one that leads up from there', (own: string) => `${own}/../../f`],
  ])('%s leads nowhere', async (_, link) => {
    symlinkSync(link(volume), join(volume, 'x'));
    await expect(openSubPath(volume, 'x')).rejects.toThrow('leads out of its volume');
  });

  it.each([
    ['an absolute link', '/etc'],
    ['a link upwards', '../../../..'],
    ['a link upwards through itself', 'x/../../..'],
    ['a loop', 'x'],
  ])('%s leads nowhere', async (_, link) => {
    symlinkSync(link, join(volume, 'x'));
    await expect(openSubPath(volume, 'x/passwd')).rejects.toThrow('leads out of its volume');
    expect(readdirSync(volume)).toEqual(['x']);
  });

  it('makes what is missing with the permissions of the volume', async () => {
    chmodSync(volume, 0o3777);
    await (await openSubPath(volume, 'new/deep')).close();
    expect(statSync(join(volume, 'new')).mode & 0o7777).toBe(0o3777);
    expect(statSync(join(volume, 'new/deep')).mode & 0o7777).toBe(0o3777);
  });

  it('never opens what it finds: a FIFO blocks nothing', async () => {
    execFileSync('mkfifo', [join(volume, 'fifo')]);
    const handle = await openSubPath(volume, 'fifo');
    expect((await handle.stat()).isFIFO()).toBe(true);
    await handle.close();
  });

  it('is refused with more folders below each other than an agent can hold open', async () => {
    await (await openSubPath(volume, 'a/'.repeat(256))).close();
    await expect(openSubPath(volume, 'a/'.repeat(257))).rejects.toThrow(
      `a sub-path of ${volume} has more than 256 folders below each other`,
    );
    expect(handlesIn(volume)).toEqual([]);
  });

  it('leaves no handle open', async () => {
    symlinkSync('/etc', join(volume, 'x'));
    mkdirSync(join(volume, 'a/b/c'), { recursive: true });
    symlinkSync('/etc', join(volume, 'a/b/c/x'));
    const held = await openSubPath(volume, 'a/b');
    expect(handlesIn(volume)).toEqual([join(volume, 'a/b')]);
    await held.close();
    await expect(openSubPath(volume, 'a/b/c/x')).rejects.toThrow('leads out of its volume');
    await (await openSubPath(volume, 'a/b/../b/c')).close();
    await expect(openSubPath(volume, 'x')).rejects.toThrow('leads out of its volume');
    expect(handlesIn(volume)).toEqual([]);
  });
});

describe('a file system that does not answer', () => {
  it('is no reason to refuse many concurrent requests', async () => {
    const all = Array.from({ length: 10 }, (_, at) => boundedCall(`file ${at}`, async () => at));
    expect(await Promise.all(all)).toEqual(Array.from({ length: 10 }, (_, at) => at));
  });

  it('is none that answered while this process was busy', async () => {
    const begun = Promise.withResolvers<void>();
    const look = () => {
      begun.resolve();
      return stat('/');
    };
    const call = boundedCall('local', look, { timeoutMs: 20 });
    await begun.promise;
    const freeMs = performance.now() + 200;
    while (performance.now() < freeMs);
    expect((await call).isDirectory()).toBe(true);
    expect(await boundedCall('local', async () => 'fine')).toBe('fine');
  });

  it('costs one thread, however many ask for it', async () => {
    const late = Promise.withResolvers<void>();
    const first = boundedCall('nfs', () => late.promise, { timeoutMs: 20 });
    await expect(first).rejects.toThrow('nfs did not answer within 20 ms');
    for (let round = 0; round < 2 * BOUNDED_CALLS_MAX; round++) {
      await expect(boundedCall('nfs', async () => 'asked')).rejects.toThrow('nfs still does not answer');
    }
    expect(await boundedCall('another', async () => 'fine')).toBe('fine');
    late.resolve();
    await new Promise(setImmediate);
    expect(await boundedCall('nfs', async () => 'fine')).toBe('fine');
  });

  it('affects only the pods that request it', async () => {
    const late = Promise.withResolvers<void>();
    const stuck = Array.from({ length: BOUNDED_CALLS_MAX }, (_, at) =>
      boundedCall(`nfs ${at}`, () => late.promise, { timeoutMs: 20 }),
    );
    const queued = boundedCall('queued', async () => 'never begun', { timeoutMs: 20 });
    for (const each of [...stuck, queued]) await expect(each).rejects.toThrow('did not answer within 20 ms');
    await expect(boundedCall('another', async () => 'fine')).rejects.toThrow('other file systems do not answer');
    await expect(boundedCall('nfs 0', async () => 'fine')).rejects.toThrow('nfs 0 still does not answer');
    late.resolve();
    await new Promise(setImmediate);
    expect(await boundedCall('another', async () => 'fine')).toBe('fine');
  });
});

const ROADS = [
  ['system calls', () => mounter()],
  ['programs', () => mounter({ system: null })],
] as const;

describe.skipIf(needsMounts).each(ROADS)('bound by %s', (_, road) => {
  beforeEach(async () => {
    await room.close();
    room = new VolumeRoom({ mounter: road() });
    volume = room.path('empty-dir', 'v');
    mkdirSync(volume, { recursive: true });
  });

  it('shows a folder and a file, each once, and lets both go', async () => {
    mkdirSync(join(volume, 'd'));
    writeFileSync(join(volume, 'd/f'), 'one');
    expect([await why('d'), (await bind('d/f', 1)).failed, await why('d')]).toEqual(['fine', {}, 'fine']);
    expect(readFileSync(join(target(), 'f'), 'utf8')).toBe('one');
    expect(readFileSync(target(1), 'utf8')).toBe('one');
    const mounts = () =>
      readFileSync('/proc/self/mountinfo', 'utf8')
        .split('\n')
        .filter((line) => line.includes(room.root));
    expect(mounts()).toHaveLength(2);
    await room.ask('volume.tearDown', {});
    expect(mounts()).toEqual([]);
    expect(existsSync(volume)).toBe(false);
  });

  it('shows the new file when the old one was replaced', async () => {
    writeFileSync(join(volume, 'f'), 'one');
    await bind('f');
    rmSync(join(volume, 'f'));
    writeFileSync(join(volume, 'f'), 'two');
    await bind('f');
    expect(readFileSync(target(), 'utf8')).toBe('two');
  });

  it('mounts a tmpfs, with and without what this kernel does not know', async () => {
    const path = room.path('secret', 's');
    const options = ['size=65536', 'noswap'];
    const mount = { type: 'tmpfs', options, optional: true } as const;
    const setUp = { kind: 'files', name: 's', path, mount, groupId: null, files: [] } as const;
    expect(await room.ask('volume.setUp', { volumes: [setUp] })).toEqual({ failed: [] });
    expect(readFileSync('/proc/self/mountinfo', 'utf8')).toContain(`${path} `);
  });

  it('is told of a container named like what every object has', async () => {
    symlinkSync('/etc', join(volume, 'x'));
    const subPath = { container: 'constructor', volume: 'v', volumePath: volume, subPath: 'x', target: target() };
    const { failed } = await room.ask('volume.bindSubPaths', { subPaths: [subPath] });
    expect(Object.keys(failed)).toEqual(['constructor']);
  });

  it('names a volume that is missing', async () => {
    rmSync(volume, { recursive: true });
    expect((await bind('d')).failed['c']?.message).toBe(`stat ${volume}: no such file or directory`);
  });

  it('refuses a link out of the volume; what lies there is not for the pod to know', async () => {
    symlinkSync('/etc', join(volume, 'x'));
    symlinkSync('/nowhere', join(volume, 'y'));
    const failureOf = async (subPath: string) => (await bind(subPath)).failed['c'];
    expect(await failureOf('x')).toEqual({
      message: 'failed to prepare subPath for volumeMount "v" of container "c"',
      why: '"x" leads out of its volume through a link',
    });
    expect(existsSync(target())).toBe(false);
    expect((await failureOf('y'))?.message).toBe(
      'failed to create subPath directory for volumeMount "v" of container "c"',
    );
  });

  it('cannot prepare what is below a file: it is not missing, and no folder can be made there', async () => {
    writeFileSync(join(volume, 'f'), 'one');
    expect((await bind('f/x')).failed['c']).toMatchObject({
      message: 'failed to prepare subPath for volumeMount "v" of container "c"',
    });
    expect(readFileSync(join(volume, 'f'), 'utf8')).toBe('one');
  });
});

describe('a program that hangs', () => {
  it('is given up', async () => {
    const folder = mkdtempSync(join(room.root, 'bin-'));
    const program = join(folder, 'mount');
    writeFileSync(program, '#!/bin/sh\nexec sleep 60\n', { mode: 0o755 });
    const slow = mounter({ system: null, programs: { mount: program, umount: program }, timeoutMs: 100 });
    await expect(slow.bind('/a', '/b')).rejects.toThrow('did not end within 100 ms');
    await expect(slow.unmount('/b')).rejects.toMatchObject({ code: 'ETIMEDOUT', retriable: true });
  });

  it('that is not there is named', async () => {
    const none = mounter({ system: null, programs: { mount: '/nowhere/mount', umount: '/nowhere/umount' } });
    await expect(none.bind('/a', '/b')).rejects.toThrow('there is no program /nowhere/mount');
  });
});

/** Exchanges a folder and a link to the host's secret as fast as possible. */
const ATTACKER = `
const { parentPort, workerData } = require('node:worker_threads');
const { renameSync, symlinkSync, mkdirSync, rmSync } = require('node:fs');
const { name, spare, victim, stop } = workerData;
const flag = new Int32Array(stop);
let rounds = 0;
parentPort.postMessage('ready');
while (Atomics.load(flag, 0) === 0) {
  try {
    rmSync(spare, { recursive: true, force: true });
    symlinkSync(victim, spare);
    renameSync(name, spare + '.folder');
    renameSync(spare, name);
    rmSync(name);
    renameSync(spare + '.folder', name);
  } catch {
    try { mkdirSync(name); } catch {}
  }
  rounds++;
}
parentPort.postMessage(rounds);
`;

describe.skipIf(needsMounts)('an attacker who exchanges names in a loop (CVE-2021-25741)', () => {
  it('never gets anything of the host mounted', async () => {
    const victim = mkdtempSync(join(room.root, 'victim-'));
    writeFileSync(join(victim, 'shadow'), 'secret');
    const name = join(volume, 'sub');
    mkdirSync(name);
    const stop = new SharedArrayBuffer(4);
    const workerData = { name, spare: join(volume, 'spare'), victim, stop };
    const attacker = new Worker(ATTACKER, { eval: true, workerData });
    await new Promise((resolve) => attacker.once('message', resolve));
    const seen = { bound: 0, refused: 0, stolen: 0 };
    for (let round = 0; round < 300; round++) {
      const { failed } = await bind('sub', round % 3);
      if (failed['c'] !== undefined) seen.refused++;
      else if (existsSync(join(target(round % 3), 'shadow'))) seen.stolen++;
      else seen.bound++;
    }
    const rounds = new Promise((resolve) => attacker.once('message', resolve));
    Atomics.store(new Int32Array(stop), 0, 1);
    expect(await rounds).toBeGreaterThan(100);
    await attacker.terminate();
    expect(seen.stolen).toBe(0);
    expect(seen.bound).toBeGreaterThan(0);
    expect(readdirSync(victim)).toEqual(['shadow']);
  });
});
