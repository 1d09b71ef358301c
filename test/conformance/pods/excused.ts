/**
 * The allowed differences of a live run from the recording, each with its reason. A test fails for a difference without
 * an excuse, and for an excuse without a difference.
 */
export interface Excuse {
  /** The name of a case, or `*`. */
  readonly case: string;
  /** The path of the difference. */
  readonly path: RegExp;
  /** The live value as JSON; absent: any value. */
  readonly live?: RegExp;
  /** The major version of containerd for which it holds; absent: any. */
  readonly containerd?: number;
  /** The version of cgroups for which it holds; absent: any. The recordings have version 1. */
  readonly cgroup?: 1 | 2;
  /** Only on an emulated machine, where a step takes longer than the recording has seconds for it. */
  readonly emulated?: true;
  /** Only on a machine without huge pages of this size, by the name of the kernel's folder. */
  readonly withoutPages?: string;
  /** The difference may also be absent: two runs differ, or there was no registry for the case. */
  readonly racy?: true;
  readonly reason: string;
}

/** Cases whose pods are removed seconds after their start. */
export const HURRIED: readonly string[] = [
  'image-invalid-name',
  'image-never-missing',
  'init-fail-always',
  'init-fail-never',
  'probe-grpc',
  'restart-never-exit0',
  'run-error-command',
  'run-error-command-never',
  'termination-message-file',
];

