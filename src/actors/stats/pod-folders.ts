/**
 * What a pod keeps on the node's disk: its volumes, its logs, and the files that the node agent wrote for it.
 *
 * Invariant: only what lies in the pod's own folders is measured; a volume that is a file system of its own is asked
 * for its fill, not walked.
 */
import { readdir, stat } from 'node:fs/promises';
import { type FileSystemUsage, type FolderUsage, fileSystemUsage, folderUsage } from './disk-usage.ts';

/** Plug-ins whose volumes count as the pod's ephemeral storage. */
const EPHEMERAL_PLUGINS = new Set(['kubernetes.io~empty-dir', 'kubernetes.io~configmap', 'kubernetes.io~git-repo']);

interface VolumeUsage {
  readonly name: string;
  /** As in the path: `kubernetes.io~empty-dir`. */
  readonly plugin: string;
  readonly used: bigint;
  readonly inodesUsed: bigint;
  readonly fileSystem: FileSystemUsage;
  /** Lies on the node's disk and ends with the pod. */
  readonly isEphemeral: boolean;
  /** False: what is used is at least this. */
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

export async function podVolumes({ rootDir, uid }: PodPlace, signal?: AbortSignal): Promise<VolumeUsage[]> {
  const folder = `${rootDir}/pods/${uid}/volumes`;
  const found: VolumeUsage[] = [];
  for (const plugin of await names(folder)) {
    for (const name of await names(`${folder}/${plugin}`)) {
      const usage = await volumeUsage(`${folder}/${plugin}`, name, plugin, signal);
      if (usage !== null) found.push(usage);
    }
  }
  return found;
}

async function volumeUsage(folder: string, name: string, plugin: string, signal?: AbortSignal) {
  const path = plugin === 'kubernetes.io~csi' ? `${folder}/${name}/mount` : `${folder}/${name}`;
  const fileSystem = await fileSystemUsage(path);
  if (fileSystem === null) return null;
  const ownFileSystem = await isMountPoint(path, folder);
  const { used, inodes, complete } = ownFileSystem
    ? { used: fileSystem.used, inodes: fileSystem.inodes - fileSystem.inodesFree, complete: true }
    : await folderUsage(path, signal ? { signal } : {});
  const isEphemeral = !ownFileSystem && EPHEMERAL_PLUGINS.has(plugin);
  return { name, plugin, used, inodesUsed: inodes, fileSystem, isEphemeral, complete };
}

async function isMountPoint(path: string, parent: string): Promise<boolean> {
  const devices = await Promise.all(
    [path, parent].map((each) =>
      stat(each)
        .then(({ dev }) => dev)
        .catch(() => 0),
    ),
  );
  return devices[0] !== devices[1];
}

const logFolder = ({ podLogsDir, namespace, name, uid }: PodPlace): string =>
  `${podLogsDir}/${namespace}_${name}_${uid}`;

/** Logs by container, and what else is in the pod's log folder. */
export async function podLogs(place: PodPlace): Promise<ReadonlyMap<string, FolderUsage>> {
  const folder = logFolder(place);
  const containers = await names(folder);
  const usages = await Promise.all(containers.map((name) => folderUsage(`${folder}/${name}`)));
  return new Map(containers.map((name, index) => [name, usages[index]!]));
}

/** The pod's hosts file. */
export const etcHosts = ({ rootDir, uid }: PodPlace): Promise<FolderUsage> =>
  folderUsage(`${rootDir}/pods/${uid}/etc-hosts`);

/** Everything of one pod on the node's disk. */
export interface PodStorage {
  readonly volumes: readonly VolumeUsage[];
  /** By container; files of the pod's log folder itself by their name. */
  readonly logs: ReadonlyMap<string, FolderUsage>;
  readonly hosts: FolderUsage;
  /** By container, the bytes of its writable layer. */
  readonly layers: ReadonlyMap<string, bigint>;
}
