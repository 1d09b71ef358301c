/**
 * Processes that the agent moves into cgroups: itself, and those of the system.
 *
 * Invariant: neither kernel threads nor init are ever moved.
 */
import { readFile, readlink, writeFile } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { errnoOf } from '../host/root-folder.ts';
import type { Hierarchies } from './hierarchies.ts';
import { enter, makeGroup } from './tree.ts';

const FIRST_PROCESS = 1;
/** Upstream's number of rounds: processes start while others are moved. */
const ROUNDS = 11;

/** The cgroup of this process: in version 1 the one that accounts CPU and memory, or systemd's. */
export async function ownGroup(root: string, { version }: Hierarchies): Promise<string> {
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

export async function moveKubelet(root: string, hierarchies: Hierarchies, path: string, oomScoreAdj: number) {
  if (!(await isOnHost(root))) return;
  const current = await ownGroup(root, hierarchies).catch(() => null);
  if (current !== path) {
    await makeGroup(hierarchies, path);
    await enter(hierarchies, path, process.pid);
  }
  await writeFile(`${root}/proc/self/oom_score_adj`, String(oomScoreAdj));
}

/** Moves all processes of the root group except the kernel's. */
export async function moveSystemProcesses(root: string, hierarchies: Hierarchies, path: string): Promise<void> {
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
        if (errnoOf(error) !== 'ESRCH') failure = moveError(pid, path, error);
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
    (error: unknown) => errnoOf(error) !== 'ENOENT',
  );
}
