/** How the volumes of a pod are measured, by plugin, whose name is the label of a metric. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { systemCalls } from '../../../src/actors/host/kernel/syscall.ts';
import { podVolumes } from '../../../src/actors/stats/pod-folders.ts';
import { temporaryFolder } from '../../support/host-ports.ts';
import { needsMounts } from '../volume/support.ts';

async function sourcesOf(plugin: string, prepare: (folder: string) => void): Promise<string[]> {
  const rootDir = await temporaryFolder();
  const folder = join(rootDir, 'pods/u1/volumes', plugin, 'data');
  mkdirSync(folder, { recursive: true });
  prepare(folder);
  const sources: string[] = [];
  const place = { uid: 'u1', rootDir, name: 'web', namespace: 'default', podLogsDir: rootDir };
  await podVolumes(place, undefined, (source) => void sources.push(source));
  return sources;
}

it('a folder of the node is measured by its files', async () => {
  expect(await sourcesOf('kubernetes.io~empty-dir', () => undefined)).toEqual(['du']);
});

it('the folder of a volume of a server is not measured before that is mounted', async () => {
  expect(await sourcesOf('kubernetes.io~nfs', () => undefined)).toEqual([]);
});

it.skipIf(needsMounts).each([
  ['kubernetes.io~empty-dir', 'du'],
  ['kubernetes.io~secret', 'du'],
  ['kubernetes.io~projected', 'du'],
  ['kubernetes.io~downward-api', 'du'],
  ['kubernetes.io~local-volume', 'statfs'],
  ['kubernetes.io~nfs', 'statfs'],
])('a file system of %s counts as measured by %s', async (plugin, source) => {
  const mounted = await sourcesOf(plugin, (folder) => {
    onTestFinished(() => systemCalls()!.unmount(folder));
    systemCalls()!.mount('tmpfs', folder, 'size=65536');
  });
  expect(mounted).toEqual([source]);
});
