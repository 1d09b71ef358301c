/**
 * Builds the configuration of CreateContainer from a container of a Pod.
 *
 * Image, addresses and mounted volumes are inputs. Invariant: the result is a complete configuration, or an error with
 * the waiting reason and upstream's text; never an incomplete configuration.
 */

import { messageOf } from '../../../kernel/xstate.ts';
import type { ContainerConfig, Device, Image, KeyValue, LinuxContainerSecurityContext, Mount } from '../api/cri.ts';
import type { Container, Pod } from '../api/pod.ts';
import type { DeviceResponse } from '../operations/devices.ts';
import type { UserMapping } from '../operations/users.ts';
import type { FileValues, SubPath } from '../operations/volume.ts';
import { waitingReasons } from '../reasons/reasons.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { containerAnnotations } from './annotations.ts';
import { environment, type References } from './environment.ts';
import { ExpansionRoom, expand } from './expansion.ts';
import { containerLogPath, etcHostsFile } from './paths.ts';
import { containerResources } from './resources.ts';
import { podLabels } from './sandbox.ts';
import { containerSecurityContext, imageUser, nonRootViolation, podUsers } from './security.ts';
import { absolute, blockDevices, type MountedVolumes, volumeMounts, volumeSubPaths } from './volumes.ts';

export type ContainerKind = 'init' | 'sidecar' | 'regular' | 'ephemeral';

export interface ContainerConfigInput {
  readonly pod: Pod;
  readonly container: Container;
  readonly kind: ContainerKind;
  readonly restartCount: number;
  /** The runtime's reference of the image, from PullImage or ImageStatus. */
  readonly imageRef: string;
  /** The result of ImageStatus, for the image's user. */
  readonly image: Image | null;
  readonly podIPs: readonly string[];
  readonly node: NodeSettings;
  readonly terminationLogFile: string;
  /** Volumes that are set up. */
  readonly volumes: MountedVolumes;
  readonly serviceVariables?: readonly KeyValue[];
  readonly references?: References;
  /** Values of its variables from files in volumes. */
  readonly fileValues?: FileValues;
  /** For an ephemeral container: the instance whose processes it shares. */
  readonly targetId?: string;
  /** The runtime handler of the pod; empty for the default. */
  readonly handler?: string;
  /** The user namespace of the pod. */
  readonly users?: UserMapping | null;
  /** Its CPUs; empty for all. */
  readonly cpus?: string;
  /** The NUMA nodes of its memory, `0,1`; empty for all. */
  readonly memoryNodes?: string;
  /** The plugins' responses for its devices; `null` without devices. */
  readonly devices?: DeviceResponse | null;
  /** CDI names of the devices of its ResourceClaims. */
  readonly claimed?: readonly string[];
}

export type ContainerConfigResult =
  | { readonly config: ContainerConfig }
  | { readonly error: { readonly reason: string; readonly message: string } };

const CONTAINER_NAME_LABEL = 'io.kubernetes.container.name';
const ETC_HOSTS = '/etc/hosts';
const DEFAULT_TERMINATION_MESSAGE_PATH = '/dev/termination-log';

export function containerConfig(input: ContainerConfigInput): ContainerConfigResult {
  const violation = nonRootViolation(input.pod, input.container, imageUser(input.image));
  if (violation !== null && !hasBehavior(input.node, 'detailsAsKubelet')) return configError(violation);
  try {
    const config = buildConfig(input);
    return violation === null ? { config } : configError(violation);
  } catch (error) {
    return configError(messageOf(error));
  }
}

const configError = (message: string): ContainerConfigResult => ({
  error: { reason: waitingReasons.createContainerConfigError, message },
});

function buildConfig(input: ContainerConfigInput): ContainerConfig {
  const { pod, container, restartCount, node, devices = null } = input;
  const envs = variablesOf(input);
  const lookup = lookupIn(envs);
  const room = new ExpansionRoom();
  const expanded = (words: readonly string[]): readonly string[] => words.map((word) => expand(word, lookup, room));
  const command = expanded(container.command ?? []);
  const args = expanded(container.args ?? []);
  return {
    metadata: { name: container.name, attempt: restartCount },
    image: { image: input.imageRef, user_specified_image: container.image ?? '' },
    ...(command.length === 0 ? {} : { command }),
    ...(args.length === 0 ? {} : { args }),
    ...(container.workingDir === undefined ? {} : { working_dir: container.workingDir }),
    envs,
    mounts: mounts(input, lookup).map((mount) => withUsers(mount, input)),
    labels: { ...podLabels(pod), [CONTAINER_NAME_LABEL]: container.name },
    annotations: { ...devices?.annotations, ...containerAnnotations(pod, container, restartCount) },
    ...deviceFields(devices, blockDevices(input), input.claimed ?? []),
    log_path: containerLogPath(container.name, restartCount),
    ...terminal(container),
    ...(node.hasStopSignals === true ? stopSignal(container) : {}),
    linux: {
      resources: {
        ...containerResources(pod, container, node),
        ...(input.cpus ? { cpuset_cpus: input.cpus } : {}),
        ...(input.memoryNodes ? { cpuset_mems: input.memoryNodes } : {}),
      },
      security_context: withTargetNamespace(
        input,
        containerSecurityContext(pod, container, imageUser(input.image), node, input.users ?? null, input.volumes),
      ),
    },
  };
}

