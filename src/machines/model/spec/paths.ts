/**
 * The paths of a pod's files: the layout below `--root-dir` and the log directory; and the folders and files that a pod
 * needs before its containers, the input of `host.preparePod`.
 *
 * Invariants: other agents of the node (log collectors, CSI drivers, backup tools) rely on this layout; it never
 * changes. The same pod and addresses give the same files.
 */
import type { Container, Pod } from '../api/pod.ts';
import type { NodeText } from '../operations/host.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { fnv1a32 } from './hash.ts';
import { hostsFile } from './hostname.ts';

/** The name of a pod in events and messages: `<name>_<namespace>(<uid>)`. */
export const podLongName = ({ metadata }: Pod): string => `${metadata.name}_${metadata.namespace}(${metadata.uid})`;

export const podDirectory = (pod: Pod, node: Pick<NodeSettings, 'rootDir'>): string =>
  `${node.rootDir}/pods/${pod.metadata.uid}`;

/** `plugin` is a volume plugin's name with its slash written as a tilde: `kubernetes.io~empty-dir`. */
export const volumeDirectory = (
  pod: Pod,
  node: Pick<NodeSettings, 'rootDir'>,
  plugin: string,
  volume: string,
): string => `${podDirectory(pod, node)}/volumes/${plugin}/${volume}`;

export const etcHostsFile = (pod: Pod, node: Pick<NodeSettings, 'rootDir'>): string =>
  `${podDirectory(pod, node)}/etc-hosts`;

/** Upstream names the file randomly; here the name is derived from the pod, so that a replay gives the same one. */
export function terminationLogFile(
  pod: Pod,
  container: string,
  restartCount: number,
  node: Pick<NodeSettings, 'rootDir'>,
): string {
  const name = fnv1a32(`${pod.metadata.uid}/${container}/${restartCount}`).toString(16).padStart(8, '0');
  return `${podDirectory(pod, node)}/containers/${container}/${name}`;
}

export const podLogDirectory = (pod: Pod, node: Pick<NodeSettings, 'podLogsDir'>): string =>
  `${node.podLogsDir}/${pod.metadata.namespace}_${pod.metadata.name}_${pod.metadata.uid}`;

/** Below {@link podLogDirectory}, which already contains the container's name. */
export const containerLogPath = (container: string, restartCount: number): string => `${container}/${restartCount}.log`;

/** The name of the link for legacy log collectors, below `containerLogsDir`. */
export function legacyLogName(
  pod: { readonly metadata: Pick<Pod['metadata'], 'name' | 'namespace'> },
  container: string,
  containerId: string,
): string {
  const suffix = `.log`;
  const limit = MAX_FILE_NAME - suffix.length;
  const name = `${pod.metadata.name}_${pod.metadata.namespace}_${container}-${containerId}`;
  return name.slice(0, limit) + suffix;
}

/** Bytes of a file name that every file system accepts. */
const MAX_FILE_NAME = 251;

const POD_MODE = 0o750;
const LOG_MODE = 0o755;
/** Any user of a container may write its termination message. */
const TERMINATION_LOG_MODE = 0o666;
const ETC_HOSTS_MODE = 0o644;

interface Directory {
  readonly path: string;
  readonly mode: number;
  /** The root of this path; absent: the common root. */
  readonly root?: string;
  /** The numbers of the logs in it are wanted. */
  readonly numbered?: true;
}

interface File {
  readonly path: string;
  readonly mode: number;
  /** `null`: an empty file is created if missing; an existing one stays. */
  readonly content: string | NodeText | null;
}

export interface PodFiles {
  readonly directories: readonly Directory[];
  readonly files: readonly File[];
}

/** The pod's folders and, once it has addresses, its hosts file. */
export function podFiles(pod: Pod, node: NodeSettings, podIPs: readonly string[]): PodFiles {
  const directory = podDirectory(pod, node);
  const hasHosts = pod.spec.hostNetwork === true || podIPs.length > 0;
  return {
    directories: [
      { path: directory, mode: POD_MODE },
      { path: `${directory}/volumes`, mode: POD_MODE },
      { path: `${directory}/plugins`, mode: POD_MODE },
    ],
    files: hasHosts
      ? [{ path: etcHostsFile(pod, node), mode: ETC_HOSTS_MODE, content: hostsFile(pod, podIPs, node) }]
      : [],
  };
}

export const containerLogFolder = (pod: Pod, container: string, node: Pick<NodeSettings, 'podLogsDir'>): string =>
  `${podLogDirectory(pod, node)}/${container}`;

/**
 * The folders of its logs, one per container: below `podLogsDir`, not below the pod's folder. `isUnknown`: only the
 * logs tell how often the container was restarted.
 */
export function podLogFolders(
  pod: Pod,
  containers: readonly string[],
  node: NodeSettings,
  isUnknown: (container: string) => boolean,
): readonly Directory[] {
  const ofPod = { path: podLogDirectory(pod, node), mode: LOG_MODE, root: node.podLogsDir };
  const ofContainers = containers.map((name): Directory => {
    const path = containerLogFolder(pod, name, node);
    return { ...ofPod, path, ...(isUnknown(name) ? { numbered: true } : {}) };
  });
  return [ofPod, ...ofContainers];
}

/** Files for one container before it is created: its folder and the file for its termination message. */
export function containerFiles(pod: Pod, container: Container, restartCount: number, node: NodeSettings): PodFiles {
  return {
    directories: [{ path: `${podDirectory(pod, node)}/containers/${container.name}`, mode: POD_MODE }],
    files:
      container.terminationMessagePath === ''
        ? []
        : [
            {
              path: terminationLogFile(pod, container.name, restartCount, node),
              mode: TERMINATION_LOG_MODE,
              content: null,
            },
          ],
  };
}
