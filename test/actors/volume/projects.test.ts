/** Project quotas of volumes: their ids, the files of the machine that name them, and which volumes get one. */
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ProjectUsage, type SystemCalls, systemCalls } from '../../../src/actors/host/kernel/syscall.ts';
import { projectUsage } from '../../../src/actors/stats/pod-folders.ts';
import { FIRST_PROJECT, Projects } from '../../../src/actors/volume/projects.ts';
import { requirement } from '../../support/require.ts';
import { VolumeRoom } from './support.ts';

let folder: string;
const files = () => ({ projects: join(folder, 'projects'), names: join(folder, 'projid') });
const written = () => Object.values(files()).map((file) => readFileSync(file, 'utf8'));

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'statelet-projects-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A file system that counts; `used` by project. */
class Counting {
  readonly given: number[] = [];
  readonly used = new Map<number, ProjectUsage>();
  private readonly counts: boolean;

  constructor(counts = true) {
    this.counts = counts;
  }

  get calls(): SystemCalls {
    return {
      projectUsage: (_fd: number, project: number) =>
        this.counts ? (this.used.get(project) ?? { bytes: 0n, inodes: 0n }) : null,
      setProject: (_fd: number, project: number) => void this.given.push(project),
    } as unknown as SystemCalls;
  }
}

describe('numbers of projects', () => {
  it('each volume has its own, named in both files; one that is gone frees its number', () => {
    const disk = new Counting();
    const projects = new Projects(files(), disk.calls);
    projects.give(1, '/pods/a/volumes/data');
    projects.give(1, '/pods/b/volumes/data');
    expect(disk.given).toEqual([FIRST_PROJECT, FIRST_PROJECT + 1]);
    expect(written()).toEqual([
      `${FIRST_PROJECT}:/pods/a/volumes/data\n${FIRST_PROJECT + 1}:/pods/b/volumes/data\n`,
      `volume${FIRST_PROJECT}:${FIRST_PROJECT}\nvolume${FIRST_PROJECT + 1}:${FIRST_PROJECT + 1}\n`,
    ]);
    projects.forgetBelow('/pods/a/volumes');
    expect(written()).toEqual([
      `${FIRST_PROJECT + 1}:/pods/b/volumes/data\n`,
      `volume${FIRST_PROJECT + 1}:${FIRST_PROJECT + 1}\n`,
    ]);
    projects.give(1, '/pods/c/volumes/data');
    expect(disk.given.at(-1)).toBe(FIRST_PROJECT);
  });

  it('those of others are left alone: their lines, and numbers for which the disk counts something', () => {
    const [mine, theirs] = [FIRST_PROJECT + 2, FIRST_PROJECT];
    writeFileSync(files().projects, `# of the machine\n42:/srv\n${theirs}:/srv/big\n`);
    writeFileSync(files().names, 'web:42\n');
    const disk = new Counting();
    disk.used.set(FIRST_PROJECT + 1, { bytes: 4_096n, inodes: 1n });
    const projects = new Projects(files(), disk.calls);
    projects.give(1, '/pods/a/volumes/data');
    expect(disk.given).toEqual([mine]);
    projects.forgetBelow('/pods/a/volumes');
    projects.forgetBelow('/srv/other');
    expect(written()).toEqual([`# of the machine\n42:/srv\n${theirs}:/srv/big\n`, 'web:42\n']);
  });

  it('a disk that counts for no project gives none, and writes nothing', () => {
    const disk = new Counting(false);
    new Projects(files(), disk.calls).give(1, '/pods/a/volumes/data');
    new Projects(files(), null).give(1, '/pods/a/volumes/data');
    expect(disk.given).toEqual([]);
    expect(written).toThrow('ENOENT');
  });

  it('a file that is a link is refused when a volume is made, and left alone when one goes', () => {
    const elsewhere = join(folder, 'elsewhere');
    writeFileSync(elsewhere, `${FIRST_PROJECT}:/pods/a/volumes/data\n`);
    symlinkSync(elsewhere, files().projects);
    const projects = new Projects(files(), new Counting().calls);
    expect(() => projects.give(1, '/pods/b/volumes/data')).toThrow('exists but is not a plain file, cannot continue');
    projects.forgetBelow('/pods/a/volumes');
    expect(readFileSync(elsewhere, 'utf8')).toBe(`${FIRST_PROJECT}:/pods/a/volumes/data\n`);
  });

  it('numbers that others use without a name are searched for so long, and no longer', () => {
    const disk = new Counting();
    for (let each = 0; each < 200; each += 1) disk.used.set(FIRST_PROJECT + each, { bytes: 1n, inodes: 1n });
    expect(() => new Projects(files(), disk.calls).give(1, '/pods/a/volumes/data')).toThrow(
      'cannot find available quota ID',
    );
  });
});

describe('volumes', () => {
  it('one of a pod in a user namespace has a project before anything is in it, once; it is forgotten with the pod', async () => {
    const disk = new Counting();
    const room = new VolumeRoom({ projects: new Projects(files(), disk.calls) });
    try {
      const data = {
        kind: 'folder',
        name: 'data',
        path: room.path('empty-dir', 'data'),
        mount: null,
        groupId: null,
      } as const;
      const other = { ...data, name: 'other', path: room.path('empty-dir', 'other') };
      const setUp = () => room.ask('volume.setUp', { volumes: [{ ...data, isCounted: true }, other] });
      expect((await setUp()).failed).toEqual([]);
      await setUp();
      expect(disk.given).toEqual([FIRST_PROJECT]);
      expect(written()[0]).toBe(`${FIRST_PROJECT}:${data.path}\n`);
      await room.ask('volume.tearDown', {});
      expect(written()).toEqual(['', '']);
    } finally {
      await room.close();
    }
  });

  it('one that another agent has filled before is walked', async () => {
    const disk = new Counting();
    const room = new VolumeRoom({ projects: new Projects(files(), disk.calls) });
    try {
      const path = room.path('empty-dir', 'data');
      mkdirSync(path, { recursive: true });
      writeFileSync(join(path, 'file'), 'there');
      await room.ask('volume.setUp', {
        volumes: [{ kind: 'folder', name: 'data', path, mount: null, groupId: null, isCounted: true }],
      });
      expect(disk.given).toEqual([]);
    } finally {
      await room.close();
    }
  });
});

/** The kernel's inheritance and counting of projects is tested in a guest (`test/guest/rows/isolation.ts`). */
describe.skipIf(requirement('root', process.getuid?.() === 0 ? null : 'only root asks for quotas').skip)(
  'the kernel',
  () => {
    it('a folder of no project is of none, and a file system without quotas counts nothing', () => {
      const system = systemCalls()!;
      const fd = openSync(folder, 'r');
      try {
        expect(system.projectOf(fd)).toBe(0);
        expect(system.projectUsage(fd, FIRST_PROJECT)).toBe(null);
        expect(projectUsage(folder)).toBe(null);
      } finally {
        closeSync(fd);
      }
    });
  },
);
