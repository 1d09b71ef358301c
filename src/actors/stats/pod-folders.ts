/**
 * A pod's usage of the node's disk: its volumes, its logs, and the files that the node agent wrote for it.
 *
 * Invariant: only the pod's own folders are measured; a volume with its own file system is queried, not walked.
 */
import { closeSync, openSync } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { boundedCall } from '../host/bounded-calls.ts';
import { systemCalls } from '../host/kernel/syscall.ts';
import { FOLDER } from '../host/root-folder.ts';
import { mountsBelow } from '../volume/mounter.ts';
import { FIRST_PROJECT } from '../volume/projects.ts';
import { type FileSystemUsage, type FolderUsage, fileSystemUsage, folderUsage } from './disk-usage.ts';
import { isOnServer, serverUsage } from './server-usage.ts';

/** Plug-ins whose volumes count as the pod's ephemeral storage. */
const EMPTY_DIR = 'kubernetes.io~empty-dir';
const EPHEMERAL_PLUGINS = new Set([EMPTY_DIR, 'kubernetes.io~configmap', 'kubernetes.io~git-repo']);
/** Plugins whose volumes upstream measures by their files, also on a file system of their own (tmpfs). */
const WALKED_PLUGINS = new Set([
  ...EPHEMERAL_PLUGINS,
  'kubernetes.io~secret',
  'kubernetes.io~projected',
  'kubernetes.io~downward-api',
]);

/** The plug-in of volumes whose usage their drivers report: see `driver-stats.ts`. */
const OF_DRIVERS = 'kubernetes.io~csi';

interface VolumeUsage {
  readonly name: string;
  readonly path: string;
  /** The name of the plug-in as in the path: `kubernetes.io~empty-dir`. */
  readonly plugin: string;
  readonly used: bigint;
  readonly inodesUsed: bigint;
  readonly fileSystem: FileSystemUsage;
  /** Whether the volume is on the node's disk and ends with the pod. */
  readonly isEphemeral: boolean;
  /** False: the figures are a lower bound. */
  readonly complete: boolean;
}

export interface PodPlace {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  /** `--root-dir` and `podLogsDir`. */
  readonly rootDir: string;
  readonly podLogsDir: string;
}

const names = (path: string): Promise<string[]> => readdir(path).catch(() => []);

/**
 * How upstream measures a volume: by adding up its files, by its project quota, or by its own file system. The usage of
 * a tmpfs is read from the file system here, which has counted the same.
 */
type VolumeSource = 'du' | 'fsquota' | 'statfs';

/** Receives how long it took to measure one volume. `source` is the way of measuring, or the name of the driver. */
export type OnVolume = (source: string, durationMs: number) => void;

export async function podVolumes(
  { rootDir, uid }: PodPlace,
  signal?: AbortSignal,
  onVolume?: OnVolume,
): Promise<VolumeUsage[]> {
  const folder = await realpath(`${rootDir}/pods/${uid}/volumes`).catch(() => null);
  if (folder === null) return [];
  const elsewhere = new Set(await mountsBelow(folder));
  const found: VolumeUsage[] = [];
  for (const plugin of await names(folder)) {
    if (plugin === OF_DRIVERS) continue;
    for (const name of await names(`${folder}/${plugin}`)) {
      const beganMs = performance.now();
      const usage = await volumeUsage(`${folder}/${plugin}`, name, { elsewhere, ...(signal ? { signal } : {}) });
      if (usage === null) continue;
      const { source, ...volume } = usage;
      onVolume?.(source, performance.now() - beganMs);
      found.push({ name, plugin, path: `${rootDir}/pods/${uid}/volumes/${plugin}/${name}`, ...volume });
    }
  }
  return found;
}

async function volumeUsage(
  folder: string,
  name: string,
  options: { readonly elsewhere: ReadonlySet<string>; readonly signal?: AbortSignal },
): Promise<(Omit<VolumeUsage, 'name' | 'plugin' | 'path'> & { readonly source: VolumeSource }) | null> {
  const plugin = basename(folder);
  const path = `${folder}/${name}`;
  const isMounted = options.elsewhere.has(path);
  if (isOnServer(path)) return isMounted ? await volumeOfServer(path) : null;
  const measured = isMounted ? await boundedCall(path, () => measure(path)).catch(() => null) : await measure(path);
  if (measured?.fileSystem == null) return null;
  const { fileSystem, device } = measured;
  const ownFileSystem = isMounted && device !== (await deviceOf(folder));
  const quota = ownFileSystem || plugin !== EMPTY_DIR ? null : projectUsage(path);
  const { used, inodes, complete } = ownFileSystem
    ? { used: fileSystem.used, inodes: fileSystem.inodes - fileSystem.inodesFree, complete: true }
    : (quota ?? (await folderUsage(path, options)));
  const isEphemeral = !ownFileSystem && EPHEMERAL_PLUGINS.has(plugin);
  const source = quota !== null ? 'fsquota' : ownFileSystem && !WALKED_PLUGINS.has(plugin) ? 'statfs' : 'du';
  return { used, inodesUsed: inodes, fileSystem, isEphemeral, complete, source };
}

async function volumeOfServer(path: string) {
  const fileSystem = await serverUsage(path);
  if (fileSystem === null) return null;
  const { used, inodes, inodesFree } = fileSystem;
  const source = 'statfs' as const;
  return { used, inodesUsed: inodes - inodesFree, fileSystem, isEphemeral: false, complete: true, source };
}

const deviceOf = (path: string): Promise<number> =>
  stat(path)
    .then(({ dev }) => dev)
    .catch(() => 0);

const measure = async (path: string) => ({ fileSystem: await fileSystemUsage(path), device: await deviceOf(path) });

const logFolder = ({ podLogsDir, namespace, name, uid }: PodPlace): string =>
  `${podLogsDir}/${namespace}_${name}_${uid}`;

/**
 * The usage of logs by container, and of other entries in the pod's log folder. In a container's folder only files
 * count.
 */
export async function podLogs(place: PodPlace): Promise<ReadonlyMap<string, FolderUsage>> {
  const folder = logFolder(place);
  const containers = await names(folder);
  const usageOf = async (name: string) =>
    [name, await folderUsage(`${folder}/${name}`, { contentsOnly: true })] as const;
  return new Map(await Promise.all(containers.map(usageOf)));
}

export const etcHosts = ({ rootDir, uid }: PodPlace): Promise<FolderUsage> =>
  folderUsage(`${rootDir}/pods/${uid}/etc-hosts`);

/** The usage of the node's disk by one pod. */
export interface PodStorage {
  readonly volumes: readonly VolumeUsage[];
  /** By container; files of the pod's log folder itself by their name. */
  readonly logs: ReadonlyMap<string, FolderUsage>;
  readonly hosts: FolderUsage;
  /** By container, the bytes of its writable layer. */
  readonly layers: ReadonlyMap<string, bigint>;
}

/**
 * The usage that the file system counts for the project of a folder, in one call of constant cost. `null` for a folder
 * without a project, or a file system without project quota: that folder is walked.
 */
export function projectUsage(path: string): FolderUsage | null {
  const system = systemCalls();
  if (system === null) return null;
  try {
    const fd = openSync(path, FOLDER);
    try {
      const project = system.projectOf(fd);
      if (project < FIRST_PROJECT) return null;
      const usage = system.projectUsage(fd, project);
      return usage && { used: usage.bytes, inodes: usage.inodes, complete: true };
    } finally {
      closeSync(fd);
    }
  } catch {
    return null;
  }
}