export const EXCUSES: readonly Excuse[] = [
  {
    case: '*',
    path: /linux\.resources\.unified$/,
    live: /^\{"memory\.oom\.group":"1"(,"memory\.swap\.max":"0")?\}$/,
    cgroup: 2,
    reason: 'on version 2 a container ends as a whole, and without swap; the kubelet sends both there only',
  },
  {
    case: '*',
    path: /linux\.resources\.memory_swap_limit_in_bytes$/,
    live: /^undefined$/,
    cgroup: 2,
    reason: 'the same: memory.swap.max stands in for it (qos-burstable, pod-level-resources)',
  },
  {
    case: 'sc-procmount-userns',
    racy: true,
    path: /^p sandbox:0 RunPodSandbox$/,
    cgroup: 2,
    reason:
      'the kernel of the recordings has no user namespaces for pods; current ones have them, so the pod runs, if it ' +
      'has the time before its removal',
  },
  {
    case: '*',
    path: /linux\.resources\.hugepage_limits\.1$/,
    live: /^undefined$/,
    withoutPages: 'hugepages-1048576kB',
    reason: 'a container has a limit for each size of pages of its machine; that of the recordings had pages of 1 GB',
  },
  {
    case: '*',
    path: /CreateContainer\.config\.linux\.resources\.oom_score_adj$/,
    live: /^"\d+"$/,
    emulated: true,
    reason: 'it is a share of the memory of the machine, which the emulated one has less of (qos-burstable)',
  },
  {
    case: '*',
    path: /^\S+ status .*[cC]ontainerStatuses\.\d\.user$/,
    live: /^undefined$/,
    containerd: 1,
    reason: 'containerd 1.6 does not say as whom a container runs (2.1 of the recordings does)',
  },
  {
    case: '*',
    path: /^\S+ status at last\.phase$/,
    live: /^"(Running|Pending)"$/,
    reason: 'a removed manifest is no deletion: the phase of a static pod stays (recording static-pod, last status)',
  },
  {
    case: '*',
    path: /^\S+ status at last\.conditions\.[123]\.(reason|message)$/,
    live: /^(undefined|"ContainersNotReady"|"containers with unready status: .*")$/,
    reason: 'the same: its conditions speak of containers, not of a pod that has completed (recording static-pod)',
  },
  {
    case: 'command-args-env',
    path: /CreateContainer\.config\.envs\.\d\.value$/,
    live: /^"\$\(KUBERNETES_SERVICE_HOST\)"$/,
    reason: 'the variables of the service kubernetes come from an API server',
  },
  {
    case: 'delete-while-pulling',
    racy: true,
    path: /./,
    reason:
      'the kubelet ends the pull, creates and starts the container, and only then stops it; here a pod that is to end ' +
      'starts nothing more',
  },
  {
    case: '*',
    racy: true,
    path: /CreateContainer\.config\.annotations\.io\.kubernetes\.container\.hash$/,
    live: /^"[0-9a-f]+"$/,
    reason: 'the hash covers the name of the image, which has the port of the registry in it (image-pull-*)',
  },
  {
    case: 'image-pull-notfound',
    racy: true,
    path: /state\.waiting\.message$/,
    live: /failed to resolve reference .*: not found"$/,
    containerd: 1,
    reason: 'containerd 1.6 words what it did not find in another way',
  },
  {
    case: '*',
    path: /containerStatuses\.0\.(state|lastState)\.terminated\.message$/,
    live: /exec: .*\/nope.*: no such file or directory: unknown"$/,
    containerd: 1,
    reason: 'containerd 1.6 adds its unknown class of error to the words of runc (run-error-command*)',
  },
  {
    case: 'run-error-command',
    racy: true,
    path: /status before its removal\.containerStatuses\.0\.state\.waiting\.(reason|message)$/,
    live: /CrashLoopBackOff|^"back-off 10s restarting/,
    reason: 'the kubelet says CrashLoopBackOff when a later sync finds it; here it is said when the back-off begins',
  },
  {
    case: 'init-fail-always',
    racy: true,
    path: /status before its removal\.initContainerStatuses\.0\.(state\.(waiting|terminated)$|lastState\.)/,
    live: /^undefined$|back-off 20s|<cid:i1:2>/,
    reason: 'the same: the kubelet still shows the end of the instance while the back-off already runs',
  },
  {
    case: 'init-fail-always',
    path: /^p status at last\.initContainerStatuses\.0\.lastState\.terminated\.containerID$/,
    live: /<cid:i1:2>/,
    reason:
      'the same: a back-off that is cut short shows one instance both as the state and as the last state, also there',
  },
  {
    case: 'restart-onfailure-exit1',
    racy: true,
    path: /^p(\/c:2 StopContainer$| status before its removal\.| status at last\..*lastState)|^order of StopContainer\.p$/,
    reason:
      'removed 1.5 s after the second restart was shown: the container ends by itself after 1 s; the restart is shown ' +
      'some 0.8 s later by the kubelet, so that the removal finds it running there and ended here, in its back-off',
  },
  {
    case: 'probe-http',
    racy: true,
    path: /^p status before its removal\.(conditions\.[23]\.|containerStatuses\.0\.ready$)/,
    live: /^(undefined|"True"|true)$/,
    reason: 'removed 1.5 s after the restart was shown: the readiness probe has passed again here',
  },
  {
    case: 'run-error-command',
    racy: true,
    path: /^p status at last\.containerStatuses\.0\.lastState\.terminated\.containerID$/,
    live: /<cid:c:0>/,
    reason: 'the same',
  },
  {
    case: 'sidecar-termination-order',
    racy: true,
    path: /^p\/s\d:0 StopContainer\.0\.timeout$/,
    live: /^\d$/,
    reason: 'what is left of the grace depends on how long the containers before it took',
  },
  {
    case: 'two-containers-one-fails',
    racy: true,
    path: /^p status before its removal\.conditions\.0\.status$/,
    live: /^"True"$/,
    reason: 'the recording looked after the sandbox was stopped, which a busy runtime may not have done yet',
  },
  {
    case: 'container-removed',
    racy: true,
    path: /containerStatuses\.0\.lastState\.terminated\.(message|reason|containerID|finishedAt|startedAt)$/,
    reason:
      'the events of the runtime tell the end of the container before its removal; the kubelet polls and sees none',
  },
  {
    case: 'delete-ignore-term',
    path: /CreateContainer\.config\.annotations\.io\.kubernetes\.pod\.terminationGracePeriod$/,
    live: /^"3"$/,
    reason:
      'the deletion of the recording shortens the grace to 3 s; a removed manifest has its own, so it is given 3 s',
  },
  {
    case: '*',
    path: /^p status .*\.(reason|message)$/,
    live: /"UnexpectedAdmissionError"|"Pod was rejected: Unexpected error while attempting to recover from admission/,
    reason: 'a static pod is critical: where it does not fit the node looks for pods to preempt first (out-of-*)',
  },
  {
    case: '*',
    racy: true,
    path: /containerStatuses\.0\.(state|lastState)\.(terminated|waiting)\.message$/,
    live: /unable to start container process: error during container init: exec: .*\/nope/,
    reason: 'runc 1.3 says also where it failed (run-error-command*)',
  },
  ...HURRIED.map(
    (name): Excuse => ({
      case: name,
      racy: true,
      path: /^p status before its removal\./,
      emulated: true,
      reason: 'removed so long after its start as in the recording: a restart, an end or its message is shown later',
    }),
  ),
  ...['prestop-exec', 'prestop-http'].map(
    (name): Excuse => ({
      case: name,
      racy: true,
      path: /StopContainer\.0\.timeout$/,
      live: /^\d+$/,
      emulated: true,
      reason: 'the rest of the grace, after a hook that takes its time',
    }),
  ),
  ...['poststart-fail', 'probe-grpc', 'restart-onfailure-exit1', 'run-error-command'].map(
    (name): Excuse => ({
      case: name,
      racy: true,
      path: /^p(\/\w+:\d (Create|Start|Stop)Container| status at last\.containerStatuses)|^order of /,
      emulated: true,
      reason: 'the container restarts once more, or once less, in the time of the recording',
    }),
  ),
];
