/** Directories of file servers, with a mount program that stands for mount(8) and its helpers. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { mounter } from '../../../src/actors/volume/mounter.ts';
import type { VolumeSetUp } from '../../../src/machines/model/operations/volume.ts';
import { needsMounts, VolumeRoom } from './support.ts';

let folder: string;
let room: VolumeRoom;
const program = () => join(folder, 'mount');
const script = (...lines: readonly string[]) =>
  writeFileSync(program(), ['#!/bin/sh', `echo "$@" >> ${folder}/calls`, ...lines].join('\n'), { mode: 0o755 });
const calls = () =>
  readFileSync(join(folder, 'calls'), 'utf8')
    .trim()
    .split('\n')
    .map((call) => call.replace(/\/proc\/\d+\/fd\/\d+$/, 'TARGET'));

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'statelet-mount-'));
  script();
  room = new VolumeRoom({ mounter: mounter({ programs: { mount: program(), umount: 'umount' } }) });
});
afterEach(async () => {
  await room.close();
  rmSync(folder, { recursive: true, force: true });
});

const pathOf = () => room.path('nfs', 'pv');
const remote = (options: readonly string[] = []): VolumeSetUp => ({
  kind: 'remote',
  name: 'v',
  spec: 'pv',
  type: 'nfs',
  source: 'nfs.example:/e',
  path: pathOf(),
  options,
});
const setUp = (options?: readonly string[], signal?: AbortSignal) =>
  room.ask('volume.setUp', { volumes: [remote(options)] }, signal);

it.each([
  [[], '--no-canonicalize -t nfs nfs.example:/e TARGET'],
  [['hard', 'ro'], '--no-canonicalize -t nfs -o hard,ro nfs.example:/e TARGET'],
])('are mounted with their options: %j', async (options, call) => {
  expect(await setUp(options)).toEqual({ failed: [] });
  expect(calls()).toEqual([call]);
  expect(existsSync(pathOf())).toBe(true);
});

it('that cannot be mounted are said as upstream does, and leave no folder', async () => {
  script('echo "mount.nfs: Connection refused for nfs.example:/e" >&2', 'exit 32');
  expect(await setUp(['ro'])).toEqual({
    failed: [
      {
        name: 'v',
        spec: 'pv',
        message:
          'mount failed: exit status 32\nMounting command: mount\n' +
          `Mounting arguments: -t nfs -o ro nfs.example:/e ${pathOf()}\n` +
          'Output: mount.nfs: Connection refused for nfs.example:/e\n',
      },
    ],
  });
  expect(existsSync(pathOf())).toBe(false);
});

it('are given up with their pod', async () => {
  script(`exec sleep 60`);
  const abort = new AbortController();
  const done = setUp([], abort.signal);
  setTimeout(() => abort.abort(), 100);
  expect((await done).failed).toHaveLength(1);
  expect(existsSync(pathOf())).toBe(false);
});

it.skipIf(needsMounts)('are mounted once, and unmounted with their pod', async () => {
  const source = join(folder, 'export');
  mkdirSync(source);
  writeFileSync(join(source, 'f'), 'kept');
  script(`for target; do :; done`, `mount --no-canonicalize --bind ${source} "$target"`);
  for (let times = 0; times < 2; times++) expect(await setUp()).toEqual({ failed: [] });
  expect(calls()).toHaveLength(1);
  expect(readFileSync(join(pathOf(), 'f'), 'utf8')).toBe('kept');
  await room.ask('volume.tearDown', {});
  expect(existsSync(pathOf())).toBe(false);
  expect(readFileSync(join(source, 'f'), 'utf8')).toBe('kept');
});
