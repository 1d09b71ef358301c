/** Folders for mounts inside volumes that are read-only for containers. */
import { describe, expect, it } from 'vitest';
import type { Container, Pod } from '../../../../src/machines/model/api/pod.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { nestedFolders } from '../../../../src/machines/model/volumes/nested.ts';
import { volumePlan } from '../../../../src/machines/model/volumes/plan.ts';
import { settings } from '../../../support/pods-node.ts';

type Mounts = Readonly<Record<string, string>>;
const container = (mounts: Mounts, name = 'c'): Container => ({
  name,
  volumeMounts: Object.entries(mounts).map(([mountPath, volume]) => ({ name: volume, mountPath })),
});
const podOf = (containers: readonly Container[], more: object = {}): Pod => ({
  metadata: { name: 'p', namespace: 'default', uid: 'u1' },
  spec: { containers: [...containers], ...more },
});
const foldersOf = (mounts: Mounts) => nestedFolders('v', podOf([container(mounts)]));

describe('the folders of a volume for mounts of others', () => {
  it.each<[what: string, mounts: Mounts, folders: string[]]>([
    ['nothing below', { '/etc/app': 'v', '/etc/application': 'w', '/etc': 'x' }, []],
    ['one below', { '/etc/app': 'v', '/etc/app/cache': 'w' }, ['cache']],
    ['one far below', { '/etc/app/': 'v', '/etc//app/a/./b/': 'w' }, ['a/b']],
    ['one below another', { '/d': 'v', '/d/n': 'w', '/d/n-2': 'w', '/d/n/double': 'x' }, ['n-2', 'n']],
    ['the volume twice', { '/a': 'v', '/b': 'v', '/a/x': 'w', '/b/y': 'w' }, ['x', 'y']],
    ['the volume in itself', { '/a': 'v', '/a/b': 'v' }, ['b']],
    ['the volume and another at one place', { '/a': 'v', '/a/': 'w', '/a/b': 'x' }, []],
    ['paths without a slash', { a: 'v', 'a/b': 'w' }, ['b']],
  ])('%s', (_, mounts, folders) => expect(foldersOf(mounts)).toEqual(folders));

  it('are those of every container, each once', () => {
    const initContainers = [container({ '/i': 'v', '/i/x': 'w' }, 'i')];
    const ephemeralContainers = [container({ '/e': 'v', '/e/x': 'w', '/e/y': 'w' }, 'e')];
    const pod = podOf([container({ '/c': 'v', '/c/z': 'w' })], { initContainers, ephemeralContainers });
    expect(nestedFolders('v', pod)).toEqual(['x', 'z', 'y']);
  });

  it('are found at once for thousands of volumes and mounts', () => {
    const names = Array.from({ length: 6_000 }, (_, at) => `v${at}`);
    const mounts = Object.fromEntries(
      names.flatMap((name) => [
        [`/${name}`, name],
        [`/${name}/x`, 'w'],
      ]),
    );
    const pod = podOf([container(mounts)]);
    const began = process.cpuUsage();
    for (const name of names) expect(nestedFolders(name, pod)).toHaveLength(1);
    // Sorting the mounts for each volume would take many times as long.
    expect(process.cpuUsage(began).user).toBeLessThan(5_000_000);
  });

  it('are none for a path that leads out of the container', () => {
    expect(() => foldersOf({ '../a': 'v' })).toThrow('invalid container mount point ../a');
  });
});

describe('the plan of a pod', () => {
  const pod = podOf([container({ '/d': 'v', '/d/cache': 'w' })], {
    volumes: [
      { name: 'v', downwardAPI: {} },
      { name: 'w', emptyDir: {} },
    ],
  });
  const setUps = (behavior: number) =>
    volumePlan({ pod, node: { ...settings, behavior, memoryCapacityBytes: '1000' }, objects: {} }).setUps;

  it('has them for volumes that the agent writes', () => {
    const [written, empty] = setUps(NEWEST_BEHAVIOR);
    expect(written).toMatchObject({ kind: 'files', folders: ['cache'] });
    expect(empty).not.toHaveProperty('folders');
  });

  it('had none before', () => expect(setUps(0)[0]).not.toHaveProperty('folders'));
});
