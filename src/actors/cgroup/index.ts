/**
 * `cgroup.*`: creates, updates and removes the cgroups of this machine, through the kernel's files or with systemd; and
 * moves the agent's process and the system's processes into cgroups.
 *
 * With the driver `systemd` the unit is created first, then the same files get the same values: systemd owns the
 * groups, but lacks some controllers.
 *
 * Invariants: a stream emits only when its outcome changes; a group is removed after the requests that create it, also
 * cancelled ones, because otherwise the group of a pod that is deleted during its start would remain; kernel threads
 * and init are never moved.
 */
import { readFile, readlink, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf, PortCall, Ports } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type {
  CgroupDriver,
  CgroupResources,
  CgroupsHeld,
  cgroupOperations,
  DesiredCgroup,
} from '../../machines/model/operations/cgroup.ts';
import { pause } from '../pause.ts';
import { cpuWeight, foldersOf, type Hierarchies, readHierarchies } from './hierarchies.ts';
import { inWholePerCents, type SystemdManager, systemdManager } from './systemd.ts';
import {
  checkedPath,
  enter,
  makeGroup,
  memoryOfContainers,
  memoryUsage,
  missingFolders,
  processesOf,
  remove,
  removeEmpty,
  subfolders,
  writeLimits,
} from './tree.ts';

export interface CgroupOptions {
  /** Prefix of `/proc` and `/sys`, for a machine that is described by files. */
  readonly root?: string;
  /** The manager that creates units; default: the machine's own systemd. */
  readonly systemd?: SystemdManager;
}

export type CgroupPorts = Ports<typeof cgroupOperations> & { readonly close: () => void };

export function cgroupPorts(options: CgroupOptions = {}): CgroupPorts {
  const { root = '', systemd = systemdManager(cpuWeight) } = options;
  let read: Promise<Hierarchies> | undefined;
  const hierarchies = (): Promise<Hierarchies> =>
    (read ??= forgetFailure(readHierarchies(root), () => (read = undefined)));
  const groups = { hierarchies, systemd, making: new Map<string, Promise<unknown>>() };
  return {
    'cgroup.missing': async ({ input: { path } }) => ({ missing: await missingFolders(await hierarchies(), path) }),
    'cgroup.ensure': async ({ input, signal }) => ensure(groups, input, signal),
    'cgroup.update': async ({ input }) => update(groups, input),
    'cgroup.hold': (call) =>
      repeat(call, call.input.group, async () => {
        for (const desired of call.input.desired) await update(groups, desired);
      }),
    'cgroup.destroy': async ({ input }) => destroyAll(groups, input),
    'cgroup.listPods': async ({ input: { driver, parents } }) => ({
      pods: await listPods(await hierarchies(), driver, parents),
    }),
    'cgroup.memoryUsage': async ({ input: { path, containers } }) => ({
      bytes: await memoryUsage(await hierarchies(), path),
      containers: await memoryOfContainers(await hierarchies(), path, containers),
    }),
    'cgroup.own': async () => ({ path: await ownGroup(root, await hierarchies()) }),
    'cgroup.gather': (call) =>
      repeat(call, call.input.who, async () => {
        const { path, who, oomScoreAdj } = call.input;
        const found = await hierarchies();
        await (who === 'kubelet'
          ? moveKubelet(root, found, path, oomScoreAdj)
          : moveSystemProcesses(root, found, path));
      }),
    close: () => systemd.close(),
  };
}

/** A failure is not cached: the next call tries again. */
async function forgetFailure<T>(promise: Promise<T>, forget: () => void): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    forget();
    throw error;
  }
}

interface Groups {
  readonly hierarchies: () => Promise<Hierarchies>;
  readonly systemd: SystemdManager;
  /** By path, the end of the requests that create the group, in whatever way. */
  readonly making: Map<string, Promise<unknown>>;
}

async function ensure(groups: Groups, desired: DesiredCgroup, signal: AbortSignal): Promise<null> {
  const { making } = groups;
  const { path } = desired;
  const made = create(groups, desired, signal);
  const ended = Promise.allSettled([making.get(path), made]);
  making.set(path, ended);
  void forgetWhenOver(making, path, ended);
  await made;
  return null;
}

