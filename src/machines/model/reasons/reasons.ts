/**
 * Every event, and every reason and message of a pod: in its conditions and in the states of its containers. The reason
 * of a rejection is with the check that decides it (`model/allocation`), the reason of a condition of the Node with the
 * condition (`charts/node/object/conditions.ts`).
 *
 * Invariant: byte for byte the texts of kubelet 1.36 (recorded in `test/golden`), because people and programs match on
 * them.
 */

import { quote } from '../values/go-text.ts';

/** An event before the recorder adds object, source and time. */
export interface EventText {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

const normal = (reason: string, message: string): EventText => ({ type: 'Normal', reason, message });
const warning = (reason: string, message: string): EventText => ({ type: 'Warning', reason, message });

/** Reasons of `state.waiting`, in the order in which a container passes them. */
export const waitingReasons = {
  containerCreating: 'ContainerCreating',
  podInitializing: 'PodInitializing',
  invalidImageName: 'InvalidImageName',
  imageInspectError: 'ImageInspectError',
  errImageNeverPull: 'ErrImageNeverPull',
  errImagePull: 'ErrImagePull',
  imagePullBackOff: 'ImagePullBackOff',
  registryUnavailable: 'RegistryUnavailable',
  signatureValidationFailed: 'SignatureValidationFailed',
  createContainerConfigError: 'CreateContainerConfigError',
  preCreateHookError: 'PreCreateHookError',
  createContainerError: 'CreateContainerError',
  preStartHookError: 'PreStartHookError',
  runContainerError: 'RunContainerError',
  postStartHookError: 'PostStartHookError',
  crashLoopBackOff: 'CrashLoopBackOff',
  restartingAllContainers: 'RestartingAllContainers',
} as const;

/** Reasons of `state.terminated` set by the node agent; all others are the runtime's. */
export const terminatedReasons = {
  containerStatusUnknown: 'ContainerStatusUnknown',
  restartingAllContainers: 'RestartingAllContainers',
  completed: 'Completed',
  error: 'Error',
  oomKilled: 'OOMKilled',
  startError: 'StartError',
} as const;

/** The exit code of a container whose end was not observed: 128 + SIGKILL. */
export const UNKNOWN_EXIT_CODE = 137;

export const lostContainerMessages = {
  deleted: 'The container could not be located when the pod was deleted.  The container used to be Running',
  terminated: 'The container could not be located when the pod was terminated',
  restartingAll: 'The container is removed because RestartAllContainers in place',
  forgottenInit:
    'Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally',
} as const;

export const podReasons = {
  deadlineExceeded: 'DeadlineExceeded',
  evicted: 'Evicted',
  preempting: 'Preempting',
  terminated: 'Terminated',
} as const;

export const podMessages = {
  deadlineExceeded: 'Pod was active on the node longer than the specified deadline',
  nodeShutdown: 'Pod was terminated in response to imminent node shutdown.',
  preempted: 'Preempted in order to admit critical pod',
  /** Messages of the condition `DisruptionTarget`. */
  preemptedFor: 'Pod was preempted by Kubelet to accommodate a critical pod.',
  rejected: (message: string): string => `Pod was rejected: ${message}`,
  lacksFeatures: (names: readonly string[]): string =>
    `Pod requires node features that are not available: ${names.join(', ')}`,
} as const;

export const conditionReasons = {
  containersNotInitialized: 'ContainersNotInitialized',
  containersNotReady: 'ContainersNotReady',
  unknownContainerStatuses: 'UnknownContainerStatuses',
  readinessGatesNotReady: 'ReadinessGatesNotReady',
  podCompleted: 'PodCompleted',
  podFailed: 'PodFailed',
  terminationByKubelet: 'TerminationByKubelet',
  resizeError: 'Error',
  restartAllContainersStarted: 'RestartAllContainersStarted',
} as const;

const list = (names: readonly string[]): string => `[${names.join(' ')}]`;

export const conditionMessages = {
  restartAllContainersStarted: 'container exited with restart policy rule',
  incompleteStatus: (names: readonly string[]): string => `containers with incomplete status: ${list(names)}`,
  unreadyStatus: (names: readonly string[]): string => `containers with unready status: ${list(names)}`,
  unknownStatus: (names: readonly string[]): string => `containers with unknown status: ${list(names)}`,
  gateMissing: (gate: string): string => `corresponding condition of pod readiness gate "${gate}" does not exist.`,
  gateNotTrue: (gate: string, status: string): string =>
    `the status of pod readiness gate "${gate}" is not "True", but ${status}`,
} as const;

/** Messages of `state.waiting` and of the errors behind it. */
export const waitingMessages = {
  crashLoopBackOff: (backoff: string, container: string, pod: string): string =>
    `back-off ${backoff} restarting failed container=${container} pod=${pod}`,
  imagePullBackOff: (image: string, previous: string): string =>
    previous === '' ? `Back-off pulling image "${image}"` : `Back-off pulling image "${image}": ${previous}`,
  pullQPSExceeded: 'pull QPS exceeded',
  neverPull: (image: string): string => `Container image "${image}" is not present with pull policy of Never`,
  invalidImageName: (image: string, error: string): string =>
    `Failed to apply default image tag "${image}": couldn't parse image name "${image}": ${error}`,
} as const;

/** Why a hook failed: the message of `PostStartHookError`. */
export const hookMessages = {
  exec: (command: readonly string[], container: string, pod: string, error: string, output: string): string =>
    `Exec lifecycle hook ([${command.join(' ')}]) for Container "${container}" in Pod "${pod}" failed` +
    ` - error: ${error}, message: ${JSON.stringify(output)}`,
  exited: (command: readonly string[], exitCode: number, output: string): string =>
    `command '${command.join(' ')}' exited with ${exitCode}: ${output}`,
  http: (path: string, container: string, pod: string, error: string): string =>
    `HTTP lifecycle hook (${path}) for Container "${container}" in Pod "${pod}" failed - error: ${error}`,
  unsupported: (container: string, pod: string): string =>
    `Cannot run handler: no supported lifecycle handler for Container "${container}" in Pod "${pod}"`,
  cannotRun: (error: string): string => `Cannot run handler: ${error}`,
  /** Go's text for a handler that is neither a command, nor a request, nor a sleep. */
  invalid: (tcpSocket: { readonly port: number | string; readonly host?: string } | undefined): string => {
    const { port = 0, host = '' } = tcpSocket ?? {};
    const [kind, number, name] = typeof port === 'number' ? [0, port, ''] : [1, 0, port];
    const socket = tcpSocket ? `&TCPSocketAction{Port:{${kind} ${number} ${name}},Host:${host},}` : 'nil';
    return `invalid handler: &LifecycleHandler{Exec:nil,HTTPGet:nil,TCPSocket:${socket},Sleep:nil,}`;
  },
} as const;

/** Why a container is killed: the message of the event `Killing`. */
export const killMessages = {
  stopping: (container: string): string => `Stopping container ${container}`,
  definitionChanged: (container: string, isSidecar: boolean): string =>
    isSidecar
      ? `Init container ${container} definition changed`
      : `Container ${container} definition changed, will be restarted`,
  /** For a sidecar the message omits the consequence; for others it mentions only a restart. */
  probeFailed: (container: string, probe: 'liveness' | 'startup', comes: 'again' | 'never' | 'asSidecar'): string => {
    if (comes === 'asSidecar') return `Init container ${container} failed ${probe} probe`;
    return `Container ${container} failed ${probe} probe${comes === 'again' ? ', will be restarted' : ''}`;
  },
  resizeRequiresRestart: (container: string): string => `Container ${container} resize requires restart`,
  unknownState: (runsInOrder: boolean): string =>
    `${runsInOrder ? 'Init container' : 'Container'} is in "unknown" state, try killing it before restart`,
  failedPostStartHook: 'FailedPostStartHook',
  restartingAll: 'killing',
} as const;

export type ProbeName = 'Liveness' | 'Readiness' | 'Startup';

/** Events about one container; the recorder adds `fieldPath` of {@link containerFieldPath}. */
export const containerEvents = {
  pulling: (image: string): EventText => normal('Pulling', `Pulling image "${image}"`),
  pulled: (image: string, duration: string, withWaiting: string, bytes: string): EventText =>
    normal(
      'Pulled',
      `Successfully pulled image "${image}" in ${duration} (${withWaiting} including waiting). Image size: ${bytes} bytes.`,
    ),
  present: (image: string): EventText =>
    normal('Pulled', `Container image "${image}" already present on machine and can be accessed by the pod`),
  pullFailed: (image: string, error: string): EventText =>
    warning('Failed', `Failed to pull image "${image}": ${error}`),
  pullBackOff: (image: string): EventText => normal('BackOff', `Back-off pulling image "${image}"`),
  inspectFailed: (message: string): EventText => warning('InspectFailed', message),
  neverPull: (image: string): EventText => warning('ErrImageNeverPull', waitingMessages.neverPull(image)),
  created: (): EventText => normal('Created', 'Container created'),
  started: (): EventText => normal('Started', 'Container started'),
  failed: (error: string): EventText => warning('Failed', `Error: ${error}`),
  backOff: (container: string, pod: string): EventText =>
    warning('BackOff', `Back-off restarting failed container ${container} in pod ${pod}`),
  killing: (message: string): EventText => normal('Killing', message),
  failedPostStartHook: (): EventText => warning('FailedPostStartHook', 'PostStartHook failed'),
  failedPreStopHook: (): EventText => warning('FailedPreStopHook', 'PreStopHook failed'),
  lifecycleHttpFallback: (host: string): EventText =>
    warning(
      'LifecycleHTTPFallback',
      `request to HTTPS lifecycle hook ${host} got HTTP response, retry with HTTP succeeded`,
    ),
  unhealthy: (probe: ProbeName, output: string): EventText => warning('Unhealthy', `${probe} probe failed: ${output}`),
  probeErrored: (probe: ProbeName, error: string, state: 'failure' | 'unknown' = 'unknown'): EventText =>
    warning('Unhealthy', `${probe} probe errored and resulted in ${state} state: ${error}`),
  probeWarning: (probe: ProbeName, output: string): EventText =>
    warning('ProbeWarning', `${probe} probe warning: ${output}`),
} as const;

const SHARE_LESS =
  'consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/' +
  '#configure-volume-permission-and-ownership-change-policy-for-pods';

/** Events about a volume of a pod; those about its size also concern its claim. */
export const volumeEvents = {
  abnormal: (volume: string, message: string): EventText =>
    warning('VolumeConditionAbnormal', `Volume ${volume}: ${message}`),
  expanded: (volume: string, node: string): EventText =>
    normal('FileSystemResizeSuccessful', `MountVolume.NodeExpandVolume succeeded for volume "${volume}" ${node}`),
  readOnly: (volume: string): EventText =>
    warning(
      'FileSystemResizeFailed',
      `MountVolume.NodeExpandVolume failed for volume "${volume}" requested read-only file system`,
    ),
  /** For a volume in use. */
  notExpanded: (volume: string, error: string): EventText =>
    warning('VolumeResizeFailed', `NodeExpandVolume.NodeExpandVolume failed for volume "${volume}" : ${error}`),
  /** For a volume that containers wait for. */
  notMounted: (volume: string, error: string): EventText =>
    warning('FailedMount', `MountVolume.Setup failed while expanding volume for volume "${volume}" : ${error}`),
  notMapped: (volume: string, error: string): EventText =>
    warning(
      'FailedMapVolume',
      `MapVolume.MarkVolumeAsMounted failed while expanding volume for volume "${volume}" : ${error}`,
    ),
  attached: (volume: string): EventText =>
    normal('SuccessfulAttachVolume', `AttachVolume.Attach succeeded for volume "${volume}" `),
  failedAttach: (volume: string, error: string, step: string): EventText =>
    warning('FailedAttachVolume', `${step} failed for volume "${volume}" : ${error}`),
  failedMap: (volume: string, error: string, step: string): EventText =>
    warning('FailedMapVolume', `${step} failed for volume "${volume}" : ${error}`),
  keptGroup: (volume: string, wanted: number, has: number): EventText =>
    warning(
      'AlreadyMountedVolume',
      `The requested fsGroup is ${wanted}, but the volume ${volume} has GID ${has}. The volume may not be shareable.`,
    ),
  /** Changing the group of the volume takes long; `files`: the number changed so far. `null`: the first report. */
  sharing: (path: string, files: number | null): EventText => {
    const progress = files === null ? ` is taking longer than expected, ${SHARE_LESS}` : `, processed ${files} files.`;
    return warning('VolumePermissionChangeInProgress', `Setting volume ownership for ${path}${progress}`);
  },
  /** `what` of a block device is at a path. */
  mapped: (volume: string, what: 'globalMapPath' | 'volumeMapPath', path: string): EventText =>
    normal('SuccessfulMountVolume', `MapVolume.MapPodDevice succeeded for volume "${volume}" ${what} "${path}"`),
} as const;

const NO_CLUSTER_DNS =
  'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy.' +
  ' Falling back to "Default" policy.';

/** Recorded on the node for each pod whose requested DNS policy is not available. */
export const nodeWithoutClusterDNS: EventText = warning('MissingClusterDNS', NO_CLUSTER_DNS);

/** Why a pod is still not synchronised after upstream's wait for its volumes. */
export const overdueVolumes = (unmounted: readonly string[], unattached: readonly string[]): string =>
  `unmounted volumes=${list(unmounted)}, unattached volumes=${list(unattached)}, ` +
  'failed to process volumes=[]: context deadline exceeded';

export const podEvents = {
  preempting: (): EventText => warning(podReasons.preempting, podMessages.preempted),
  sandboxChanged: (): EventText => normal('SandboxChanged', 'Pod sandbox changed, it will be killed and re-created.'),
  failedCreatePodSandBox: (error: string): EventText =>
    warning('FailedCreatePodSandBox', `Failed to create pod sandbox: ${error}`),
  failedValidation: (pod: string, source: string, error: string): EventText =>
    warning('FailedValidation', `Error validating pod ${pod} from ${source} due to ${error}, ignoring`),
  failedPrepareDynamicResources: (error: string): EventText =>
    warning('FailedPrepareDynamicResources', `Failed to prepare dynamic resources: ${error}`),
  failedPodSandBoxStatus: (error: string): EventText =>
    warning('FailedPodSandBoxStatus', `Unable to get pod sandbox status: ${error}`),
  failedMount: (volume: string, error: string, step = 'MountVolume.SetUp'): EventText =>
    warning('FailedMount', `${step} failed for volume "${volume}" : ${error}`),
  unprocessedVolumes: (volumes: readonly string[], errors: readonly string[]): EventText =>
    warning(
      'FailedMount',
      `Unable to attach or mount volumes: unmounted volumes=${list(volumes)}, unattached volumes=[], ` +
        `failed to process volumes=${list(volumes)}: ${errors.join('; ')}`,
    ),
  unmountedVolumes: (unmounted: readonly string[], unattached: readonly string[]): EventText =>
    warning('FailedMount', `Unable to attach or mount volumes: ${overdueVolumes(unmounted, unattached)}`),
  /** `missing`: the volumes of the pod as {@link overdueVolumes} lists them; empty: it does not. */
  attachmentLimit: (missing: string): EventText =>
    warning(
      'VolumeAttachmentLimitExceeded',
      `Node has reached its volume attachment limit, rejecting pod${missing === '' ? '' : `. ${missing}`}`,
    ),
  failedMakeDirectories: (error: string): EventText => warning('Failed', `error making pod data directories: ${error}`),
  failedCreatePodContainer: (uid: string, error: string): EventText =>
    warning(
      'FailedCreatePodContainer',
      `unable to ensure pod container exists: failed to create container for ${uid} : ${error}`,
    ),
  exceededGracePeriod: (): EventText =>
    warning('ExceededGracePeriod', 'Container runtime did not kill the pod within specified grace period.'),
  failedKillPod: (error: string): EventText => warning('FailedKillPod', `error killing pod: ${error}`),
  failedSync: (error: string): EventText => warning('FailedSync', `error determining status: ${error}`),
  networkNotReady: (error: string): EventText => warning('NetworkNotReady', `network is not ready: ${error}`),
  deadlineExceeded: (): EventText => normal('DeadlineExceeded', podMessages.deadlineExceeded),
  rejected: (reason: string, message: string): EventText => warning(reason, message),
  /** A change of the pod needs features whose gates are off. */
  failedNodeDeclaredFeaturesCheck: (names: readonly string[]): EventText =>
    warning('FailedNodeDeclaredFeaturesCheck', podMessages.lacksFeatures(names)),
  /** `summary`: generation and resources of the pod as JSON; `cause`: why it is deferred. */
  resizeDeferred: (cause: string, summary: string): EventText =>
    warning('ResizeDeferred', `Pod resize ${cause}: ${summary}`),
  resizeInfeasible: (cause: string, summary: string): EventText =>
    warning('ResizeInfeasible', `Pod resize ${cause}: ${summary}`),
  resizeStarted: (summary: string): EventText => normal('ResizeStarted', `Pod resize started: ${summary}`),
  resizeCompleted: (summary: string): EventText => normal('ResizeCompleted', `Pod resize completed: ${summary}`),
  resizeError: (summary: string): EventText => warning('ResizeError', `Pod resize error: ${summary}`),
  missingClusterDNS: (pod: string): EventText =>
    warning('MissingClusterDNS', `pod: ${JSON.stringify(pod)}. ${NO_CLUSTER_DNS}`),
  /** `names` as published, joined by commas. */
  failedToRetrieveImagePullSecret: (names: string): EventText =>
    warning(
      'FailedToRetrieveImagePullSecret',
      `Unable to retrieve some image pull secrets (${names}); attempting to pull the image may not succeed.`,
    ),
  /**
   * `request` with its namespace. Upstream mixes up reason and message (`%!(EXTRA ...)`); this is the intended text.
   */
  certificateRefused: (how: 'Denied' | 'Failed', request: string, reason: string, message: string): EventText =>
    warning(
      how,
      `PodCertificateRequest ${request} ${how === 'Denied' ? 'was denied' : 'failed'}, ` +
        `reason=${JSON.stringify(reason)}, message=${JSON.stringify(message)}`,
    ),
  certificateOverdue: (): EventText => warning('CertificateOverdueForRefresh', 'PodCertificate refresh overdue'),
  certificateExpired: (): EventText => warning('CertificateExpired', 'PodCertificate expired'),
  dnsConfigForming: (message: string): EventText => warning('DNSConfigForming', message),
} as const;

/** An error of one step of a kill, as in the event about the kill. */
export const killError = (action: 'KillContainer' | 'KillPodSandbox', target: string, error: string): string =>
  `failed to "${action}" for ${quote(target)} with ${action}Error: ${quote(error)}`;

const ANY_CODE = /^rpc error: code = \w+ desc = /;

/** An error of creating or starting a container, without the status code. */
export const startErrorText = (message: string): string => message.replace(ANY_CODE, '');

const UNKNOWN_CODE = 'rpc error: code = Unknown desc = ';

/** An error of a call about a container or an image, without the code `Unknown`. */
export const runtimeErrorText = (message: string): string =>
  message.startsWith(UNKNOWN_CODE) ? message.slice(UNKNOWN_CODE.length) : message;

const PULL_REASONS = [
  [waitingReasons.registryUnavailable, 'the registry is unavailable'],
  [waitingReasons.signatureValidationFailed, 'the signature validation failed'],
] as const;

/** Reason and message of a container whose image could not be pulled. Some runtimes put the reason first. */
export function pullFailure(image: string, error: string): { readonly reason: string; readonly message: string } {
  const known = PULL_REASONS.find(([name]) => error.startsWith(name));
  if (!known) return { reason: waitingReasons.errImagePull, message: error };
  const [reason, because] = known;
  return { reason, message: `image pull failed for ${image} because ${because}${error.slice(reason.length)}` };
}

/** The field path of an event about a container: `spec.containers{name}`. */
export function containerFieldPath(kind: 'init' | 'sidecar' | 'regular' | 'ephemeral', container: string): string {
  const list = kind === 'regular' ? 'containers' : kind === 'ephemeral' ? 'ephemeralContainers' : 'initContainers';
  return `spec.${list}{${container}}`;
}

/** The reference of an event about the node, by name alone. */
export const nodeRef = (nodeName: string) => ({ kind: 'Node', namespace: '', name: nodeName, uid: '' }) as const;

/** Events about the node. Those of upstream are word for word (pkg/kubelet/events/event.go). */
export const nodeEvents = {
  starting: normal('Starting', 'Starting kubelet.'),
  /** A set-up that every pod needs failed; the node ends. */
  setupFailed: (message: string) => warning('KubeletSetupFailed', message),
  /** An event of Statelet: upstream restarts the process instead. `fields` are paths of the configuration. */
  configurationChanged: (fields: readonly string[]) =>
    normal('KubeletConfigChanged', `Changed while the node runs: ${fields.join(', ')}`),
  /** An event of Statelet: why a new configuration, or a part of it, is not used. */
  configurationRefused: (why: string) => warning('KubeletConfigRefused', `New configuration refused: ${why}`),
  /** The machine swaps, and its kernel cannot keep a tmpfs out of swap. */
  memoryOnDisk: warning(
    'PossibleMemoryBackedVolumesOnDisk',
    'The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) might be ' +
      'swapped to disk and should no longer be considered secure.',
  ),
  cgroupV1: warning(
    'CgroupV1',
    'cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. Please migrate to ' +
      'cgroup v2. More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1',
  ),
  limitsEnforced: (message: string) => normal('NodeAllocatableEnforced', message),
  limitsNotEnforced: (message: string) => warning('FailedNodeAllocatableEnforcement', message),
  resolverLimits: (message: string) => warning('CheckLimitsForResolvConf', message),
  thresholdMet: (resource: string) => warning('EvictionThresholdMet', `Attempting to reclaim ${resource}`),
  containerGCFailed: (message: string) => warning('ContainerGCFailed', message),
  imageGCFailed: (message: string) => warning('ImageGCFailed', message),
  imageDiskInvalid: (message: string) => warning('InvalidDiskCapacity', message),
  imageDiskFull: (message: string) => warning('FreeDiskSpaceFailed', message),
  systemOOM: (victim: string) => warning('SystemOOM', `System OOM encountered${victim}`),
  shutdown: (what: 'event' | 'cancellation') => normal('Shutdown', `Shutdown manager detected shutdown ${what}`),
};
