/**
 * The paths of a pod's files: the layout below `--root-dir` and the log directory.
 *
 * Invariant: other agents of the node (log collectors, CSI drivers, backup tools) rely on this layout; it never
 * changes.
 */
import type { Pod } from '../api/pod.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { fnv1a32 } from './hash.ts';

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