async function forgetWhenOver(making: Groups['making'], path: string, ended: Promise<unknown>): Promise<void> {
  await ended;
  if (making.get(path) === ended) making.delete(path);
}

async function create({ hierarchies, systemd }: Groups, desired: DesiredCgroup, signal: AbortSignal): Promise<void> {
  const { driver, path } = desired;
  const resources = limitsOf(desired);
  const found = await hierarchies();
  signal.throwIfAborted();
  if (driver === 'systemd') await systemd.start(path, resources, found.version);
  await makeGroup(found, path, signal);
  signal.throwIfAborted();
  await writeLimits(found, path, resources);
}

const limitsOf = ({ driver, resources }: DesiredCgroup): CgroupResources =>
  driver === 'systemd' ? inWholePerCents(resources) : resources;

async function update({ hierarchies, systemd }: Groups, desired: DesiredCgroup): Promise<null> {
  const { driver, path } = desired;
  const resources = limitsOf(desired);
  const found = await hierarchies();
  const missing = await missingFolders(found, path);
  if (missing.length > 0) {
    throw new OperationError(`cgroup ${JSON.stringify(path)} has some missing paths: ${missing.join(', ')}`, {
      code: 'ENOENT',
    });
  }
  if (driver === 'systemd') await systemd.set(path, resources, found.version);
  await writeLimits(found, path, resources);
  return null;
}

/** Killing is repeated, because processes can start others while they are killed. */
const KILL_ROUNDS = 5;
const KILL_WAIT_MS = 10;

type Ending = InputOf<(typeof cgroupOperations)['cgroup.destroy']>;

async function destroyAll(groups: Groups, { driver, paths, within }: Ending): Promise<null> {
  for (const path of paths) await destroy(groups, driver, path, within);
  return null;
}

async function destroy(groups: Groups, driver: CgroupDriver, path: string, within: string): Promise<void> {
  const { hierarchies, systemd, making } = groups;
  if (within === '/' || !checkedPath(path).startsWith(`${checkedPath(within)}/`)) {
    throw new OperationError(`refusing to remove the cgroup ${path}: it is not below ${within}`, { code: 'EXDEV' });
  }
  await making.get(path);
  const found = await hierarchies();
  if (driver === 'cgroupfs' && (await removeEmpty(found, path))) return;
  for (let round = 0; round < KILL_ROUNDS; round += 1) {
    const pids = await processesOf(found, path);
    if (pids.length === 0) break;
    for (const pid of pids) kill(pid);
    await sleep(KILL_WAIT_MS * 2 ** round);
  }
  if (driver === 'systemd') await systemd.stop(path);
  await remove(found, path);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (codeOf(error) !== 'ESRCH') throw error;
  }
}

async function listPods(hierarchies: Hierarchies, driver: CgroupDriver, parents: readonly string[]) {
  const pods = new Map<string, { uid: string; path: string }>();
  for (const parent of parents) {
    const lists = await Promise.all(foldersOf(hierarchies, checkedPath(parent)).map(subfolders));
    for (const name of new Set(lists.flat())) {
      const uid = uidIn(name, driver);
      if (uid !== null) pods.set(uid, { uid, path: `${parent}/${name}` });
    }
  }
  return [...pods.values()];
}

/** `pod<uid>`, or the last level of `kubepods-burstable-pod<uid>.slice` with its dashes restored. */
function uidIn(name: string, driver: CgroupDriver): string | null {
  const step = driver === 'systemd' ? /^(?:.*-)?(pod[^-]+)\.slice$/.exec(name)?.[1]?.replaceAll('_', '-') : name;
  return /^pod(.+)$/.exec(step ?? '')?.[1] ?? null;
}

