/**
 * Volumes of NFS servers: mounted in the pod's folder by mount(8), which calls mount.nfs(8), and unmounted at its end.
 *
 * Decides by the kernel's mount table: what an earlier agent mounted stays, and is found again at the end of its pod.
 *
 * Invariants: the server is asked only by other processes, which may hang without cost for other pods; a failed mount
 * leaves no folder; a server that does not answer keeps no pod from ending.
 *
 * Upstream: pkg/volume/nfs/nfs.go, k8s.io/mount-utils (`CleanupMountWithForce`).
 */
import { rmdir } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import type { VolumeSetUp } from '../../machines/model/operations/volume.ts';
import { NFS_PLUGIN } from '../../machines/model/volumes/network.ts';
import { type Ending, runKillable } from '../host/killable.ts';
import { ignoring, inParent, makeFolder } from '../host/root-folder.ts';
import { aborted } from '../pause.ts';
import { isMounted } from './mounter.ts';

export type NFSVolume = Extract<VolumeSetUp, { kind: 'nfs' }>;

/** Volumes of one pod that are mounted or unmounted at once; each takes a process. */
export const NFS_AT_ONCE = 8;
/** mount.nfs tries for two minutes; its last attempt may take longer. */
const MOUNT_TIMEOUT_MS = 5 * 60_000;
/** As long as upstream waits for a server before it gives up what was not written there yet. */
const UNMOUNT_TIMEOUT_MS = 60_000;
const FOLDER_MODE = 0o750;

/** Names or paths of mount(8) and umount(8). */
export interface NetworkPrograms {
  readonly mount: string;
  readonly umount: string;
  readonly unmountTimeoutMs?: number;
}

const PROGRAMS: NetworkPrograms = { mount: 'mount', umount: 'umount' };

/** By path, mounts that are under way: the next set-up of the volume waits for the same mount. */
const underWay = new Map<string, { readonly done: Promise<void>; readonly end: AbortController }>();

/**
 * Mounts a volume, once. An aborted call ends at once, and its mount goes on: each change of a ConfigMap sets all
 * volumes up again, and a slow server would never be mounted for a pod whose ConfigMaps change often.
 */
export async function mountNFS(
  root: string,
  volume: NFSVolume,
  signal: AbortSignal,
  programs = PROGRAMS,
): Promise<void> {
  signal.throwIfAborted();
  const mount = underWay.get(volume.path) ?? begin(root, volume, programs);
  const settled = new AbortController();
  try {
    await Promise.race([mount.done, aborted(AbortSignal.any([signal, settled.signal]))]);
  } finally {
    settled.abort();
  }
  signal.throwIfAborted();
}

function begin(root: string, volume: NFSVolume, programs: NetworkPrograms) {
  const end = new AbortController();
  const done = mountNow(root, volume, end.signal, programs).finally(() => underWay.delete(volume.path));
  done.catch(() => undefined);
  const mount = { done, end };
  underWay.set(volume.path, mount);
  return mount;
}

/** Ends mounts in the folder of a pod that are still under way. */
export async function endMounts(podDirectory: string): Promise<void> {
  const own = [...underWay].filter(([path]) => path.startsWith(`${podDirectory}/`)).map(([, mount]) => mount);
  for (const { end } of own) end.abort();
  await Promise.allSettled(own.map(({ done }) => done));
}

async function mountNow(root: string, volume: NFSVolume, signal: AbortSignal, programs: NetworkPrograms) {
  const { path, source, options } = volume;
  if (await isMounted(root, path)) return;
  await inParent(root, path, async (folder) => makeFolder(folder, FOLDER_MODE), FOLDER_MODE);
  const argv = ['-t', 'nfs', ...(options.length === 0 ? [] : ['-o', options.join(',')])];
  // Servers are named by authors of pods: what follows `--` is no option.
  const ending = await runKillable(programs.mount, [...argv, '--', source, path], {
    timeoutMs: MOUNT_TIMEOUT_MS,
    signal,
  });
  if (ending.status === '') return;
  await removeFailed(root, path, programs).catch(() => undefined);
  throw mountFailure(programs.mount, [...argv, source, path].join(' '), ending);
}

/** Without its folder, a mount that comes late fails. */
async function removeFailed(root: string, path: string, programs: NetworkPrograms): Promise<void> {
  if (await isMounted(root, path)) await unmountNFS(path, programs);
  await inParent(root, path, (folder) => rmdir(folder).catch(ignoring('ENOENT')));
}

/** Upstream's text of a failed mount. */
export const mountFailure = (program: string, argv: string, { status, output }: Ending): OperationError =>
  new OperationError(
    `mount failed: ${status}\nMounting command: ${program}\nMounting arguments: ${argv}\nOutput: ${output}`,
    { code: 'EIO', retriable: true },
  );

const isUnmounted = ({ status, output }: Ending): boolean => status === '' || output.includes('not mounted');

/** The folder of the volume of a server that a path in the folder of a pod is in; `null` for every other path. */
export function nfsFolderOf(podDirectory: string, path: string): string | null {
  const plugin = `${podDirectory}/volumes/${NFS_PLUGIN}/`;
  return path.startsWith(plugin) ? `${plugin}${path.slice(plugin.length).split('/')[0]}` : null;
}

/**
 * Unmounts a volume after its files were written to the server. If the server does not answer, its calls fail and what
 * was not written is lost; a volume that a process still uses is unmounted when that ends.
 *
 * @param path as the kernel's table of mounts has it
 */
export async function unmountNFS(path: string, programs = PROGRAMS): Promise<void> {
  const timeoutMs = programs.unmountTimeoutMs ?? UNMOUNT_TIMEOUT_MS;
  const run = (...options: readonly string[]) =>
    runKillable(programs.umount, ['--no-canonicalize', ...options, path], { timeoutMs });
  const first = await run();
  if (isUnmounted(first)) return;
  const last = await run(...(first.isKilled ? ['--force', '--lazy'] : ['--lazy']));
  if (isUnmounted(last)) return;
  const { status, output } = last;
  throw new OperationError(`unmount failed: ${status}\nUnmounting arguments: ${path}\nOutput: ${output}`, {
    code: 'EBUSY',
    retriable: true,
  });
}
