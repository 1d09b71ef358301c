/** Disks of the machine that pods claim as folders: formatted if blank, and mounted while a pod uses them. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { LocalVolume } from '../../../src/actors/volume/local-volume.ts';
import { requirement } from '../../support/require.ts';
import { needsMounts, VolumeRoom } from './support.ts';

const DISK_BYTES = 16 * 1024 * 1024;

const pathIn = (pod: string) => join(pod, 'volumes/kubernetes.io~local-volume/pv');

const LOOP_CONTROL = '/dev/loop-control';
const needsLoop = needsMounts || requirement('loop', existsSync(LOOP_CONTROL) ? null : `no ${LOOP_CONTROL}`).skip;

describe.skipIf(needsLoop)('a disk', () => {
  let room: VolumeRoom;
  let image: string;
  let device: string;
  const pod = (name: string) => join(room.root, 'pods', name);
  const mounts = () =>
    readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .filter((line) => line.includes(room.root));

  beforeEach(() => {
    room = new VolumeRoom();
    image = join(room.root, 'disk.img');
    writeFileSync(image, '');
    truncateSync(image, DISK_BYTES);
    device = execFileSync('losetup', ['--find', '--show', image], { encoding: 'utf8' }).trim();
  });
  afterEach(async () => {
    await room.close();
    execFileSync('losetup', ['--detach', device]);
  });

  const call = (podDirectory: string) => ({
    id: 1,
    resume: false,
    signal: new AbortController().signal,
    emit: () => {},
    place: { root: room.root, podDirectory },
  });
  async function setUp(uid: string, filesystem: Partial<LocalVolume['filesystem']> = {}) {
    mkdirSync(pod(uid), { recursive: true });
    const volume: LocalVolume = {
      kind: 'local',
      name: 'v',
      spec: 'pv',
      source: device,
      path: pathIn(pod(uid)),
      ownership: null,
      filesystem: { type: 'ext4', options: [], readOnly: false, ...filesystem },
    };
    const { place, ...rest } = call(pod(uid));
    return await room.ports['volume.setUp']({ ...rest, input: { ...place, volumes: [volume] } });
  }
  async function tearDown(uid: string) {
    const { place, ...rest } = call(pod(uid));
    return await room.ports['volume.tearDown']({ ...rest, input: place });
  }
  const step = 'MountVolume.MountDevice';

  it('that is blank is formatted once and mounted once, until no pod has it', async () => {
    expect(await setUp('u1')).toEqual({ failed: [] });
    writeFileSync(join(pathIn(pod('u1')), 'f'), 'kept');
    expect(await setUp('u2')).toEqual({ failed: [] });
    expect(readFileSync(join(pathIn(pod('u2')), 'f'), 'utf8')).toBe('kept');
    expect(mounts()).toHaveLength(3);
    expect(mounts().every((line) => line.includes(` - ext4 ${device} `))).toBe(true);
    await tearDown('u1');
    expect(mounts()).toHaveLength(2);
    await tearDown('u2');
    expect(mounts()).toEqual([]);
    expect(await setUp('u3')).toEqual({ failed: [] });
    expect(readFileSync(join(pathIn(pod('u3')), 'f'), 'utf8')).toBe('kept');
    await tearDown('u3');
  });

  it('goes from one pod to the next one at once', async () => {
    await setUp('u1');
    for (let turn = 1; turn < 8; turn++) {
      const [, { failed }] = await Promise.all([tearDown(`u${turn}`), setUp(`u${turn + 1}`)]);
      expect(failed).toEqual([]);
    }
    await tearDown('u8');
    expect(mounts()).toEqual([]);
  });

  it('that is blank and may not be written is said', async () => {
    const message = `cannot mount unformatted disk ${device} as we are manipulating it in read-only mode`;
    expect(await setUp('u1', { readOnly: true })).toEqual({ failed: [{ name: 'v', spec: 'pv', step, message }] });
    expect(mounts()).toEqual([]);
  });

  it('with partitions is left alone', async () => {
    const table = Buffer.alloc(512);
    table.set([0, 0, 2, 0, 0x83, 0, 8, 0, 0, 8, 0, 0, 0, 8, 0, 0], 446);
    table.set([0x55, 0xaa], 510);
    execFileSync('dd', [`of=${device}`, 'bs=512', 'count=1', 'conv=fsync'], { input: table, stdio: 'pipe' });
    const { failed } = await setUp('u1');
    expect(failed).toMatchObject([
      { name: 'v', spec: 'pv', step, message: expect.stringMatching(/superblock|fs type/) },
    ]);
    expect(readFileSync(device).subarray(0, 512).equals(table)).toBe(true);
  });

  it('is mounted with the options of its volume', async () => {
    expect(await setUp('u1', { options: ['noatime'] })).toEqual({ failed: [] });
    expect(mounts()[0]).toMatch(/ rw,noatime /);
    await tearDown('u1');
  });
});
