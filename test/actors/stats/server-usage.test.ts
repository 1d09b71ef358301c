/** The usage of volumes on servers, one of which does not answer. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { fileSystemUsage } from '../../../src/actors/stats/disk-usage.ts';
import { isOnServer, serverUsage } from '../../../src/actors/stats/server-usage.ts';
import { temporaryFolder } from '../../support/host-ports.ts';
import { HungMount, hungMountsAvailable } from '../../support/hung-mount.ts';
import { requirement } from '../../support/require.ts';
import { writeProgram } from '../../support/stand-in.ts';

const { skip } = requirement('root', hungMountsAvailable());
/** More than a request takes, and less than a call that is never ended. */
const SOON_MS = 20_000;

async function standIn(script: string) {
  const folder = await temporaryFolder();
  const program = join(folder, 'stat');
  writeProgram(program, `#!/bin/sh\necho "$*" >> ${folder}/calls\n${script}\n`);
  const calls = () =>
    existsSync(`${folder}/calls`) ? readFileSync(`${folder}/calls`, 'utf8').split('\n').length - 1 : 0;
  return { folder, program, calls };
}

it('is told by the path of the volume', () => {
  expect(isOnServer('/var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/v')).toBe(true);
  expect(isOnServer('/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v')).toBe(false);
});

it('is what the file system says', async () => {
  const folder = await temporaryFolder();
  const usage = await serverUsage(folder);
  const { capacity, inodes } = (await fileSystemUsage(folder))!;
  expect(usage).toMatchObject({ capacity, inodes });
});

it('is computed from blocks', async () => {
  const { folder, program } = await standIn('echo 4096 100 60 50 30 20');
  expect(await serverUsage(folder, { program })).toEqual({
    capacity: 409_600n,
    available: 204_800n,
    used: 163_840n,
    inodes: 30n,
    inodesFree: 20n,
  });
});

it.each(['echo no', 'echo 1 2 3 4 5 -6', 'echo 1 2 3 4 5 6; exit 1'])('is unknown after: %s', async (script) => {
  const { folder, program } = await standIn(script);
  expect(await serverUsage(folder, { program })).toBeNull();
});

it('is asked for once a minute', async () => {
  const { folder, program, calls } = await standIn('echo 1 1 1 1 1 1');
  let nowMs = 0;
  const now = () => nowMs;
  await Promise.all([serverUsage(folder, { program, now }), serverUsage(folder, { program, now })]);
  nowMs = 59_000;
  await serverUsage(folder, { program, now });
  expect(calls()).toBe(1);
  nowMs = 61_000;
  await serverUsage(folder, { program, now });
  expect(calls()).toBe(2);
});

it('is asked for by a thread where there is no stat(1)', async () => {
  const folder = await temporaryFolder();
  const { capacity } = (await fileSystemUsage(folder))!;
  expect(await serverUsage(folder, { program: 'no-stat-here' })).toMatchObject({ capacity });
});

describe.skipIf(skip)('of a server that does not answer', () => {
  it('is unknown soon, and leaves no process', async () => {
    const hung = await HungMount.at(join(await temporaryFolder(), 'hung'));
    onTestFinished(() => hung.close());
    const began = performance.now();
    expect(await serverUsage(hung.path)).toBeNull();
    expect(performance.now() - began).toBeLessThan(SOON_MS);
  });
});
