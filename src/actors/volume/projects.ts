/**
 * Project quotas of volumes: the file system counts the usage of a volume, including deleted but open files, so that it
 * need not be walked.
 *
 * Decides: each volume gets an unused project number, starting at upstream's first one: unused in the machine's project
 * files and in the file system. `/etc/projects` and `/etc/projid` have each of them in the form of projects(5) and
 * projid(5), as xfs_quota(8), repquota(8) and another kubelet read them.
 * Invariants: only an empty folder is given a project; nothing is limited, only counted; other lines are never changed;
 * without project quotas on the file system nothing is written.
 */
import { lstatSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { OperationError } from '../../kernel/json.ts';
import { codeOf } from '../../kernel/thrown.ts';
import { type SystemCalls, systemCalls } from '../host/kernel/syscall.ts';

/** The first project number, as upstream: lower numbers are for administrators. */
export const FIRST_PROJECT = 1_048_577;
/** Upstream's limit of numbers that are tried: others may use numbers that are in no file. */
const SEARCHED_MAX = 128;
/** The limit of the files, enough for thousands of volumes; longer files are not changed. */
const FILE_MAX_BYTES = 1024 * 1024;

export interface ProjectFiles {
  /** `number:path` */
  readonly projects: string;
  /** `name:number` */
  readonly names: string;
}

const SYSTEM_FILES: ProjectFiles = { projects: '/etc/projects', names: '/etc/projid' };

/** The numbers that lines of the two files name. */
const numberOf = (line: string): number => Number(/^(\d+):/.exec(line)?.[1] ?? 0);
const namedNumberOf = (line: string): number => Number(/^[^#:][^:]*:(\d+)$/.exec(line)?.[1] ?? 0);
const pathOf = (line: string): string => /^\d+:(.*)$/.exec(line)?.[1] ?? '';

/** Changes one volume after the other within this process, because each change is synchronous. */
export class Projects {
  private readonly files: ProjectFiles;
  private readonly system: SystemCalls | null;

  constructor(files = SYSTEM_FILES, system = systemCalls()) {
    this.files = files;
    this.system = system;
  }

  /** Assigns a project to an empty, open folder, if the file system counts by project. */
  give(fd: number, path: string): void {
    const { system } = this;
    if (system === null || system.projectUsage(fd, 0) === null) return;
    const [projects, names] = [linesOf(this.files.projects), linesOf(this.files.names)];
    const taken = new Set([...projects.map(numberOf), ...names.map(namedNumberOf)]);
    const project = unused(taken, (each) => hasNoUsage(system, fd, each));
    const others = projects.filter((line) => pathOf(line) !== path);
    // The number is recorded before it is used: a number in no file would be used for a second volume.
    replace(this.files.names, [...names, `volume${project}:${project}`]);
    replace(this.files.projects, [...others, `${project}:${path}`]);
    system.setProject(fd, project);
  }

  /** Forgets the projects of volumes below a removed folder. A line that stays in the file only occupies a number. */
  forgetBelow(folder: string): void {
    try {
      this.forget(folder);
    } catch {
      // An error does not matter: the folder is removed already.
    }
  }

  private forget(folder: string): void {
    const projects = linesOf(this.files.projects);
    const gone = projects.filter((line) => pathOf(line).startsWith(`${folder}/`) && numberOf(line) >= FIRST_PROJECT);
    if (gone.length === 0) return;
    const remaining = projects.filter((line) => !gone.includes(line));
    const used = new Set(remaining.map(numberOf));
    const unnamed = new Set(gone.map(numberOf).filter((project) => !used.has(project)));
    replace(this.files.projects, remaining);
    replace(
      this.files.names,
      linesOf(this.files.names).filter((line) => !unnamed.has(namedNumberOf(line))),
    );
  }
}

function unused(taken: ReadonlySet<number>, isFree: (project: number) => boolean): number {
  let searched = 0;
  for (let project = FIRST_PROJECT; searched <= SEARCHED_MAX; project += 1) {
    if (taken.has(project)) continue;
    if (isFree(project)) return project;
    searched += 1;
  }
  throw new OperationError('cannot find available quota ID');
}

function hasNoUsage(system: SystemCalls, fd: number, project: number): boolean {
  const usage = system.projectUsage(fd, project);
  return usage === null || (usage.bytes === 0n && usage.inodes === 0n);
}

function linesOf(file: string): readonly string[] {
  try {
    const found = lstatSync(file);
    if (!found.isFile()) throw new OperationError(`${file} exists but is not a plain file, cannot continue`);
    if (found.size > FILE_MAX_BYTES) throw new OperationError(`${file} has more than ${FILE_MAX_BYTES} bytes`);
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** Replaces a file atomically: readers see the old file or the new file. */
function replace(file: string, lines: readonly string[]): void {
  const draft = `${file}.statelet`;
  writeFileSync(draft, lines.map((line) => `${line}\n`).join(''), { mode: 0o644, flush: true });
  renameSync(draft, file);
}
