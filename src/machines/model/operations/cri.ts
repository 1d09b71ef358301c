/** Operations on a container runtime (CRI v1). Names are the RPC's. Implemented by `src/actors/cri`. */
import { idempotent, once, query, type SecretHandle, stream } from '../../../kernel/xstate.ts';
import type {
  ContainerConfig,
  ContainerStatus,
  Image,
  LinuxContainerResources,
  PodSandboxConfig,
  PodSandboxStatus,
  RuntimeCondition,
  RuntimeFeatures,
  RuntimeHandler,
} from '../api/cri.ts';

/** The runtime's state of one pod at one moment, newest first. */
export interface PodRuntimeStatus {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  readonly sandboxes: readonly PodSandboxStatus[];
  readonly containers: readonly ContainerStatus[];
  /** Kernel milliseconds at the start of the inspection: a later one wins over an earlier one. */
  readonly observedAtMs: number;
}

export interface RuntimeVersion {
  readonly runtimeName: string;
  readonly runtimeVersion: string;
  readonly runtimeApiVersion: string;
}

export interface RuntimeStatus {
  readonly conditions: readonly RuntimeCondition[];
  /** The handler without a name is the default; empty if the runtime does not report them (containerd 1.6). */
  readonly handlers: readonly RuntimeHandler[];
  readonly features: RuntimeFeatures | null;
}

/** A changed sandbox or container of a published pod: the states of an instance only advance. */
export type InstanceChanged =
  | { readonly type: 'runtime.sandboxChanged'; readonly uid: string; readonly status: PodSandboxStatus }
  | { readonly type: 'runtime.containerChanged'; readonly uid: string; readonly status: ContainerStatus };

/** An item of the stream `cri.watchPods`: only changes since the last item, and no results of the agent's own calls. */
export type WatchPodsItem =
  /** The runtime state of one pod changed (or was observed for the first time). */
  | { readonly type: 'runtime.podChanged'; readonly status: PodRuntimeStatus }
  | InstanceChanged
  /** The runtime has neither sandboxes nor containers of this pod any more. */
  | { readonly type: 'runtime.podRemoved'; readonly uid: string }
  /**
   * The first complete relist is done: pods that were not reported before do not exist. `uids` are all pods of the
   * runtime.
   */
  | { readonly type: 'runtime.relisted'; readonly uids: readonly string[] }
  /** Relisting changed between success and failure; `message` has the error. */
  | { readonly type: 'runtime.relistFailing'; readonly message: string }
  | { readonly type: 'runtime.relistWorking' }
  /** One pod's inspection exceeded its deadline or failed; only that pod is stale. */
  | { readonly type: 'runtime.podStale'; readonly uid: string; readonly message: string };

/** The runtime's images changed; these are all of them. */
export type WatchImagesItem = { readonly type: 'images.changed'; readonly images: readonly Image[] };

type Nothing = Record<string, never>;

export const criOperations = {
  'cri.version': query<Nothing, RuntimeVersion>(),
  'cri.status': query<Nothing, RuntimeStatus>(),
  /** `null` where the runtime does not implement RuntimeConfig (containerd 1.6). */
  'cri.runtimeConfig': query<Nothing, { cgroupDriver: 'systemd' | 'cgroupfs' | null }>(),
  /** `status`, here and below: the instance after the call; `null` if the answer does not show it. */
  'cri.runPodSandbox': once<
    { config: PodSandboxConfig; runtimeHandler: string },
    { podSandboxId: string; status: PodSandboxStatus | null }
  >(),
  'cri.stopPodSandbox': idempotent<{ podSandboxId: string }, { status: PodSandboxStatus | null }>(),
  'cri.removePodSandbox': idempotent<{ podSandboxId: string }, null>(),
  /** The names of `secrets` or `written` in variables, command or arguments are replaced by their values. */
  'cri.createContainer': once<
    {
      podSandboxId: string;
      config: ContainerConfig;
      sandboxConfig: PodSandboxConfig;
      secrets?: readonly SecretHandle[];
      /** Literal texts of the pod's definition; an error may quote short ones. */
      written?: readonly SecretHandle[];
      /** Words of command and arguments, which an error may quote. */
      words?: readonly SecretHandle[];
    },
    { containerId: string }
  >(),
  'cri.startContainer': once<{ containerId: string }, { status: ContainerStatus | null }>(),
  'cri.stopContainer': idempotent<
    { containerId: string; timeoutSeconds: number },
    { status: ContainerStatus | null }
  >(),
  /** Changes the limits of a running container. */
  'cri.updateContainerResources': idempotent<{ containerId: string; linux: LinuxContainerResources }, null>(),
  /** `false` if the runtime does not implement the call (before containerd 2.2) and has nothing to update. */
  'cri.updatePodSandboxResources': idempotent<
    { podSandboxId: string; overhead: LinuxContainerResources; resources: LinuxContainerResources },
    { isSupported: boolean }
  >(),
  'cri.removeContainer': idempotent<{ containerId: string }, null>(),
  /** One pod, inspected now: sandboxes and containers with their full status. */
  'cri.podStatus': query<{ uid: string }, PodRuntimeStatus>(),
  'cri.watchPods': stream<
    { relistPeriodMs: number; inspectDeadlineMs: number; inspectParallel: number },
    WatchPodsItem
  >(),
  /** `null` when the image is not present. */
  'cri.imageStatus': query<{ image: string }, { image: Image | null }>(),
  /** `auth` stands for an AuthConfig as JSON; it is removed from the runtime's errors. */
  'cri.pullImage': idempotent<
    {
      image: string;
      annotations: Readonly<Record<string, string>>;
      sandboxConfig: PodSandboxConfig | null;
      auth: SecretHandle | null;
    },
    { imageRef: string }
  >(),
  'cri.listImages': query<Nothing, { images: readonly Image[] }>(),
  /** Lists every `periodMs`; emits when images were added or removed. */
  'cri.watchImages': stream<{ periodMs: number }, WatchImagesItem>(),
  'cri.removeImage': idempotent<{ image: string }, null>(),
  'cri.imageFsInfo': query<Nothing, { mountpoint: string; usedBytes: string; inodesUsed: string }>(),
  'cri.execSync': once<
    { containerId: string; command: readonly string[]; timeoutSeconds: number },
    { exitCode: number; stdout: string; stderr: string }
  >(),
  /** Configures the runtime's network with the pod CIDRs of this node, comma-separated. */
  'cri.updateRuntimeConfig': idempotent<{ podCIDR: string }, null>(),
  'cri.reopenContainerLog': idempotent<{ containerId: string }, null>(),
};