/** Does the work now and in each period until the stream is cancelled; emits the first outcome and each change. */
async function repeat<Input extends { readonly periodMs: number }>(
  call: PortCall<Input, CgroupsHeld>,
  group: string,
  work: () => Promise<void>,
): Promise<never> {
  const { input, signal } = call;
  let reported: string | null = null;
  for (;;) {
    const message = await work().then(
      () => '',
      (error: Error) => error.message,
    );
    signal.throwIfAborted();
    if (message !== reported) call.emit({ type: 'cgroups.held', group, message });
    reported = message;
    await pause(input.periodMs, signal, { ref: false });
    signal.throwIfAborted();
  }
}

const FIRST_PROCESS = 1;
/** Upstream's number of rounds: processes start while others are moved. */
const ROUNDS = 11;

/** The cgroup of this process: in version 1 the one that accounts CPU and memory, or systemd's. */
async function ownGroup(root: string, { version }: Hierarchies): Promise<string> {
  const groups = parseGroups(await readFile(`${root}/proc/self/cgroup`, 'utf8'));
  if (version === 2) return groupOf(groups, '', 'unified');
  const [cpu, memory] = [groupOf(groups, 'cpu'), groupOf(groups, 'memory')];
  if (cpu !== memory) {
    throw new OperationError(`cpu and memory cgroup hierarchy not unified.  cpu: ${cpu}, memory: ${memory}`);
  }
  return groups.get('name=systemd') ?? cpu;
}

function groupOf(groups: ReadonlyMap<string, string>, controller: string, name = controller): string {
  const path = groups.get(controller);
  if (path === undefined) throw new OperationError(`mountpoint for ${name} not found`);
  return path;
}

/** Format: cgroups(7), `/proc/<pid>/cgroup`. */
const parseGroups = (text: string): ReadonlyMap<string, string> =>
  new Map(
    text.split('\n').flatMap((line) => {
      const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
      if (controllers === undefined || path === undefined) return [];
      return controllers.split(',').map((controller) => [controller, path] as const);
    }),
  );

/** Whether this process runs on the host, in init's PID namespace; in a container no process is moved. */
async function isOnHost(root: string): Promise<boolean> {
  const [first, own] = await Promise.all([readlink(`${root}/proc/1/ns/pid`), readlink(`${root}/proc/self/ns/pid`)]);
  return first === own;
}

async function moveKubelet(root: string, hierarchies: Hierarchies, path: string, oomScoreAdj: number) {
  if (!(await isOnHost(root))) return;
  const current = await ownGroup(root, hierarchies).catch(() => null);
  if (current !== path) {
    await makeGroup(hierarchies, path);
    await enter(hierarchies, path, process.pid);
  }
  await writeFile(`${root}/proc/self/oom_score_adj`, String(oomScoreAdj));
}

/** Moves all processes of the root group except the kernel's. */
async function moveSystemProcesses(root: string, hierarchies: Hierarchies, path: string): Promise<void> {
  await makeGroup(hierarchies, path);
  const folder = hierarchies.mounts.get(hierarchies.version === 2 ? '' : 'memory');
  let failure: unknown = null;
  for (let round = 0; round < ROUNDS; round += 1) {
    const pids = (await readFile(`${folder}/cgroup.procs`, 'utf8')).split('\n').filter(Boolean).map(Number);
    const found = await Promise.all(pids.map(async (pid) => ({ pid, isMovable: await isMovable(root, pid) })));
    const movable = found.filter((each) => each.isMovable);
    if (movable.length === 0) return;
    for (const { pid } of movable) {
      await enter(hierarchies, path, pid).catch((error: unknown) => {
        if (codeOf(error) !== 'ESRCH') failure = moveError(pid, path, error);
      });
    }
  }
  if (failure !== null) throw failure;
}

const moveError = (pid: number, path: string, error: unknown): OperationError =>
  new OperationError(`failed to move PID ${pid} into the system container "${path}": ${messageOf(error)}`);

/** A kernel thread has no executable. */
async function isMovable(root: string, pid: number): Promise<boolean> {
  if (pid === FIRST_PROCESS) return false;
  return readlink(`${root}/proc/${pid}/exe`).then(
    () => true,
    (error: unknown) => codeOf(error) !== 'ENOENT',
  );
}