/** Variables of devices come first: the pod's variables may refer to them, and override variables of the same name. */
const variablesOf = (input: ContainerConfigInput): readonly KeyValue[] => [
  ...Object.entries(input.devices?.envs ?? {}).map(([key, value]) => ({ key, value })),
  ...environment(input),
];

function lookupIn(envs: readonly KeyValue[]): (name: string) => string | undefined {
  const variables = new Map(envs.map(({ key, value }) => [key, value]));
  return (name) => variables.get(name);
}

/** In a user namespace, files of the node's ids appear with the pod's ids. */
function withUsers(mount: Mount, { pod, users = null }: ContainerConfigInput): Mount {
  if (pod.spec.hostUsers !== false || users === null) return mount;
  const { uids = [], gids = [] } = podUsers(users);
  return { ...mount, uidMappings: uids, gidMappings: gids };
}

const deviceMounts = (setup: DeviceResponse | null = null): readonly Mount[] =>
  (setup?.mounts ?? []).map(({ containerPath, hostPath, readOnly }) => ({
    container_path: containerPath,
    host_path: hostPath,
    ...(readOnly ? { readonly: true } : {}),
  }));

/** Devices of plugins, then devices of volumes. */
function deviceFields(
  setup: DeviceResponse | null,
  blocks: readonly Device[],
  claimed: readonly string[],
): Pick<ContainerConfig, 'devices' | 'CDI_devices'> {
  const pluginDevices = (setup?.devices ?? []).map(({ containerPath, hostPath, permissions }) => ({
    container_path: containerPath,
    host_path: hostPath,
    permissions,
  }));
  const devices = [...pluginDevices, ...blocks];
  const cdi = [...claimed, ...(setup?.cdiDevices ?? [])];
  return {
    ...(devices.length === 0 ? {} : { devices }),
    ...(cdi.length === 0 ? {} : { CDI_devices: cdi.map((name) => ({ name })) }),
  };
}

/** Process namespaces are shared with a target only if the containers of the pod have separate ones. */
function withTargetNamespace(
  { targetId }: ContainerConfigInput,
  context: LinuxContainerSecurityContext,
): LinuxContainerSecurityContext {
  const namespaces = context.namespace_options;
  if (targetId === undefined || namespaces?.pid !== 'CONTAINER') return context;
  return { ...context, namespace_options: { ...namespaces, pid: 'TARGET', target_id: targetId } };
}

const abilities = ({ node, handler = '' }: ContainerConfigInput) => ({
  recursiveReadOnly: node.runtimeHandlers?.[handler]?.recursiveReadOnlyMounts === true,
  handler,
});

function mounts(input: ContainerConfigInput, lookup: (name: string) => string | undefined): readonly Mount[] {
  const { pod, container, node } = input;
  const label = node.seLinux === true ? { selinux_relabel: true } : {};
  const hosts: readonly Mount[] = wantsManagedHosts(input)
    ? [{ container_path: ETC_HOSTS, host_path: etcHostsFile(pod, node), ...label }]
    : [];
  const path = container.terminationMessagePath ?? DEFAULT_TERMINATION_MESSAGE_PATH;
  const messages: readonly Mount[] =
    path === '' ? [] : [{ container_path: absolute(path), host_path: input.terminationLogFile, ...label }];
  return [
    ...deviceMounts(input.devices),
    ...volumeMounts({ pod, container, node, volumes: input.volumes, lookup, ...abilities(input) }),
    ...hosts,
    ...messages,
  ];
}

/** The sub-paths to bind first; none if the configuration is an error. */
export function subPaths(input: ContainerConfigInput): readonly SubPath[] {
  try {
    const { pod, container, node, volumes } = input;
    const lookup = lookupIn(variablesOf(input));
    return volumeSubPaths({ pod, container, node, volumes, lookup, ...abilities(input) });
  } catch {
    return [];
  }
}

function wantsManagedHosts({ pod, container, podIPs }: ContainerConfigInput): boolean {
  if ((container.volumeMounts ?? []).some(({ mountPath }) => mountPath === ETC_HOSTS)) return false;
  return pod.spec.hostNetwork === true || podIPs.length > 0;
}

const terminal = ({ stdin, stdinOnce, tty }: Container): Pick<ContainerConfig, 'stdin' | 'stdin_once' | 'tty'> => ({
  ...(stdin === true ? { stdin: true } : {}),
  ...(stdinOnce === true ? { stdin_once: true } : {}),
  ...(tty === true ? { tty: true } : {}),
});

type StopSignal = NonNullable<ContainerConfig['stop_signal']>;

/** The API's names of signals are CRI's, except the sign of real-time ones; validation has rejected all others. */
function stopSignal({ lifecycle }: Container): Pick<ContainerConfig, 'stop_signal'> {
  const signal = (lifecycle?.stopSignal ?? '').replace('+', 'PLUS').replace('-', 'MINUS');
  return isSignal(signal) ? { stop_signal: signal } : {};
}

const isSignal = (name: string): name is StopSignal => /^SIG[A-Z]+\d*$/.test(name);
