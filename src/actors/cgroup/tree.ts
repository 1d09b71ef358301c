/**
 * Cgroups as folders: creates, limits, lists and removes them directly (driver `cgroupfs`).
 *
 * Invariants: C1 a group of version 1 exists in every hierarchy, one of version 2 has every controller that its parent
 * can give. C2 removal starts at the deepest group, and a missing group counts as removed. C3 no path leaves the
 * hierarchy. C4 while cgroup operations of the kernel are slow, the journal and the other ports still have threads.
 * C5 a group that is created waits for few removals, however many groups are removed at once.
 */
import { closeSync, constants, openSync, readFileSync, write as writeFd } from 'node:fs';
import { access, mkdir, readdir, readFile, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pLimit from 'p-limit';
import { OperationError } from '../../kernel/json.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { CgroupResources } from '../../machines/model/operations/cgroup.ts';
import { shareOfThreads } from '../host/bounded-calls.ts';
import { ignoring } from '../host/root-folder.ts';
import {
  type CgroupFile,
  filesOfVersion1,
  filesOfVersion2,
  foldersOf,
  type Hierarchies,
  requiredFolders,
} from './hierarchies.ts';

const FOLDER_MODE = 0o755;
/**
 * Concurrent calls: a quarter of the threads. The kernel serializes such calls by a lock that runtimes hold as well:
 * without this limit, ninety pods that end at once would block every thread for seconds.
 */
const CALLS_MAX = shareOfThreads(1 / 4);
const calls = pLimit(CALLS_MAX);
/**
 * Removals among these calls: calls are made in the order of their requests, so a thousand pods that end at once would
 * hold up the start of the next one until the last of their groups is gone.
 */
const removals = pLimit(Math.max(1, CALLS_MAX - 1));
const removeFolderItself = (folder: string): Promise<void> => removals(() => calls(() => rmdir(folder)));
const writeTo: (fd: number, text: string) => Promise<unknown> = promisify(writeFd);
/** CRI-O's monitor has a cgroup beside the container's, with nearly the same name. */
const MONITOR = 'conmon';
/**
 * Attempts to remove a group: a killed process leaves its cgroup with a delay. Each wait is twice as long as the one
 * before.
 */
const REMOVE_TRIES = 9;
const REMOVE_FIRST_WAIT_MS = 2;
/** The controllers that version 2 enables for the groups below. */
const CONTROLLERS = ['cpu', 'cpuset', 'memory', 'pids', 'hugetlb', 'io'];

/** Rejects paths that name no group below the root. */
export function checkedPath(path: string): string {
  const steps = path.split('/').slice(1);
  const isGood =
    path === '/' || (path.startsWith('/') && steps.every((step) => step !== '' && step !== '..' && step !== '.'));
  if (!isGood || path.includes('\0')) throw new OperationError(`not the path of a cgroup: ${JSON.stringify(path)}`);
  return path === '/' ? '' : path;
}

const exists = (path: string): Promise<boolean> =>
  calls(() => access(path)).then(
    () => true,
    () => false,
  );

export async function missingFolders(hierarchies: Hierarchies, path: string): Promise<readonly string[]> {
  const folders = requiredFolders(hierarchies, checkedPath(path));
  const found = await Promise.all(folders.map(exists));
  return folders.filter((_, index) => !found[index]);
}

/** Creates the group and all groups above it. A request that is cancelled while its calls wait creates none. */
export async function makeGroup(hierarchies: Hierarchies, path: string, signal?: AbortSignal): Promise<void> {
  const below = checkedPath(path);
  const made = (folder: string, recursive: boolean) =>
    calls(async () => {
      signal?.throwIfAborted();
      await mkdir(folder, { recursive, mode: FOLDER_MODE });
    });
  if (hierarchies.version === 2) return makeUnifiedGroup(hierarchies.mounts.get('') ?? '', below, made);
  const cpuset = hierarchies.mounts.get('cpuset');
  await Promise.all(
    foldersOf(hierarchies, below).map(async (folder) => {
      await made(folder, true);
      if (cpuset !== undefined && folder === `${cpuset}${below}`) await inheritCpus(cpuset, below);
    }),
  );
}

/** Gives a cpuset its parent's CPUs and memory nodes, without which no process may run in it. */
async function inheritCpus(mount: string, below: string): Promise<void> {
  const steps = below.split('/').slice(1);
  await Promise.all(['cpuset.cpus', 'cpuset.mems'].map((file) => inherited(mount, steps, file)));
}

/** The final value of the group. A group without a value, which is a new one, inherits its parent's. */
async function inherited(mount: string, steps: readonly string[], file: string): Promise<string> {
  const path = join(mount, ...steps, file);
  const text = read(path);
  if (text !== '' || steps.length === 0) return text ?? '';
  const given = await inherited(mount, steps.slice(0, -1), file);
  await write(path, given);
  return given;
}

type MakeFolder = (folder: string, recursive: boolean) => Promise<void>;

async function makeUnifiedGroup(mount: string, below: string, made: MakeFolder): Promise<void> {
  let folder = mount;
  for (const step of below.split('/').slice(1)) {
    await enableControllers(folder);
    folder = join(folder, step);
    await made(folder, false).catch(ignoring('EEXIST'));
  }
}

/** A controller that cannot be enabled is missing below; a group that needs it fails there with its name. */
async function enableControllers(folder: string): Promise<void> {
  const [available, given] = ['cgroup.controllers', 'cgroup.subtree_control'].map((file) =>
    (read(join(folder, file)) ?? '').split(' '),
  );
  const missing = CONTROLLERS.filter((name) => available?.includes(name) && !given?.includes(name));
  for (const name of missing) await write(join(folder, 'cgroup.subtree_control'), `+${name}`).catch(() => undefined);
}

/** Writes each value that differs: in order within a hierarchy, all hierarchies in parallel. */
export async function writeLimits(hierarchies: Hierarchies, path: string, resources: CgroupResources): Promise<void> {
  const below = checkedPath(path);
  const limits = resources.memoryAtLeastUsed ? await atLeastUsed(hierarchies, path, resources) : resources;
  const files = hierarchies.version === 2 ? filesOfVersion2(limits) : filesOfVersion1(limits);
  const ordered = inWriteOrder(hierarchies, below, files);
  const together = Map.groupBy(ordered, ({ controller }) => controller).values();
  await Promise.all(
    Array.from(together, async (ofOne) => {
      for (const file of ofOne) await writeLimit(hierarchies, below, file);
    }),
  );
}

async function atLeastUsed(hierarchies: Hierarchies, path: string, resources: CgroupResources) {
  const used = await memoryUsage(hierarchies, path);
  return BigInt(used) > BigInt(resources.memoryBytes ?? '0') ? { ...resources, memoryBytes: used } : resources;
}

/** A quota may never exceed its parent's: if the period shrinks, the quota goes first. */
function inWriteOrder(hierarchies: Hierarchies, below: string, files: readonly CgroupFile[]) {
  const period = files.find(({ name }) => name === 'cpu.cfs_period_us');
  const quota = files.find(({ name }) => name === 'cpu.cfs_quota_us');
  if (!period || !quota) return files;
  const now = Number(read(`${hierarchies.mounts.get('cpu')}${below}/cpu.cfs_period_us`));
  if (!(Number(period.value) < now)) return files;
  return files.map((file) => (file === period ? quota : file === quota ? period : file));
}

async function writeLimit({ mounts }: Hierarchies, below: string, file: CgroupFile): Promise<void> {
  const { controller, name, value } = file;
  const mount = mounts.get(controller);
  if (mount === undefined) {
    if (file.optional) return;
    throw new OperationError(`failed to set ${name} of ${below}: the controller ${controller} is not mounted`);
  }
  const path = `${mount}${below}/${name}`;
  const current = read(path);
  if (current === null && file.optional) return;
  if (current === null) {
    throw new OperationError(`failed to write ${JSON.stringify(value)} to ${path}: no such file or directory`, {
      code: 'ENOENT',
    });
  }
  if (current !== value && !isRounded(current, value)) await write(path, value);
}

const PAGE_BYTES = 4_096n;

/** The kernel rounds memory to whole pages: smaller differences are ignored. */
function isRounded(current: string, value: string): boolean {
  if (!/^\d+$/.test(current) || !/^\d+$/.test(value)) return false;
  const [is, wanted] = [BigInt(current), BigInt(value)];
  return is > PAGE_BYTES && is <= wanted && wanted - is < PAGE_BYTES && is % PAGE_BYTES === 0n;
}

export async function memoryUsage(hierarchies: Hierarchies, path: string): Promise<string> {
  return usageOf(hierarchies, memoryFolder(hierarchies, path));
}

const memoryFolder = ({ mounts, version }: Hierarchies, path: string): string =>
  `${mounts.get(version === 2 ? '' : 'memory')}${checkedPath(path)}`;

const usageOf = async ({ version }: Hierarchies, folder: string): Promise<string> =>
  (await readFile(join(folder, version === 2 ? 'memory.current' : 'memory.usage_in_bytes'), 'utf8')).trim();

/** Runtimes name the cgroup of a container by its id with a prefix and suffix: `cri-containerd-<id>.scope`. */
export async function memoryOfContainers(
  hierarchies: Hierarchies,
  path: string,
  ids: readonly string[],
): Promise<Readonly<Record<string, string>>> {
  if (ids.length === 0) return {};
  const folder = memoryFolder(hierarchies, path);
  const names = (await subfolders(folder)).filter((name) => !name.includes(MONITOR));
  const found = ids.flatMap((id) => {
    const name = names.find((each) => each.includes(id));
    return name === undefined ? [] : [{ id, name }];
  });
  return Object.fromEntries(
    await Promise.all(found.map(async ({ id, name }) => [id, await usageOf(hierarchies, join(folder, name))])),
  );
}

/** Processes of the group and of all groups below, in any hierarchy. */
export async function processesOf(hierarchies: Hierarchies, path: string): Promise<readonly number[]> {
  const below = checkedPath(path);
  const lists = await Promise.all(foldersOf(hierarchies, below).map(processesBelow));
  return [...new Set(lists.flat())];
}

async function processesBelow(folder: string): Promise<number[]> {
  const text = read(join(folder, 'cgroup.procs'));
  const children = await subfolders(folder);
  const pids = (text ?? '').split('\n').filter(Boolean).map(Number);
  const below = await Promise.all(children.map((name) => processesBelow(join(folder, name))));
  return [...pids, ...below.flat()];
}

export async function subfolders(folder: string): Promise<string[]> {
  try {
    const entries = await calls(() => readdir(folder, { withFileTypes: true }));
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/**
 * Removes a group that has neither processes nor groups below it, with one call per hierarchy. False if the group has
 * some: the kernel checks this, and nothing is killed.
 */
export async function removeEmpty(hierarchies: Hierarchies, path: string): Promise<boolean> {
  const folders = foldersOf(hierarchies, checkedPath(path));
  return (await Promise.all(folders.map(removeEmptyFolder))).every(Boolean);
}

async function removeEmptyFolder(folder: string): Promise<boolean> {
  try {
    await removeFolderItself(folder);
    return true;
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT') return true;
    if (code === 'EBUSY' || code === 'ENOTEMPTY') return false;
    throw error;
  }
}

export async function remove(hierarchies: Hierarchies, path: string): Promise<void> {
  const below = checkedPath(path);
  await Promise.all(foldersOf(hierarchies, below).map(removeFolder));
}

async function removeFolder(folder: string): Promise<void> {
  for (const name of await subfolders(folder)) await removeFolder(join(folder, name));
  for (let tries = 0; ; tries += 1) {
    try {
      return await removeFolderItself(folder);
    } catch (error) {
      const code = codeOf(error);
      if (code === 'ENOENT') return;
      if (code !== 'EBUSY' || tries === REMOVE_TRIES) throw error;
      await sleep(REMOVE_FIRST_WAIT_MS * 2 ** tries);
    }
  }
}

/** Moves a process into the group. */
export async function enter(hierarchies: Hierarchies, path: string, pid: number): Promise<void> {
  for (const folder of foldersOf(hierarchies, checkedPath(path)))
    await write(join(folder, 'cgroup.procs'), String(pid));
}

/**
 * The text without its last line break; `null` if there is no such file. Read synchronously: the kernel answers from
 * memory without a long-held lock, and five steps through the thread pool cost a hundred times as much.
 */
function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trimEnd();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** Writes in a single call, as the kernel requires; the file is never created. */
async function write(path: string, value: string): Promise<void> {
  try {
    const fd = openSync(path, constants.O_WRONLY | constants.O_TRUNC);
    try {
      await calls(() => writeTo(fd, value));
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    const why = messageOf(error);
    throw new OperationError(`failed to write ${JSON.stringify(value)} to ${path}: ${why}`, {
      code: codeOf(error) ?? '',
    });
  }
}
