/**
 * The folders and files that a pod needs before its containers: the input of `host.preparePod`.
 *
 * Invariant: everything is below the pod's folder; the same pod and addresses give the same files.
 */
import type { Container, Pod } from '../api/pod.ts';
import type { NodeText } from '../operations/host.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { hostsFile } from './hostname.ts';
import { etcHostsFile, podDirectory, podLogDirectory, terminationLogFile } from './paths.ts';

const POD_MODE = 0o750;
const LOG_MODE = 0o755;
/** Any user of a container may write its termination message. */
const TERMINATION_LOG_MODE = 0o666;
const ETC_HOSTS_MODE = 0o644;

export interface Directory {
  readonly path: string;
  readonly mode: number;
  /** The root of this path; absent: the common root. */
  readonly root?: string;
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

/** The folders of its logs, one per container: below `podLogsDir`, not below the pod's folder. */
export function podLogFolders(pod: Pod, containers: readonly string[], node: NodeSettings): readonly Directory[] {
  const folder = podLogDirectory(pod, node);
  const paths = [folder, ...containers.map((name) => `${folder}/${name}`)];
  return paths.map((path) => ({ path, mode: LOG_MODE, root: node.podLogsDir }));
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
