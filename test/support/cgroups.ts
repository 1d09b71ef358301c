/** Real control groups for tests: a root for each test in every hierarchy, removed with everything below at its end. */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

const MOUNT = '/sys/fs/cgroup';
const HIERARCHIES = ['cpu', 'cpuacct', 'cpuset', 'memory', 'pids'];

/** Why this machine has no cgroup v1 for tests; `null` if it has. */
export function cgroupV1Available(): string | null {
  if (process.getuid?.() !== 0) return 'making control groups needs root';
  const missing = HIERARCHIES.filter((name) => !existsSync(join(MOUNT, name, 'cgroup.procs')));
  return missing.length === 0 ? null : `cgroup v1 lacks ${missing.join(', ')}`;
}

const everywhere = (path: string): string[] => [
  join(MOUNT, path),
  ...readdirSync(MOUNT, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(MOUNT, name, path)),
];

const left = new Set<string>();
process.once('exit', () => {
  for (const path of left) removeCgroupRoot(path);
});

/**
 * Creates a root group in every hierarchy of version 1, for `cgroupRoot`. What remains of it is removed when the
 * process of the test ends.
 */
export function makeCgroupRoot(): string {
  const path = `/statelet-${randomBytes(4).toString('hex')}`;
  left.add(path);
  for (const name of readdirSync(MOUNT)) {
    if (existsSync(join(MOUNT, name, 'cgroup.procs'))) mkdirSync(join(MOUNT, name, path));
  }
  for (const file of ['cpuset.cpus', 'cpuset.mems']) {
    const all = readFileSync(join(MOUNT, 'cpuset', file), 'utf8');
    writeFileSync(join(MOUNT, 'cpuset', path, file), all.trim());
  }
  return path;
}

/** Removes the group and everything below it, deepest first; groups with processes stay. */
export function removeCgroupRoot(path: string): void {
  for (const folder of everywhere(path)) removeFolder(folder);
}

function removeFolder(folder: string): void {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) return;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeFolder(join(folder, entry.name));
  }
  try {
    rmdirSync(folder);
  } catch {
    // The group still has a process: the next run of the test uses another root.
  }
}

/** A root for one test. */
export function ownCgroupRoot(): string {
  const path = makeCgroupRoot();
  onTestFinished(() => removeCgroupRoot(path));
  return path;
}

/** The kernel's value for a group: `cpu.shares` of the hierarchy `cpu`; `null` if there is no such group. */
export function cgroupValue(controller: string, path: string, file: string): string | null {
  const full = join(MOUNT, controller, path, file);
  return existsSync(full) ? readFileSync(full, 'utf8').trim() : null;
}

export const cgroupExists = (path: string): boolean => everywhere(path).some((folder) => existsSync(folder));
