/** The supervisor's input, context and events. */
import type { AgentFault } from '../../../kernel/xstate.ts';
import type { HostAddressesChanged } from '../../charts/node/node-status-setup.ts';
import type { KubeletFlags } from '../../configuration/flags/flags.ts';
import type { ConfigurationChange } from '../../configuration/reloadable.ts';
import type { NodeAddress, PodRef } from '../../model/api/pod.ts';
import type { NodeResources } from '../../model/cgroups/allocatable.ts';
import type { KubeletConfiguration } from '../../model/configuration/fields.ts';
import type { CertificatePurpose } from '../../model/operations/certificate.ts';
import type { CgroupInfo, MachineInfo, SoftState } from '../../model/operations/host.ts';
import type { NodeSettings, RuntimeHandlerAbilities } from '../../model/settings/node-settings.ts';

/** Input of the root machine: the arguments of the process, as in the journal's header. */
export interface KubeletInput {
  /** Arguments after `run`. */
  readonly argv: readonly string[];
  /** Folder for pod logs and their links instead of the configured ones; `null` for the kubelet's folders. */
  readonly dataDir: string | null;
  /** `v1.36.x+statelet.<version>`. */
  readonly version: string;
  /** The number of behavior changes that this node applies: `behaviors.ts` of the model. */
  readonly behavior: number;
  /** The folder of this node's journal, next to the soft state. */
  readonly journalDir: string;
  /** False: no pod of the API server starts without it. */
  readonly rememberPods?: boolean;
  /** Set for a node that runs the pods of its manifests once and ends: `statelet run-once`. */
  readonly runOnce?: { readonly retries: number };
}

export interface RuntimeFacts {
  /** Endpoint that answered; the embedded runtime's own if there was no other. */
  readonly endpoint: string;
  readonly embedded: boolean;
  readonly name: string;
  readonly version: string;
  /** As reported by the runtime; `null` if it does not report it (containerd 1.6). */
  readonly cgroupDriver: 'cgroupfs' | 'systemd' | null;
  /** Abilities of its handlers; empty if it does not report them. */
  readonly handlers: Readonly<Record<string, RuntimeHandlerAbilities>>;
}

export interface NodeIdentity {
  readonly hostname: string;
  readonly nodeName: string;
  readonly nodeIPs: readonly string[];
  /** Why the Node has no addresses: `--node-ip` names one that the machine does not have. */
  readonly addressProblem?: string;
  /** Where a cloud provider sets the addresses of the Node: those that the Node has. */
  readonly hostAddresses?: readonly NodeAddress[];
}

export interface KubeletMachineOutput {
  readonly exitCode: number;
  readonly failure: Failure | null;
  /** The results of `statelet run-once`; `null` if it ended before every pod had one. */
  readonly podResults?: readonly PodResult[] | null;
}

/** The facts established by the steps of starting, in order. */
interface Facts {
  readonly flags: KubeletFlags;
  readonly config: KubeletConfiguration;
  readonly node: NodeIdentity;
  /** The clients of the API server. */
  readonly clients: KubeClients;
  readonly runtime: RuntimeFacts;
  readonly machineInfo: MachineInfo;
  readonly cgroups: CgroupInfo;
  readonly resources: NodeResources;
  readonly settings: NodeSettings;
}

interface Progress {
  readonly input: KubeletInput;
  /** Whether the runtime's endpoint came from a flag or a file. */
  readonly endpointNamed: boolean;
  /** The node creates its serving certificate itself, because no certificate is configured or requested. */
  readonly ownsCertificate: boolean;
  /** Some credential provider plugin uses tokens of the pods' service accounts. */
  readonly pullsByServiceAccount: boolean;
  readonly requestTimeoutMs: number;
  readonly resolvConf: string;
  readonly hostsFile: string;
  readonly failure: Failure | null;
  /** The results of a node that runs its pods once, when they are complete. */
  readonly podResults: readonly PodResult[] | null;
  /** Crashes of each subsystem since the start: the base of its back-off. */
  readonly crashes: Readonly<Record<string, number>>;
}

/** The supervisor's context for other readers: a fact is `null` until its step has succeeded. */
export type KubeletContext = Progress & { readonly [Fact in keyof Facts]: Facts[Fact] | null };

/** The context for the phases, which run in order (S1): each reads only facts of earlier steps. */
export type EstablishedContext = Progress & Facts;

export type KubeletEvent =
  /** From the process: SIGTERM, SIGINT, or SIGHUP. */
  | { readonly type: 'signal.received'; readonly signal: string }
  | AgentFault
  | { readonly type: 'lockFile.acquired' }
  | { readonly type: 'lockFile.failed'; readonly message: string }
  | { readonly type: 'lockFile.contended' }
  | { readonly type: 'runtimeService.ready'; readonly runtime: RuntimeFacts }
  | { readonly type: 'runtimeService.failed'; readonly message: string }
  | { readonly type: 'containerManager.created'; readonly cgroups: CgroupInfo; readonly resources: NodeResources }
  | { readonly type: 'containerManager.started' }
  | { readonly type: 'containerManager.failed'; readonly message: string }
  | { readonly type: 'softState.loaded'; readonly state: SoftState }
  | { readonly type: 'healthz.serving'; readonly address: string; readonly port: number }
  | {
      readonly type: 'server.serving';
      readonly address: string;
      readonly port: number;
      readonly isReadOnly: boolean;
    }
  | { readonly type: 'server.failed'; readonly message: string }
  | { readonly type: 'oomWatcher.failed'; readonly message: string }
  | { readonly type: 'draManager.failed'; readonly message: string }
  | CertificateReport
  | { readonly type: 'runtimeState.up' }
  | { readonly type: 'runtimeState.down'; readonly errors: readonly string[] }
  | RunOnceFinished
  | ConfigReloadApplied
  | { readonly type: 'watchdog.ready' }
  | { readonly type: 'watchdog.failed'; readonly message: string }
  | { readonly type: 'resolver.changed'; readonly text: string }
  | { readonly type: 'addresses.changed'; readonly nodeIPs: readonly string[] }
  | HostAddressesChanged
  /** Raised: this subsystem restarts with the new configuration. */
  | { readonly type: `reload.${string}` }
  /** Raised by a phase: this subsystem may start now. */
  | { readonly type: `create.${string}` };

export type CertificateReport =
  | { readonly type: 'certificate.loaded'; readonly purpose: CertificatePurpose }
  | { readonly type: 'certificate.failed'; readonly purpose: CertificatePurpose; readonly message: string }
  | { readonly type: 'certificate.lost'; readonly message: string };

/** The clients of the API server. */
export type KubeClients =
  | { readonly mode: 'standalone' }
  | { readonly mode: 'cluster'; readonly server: string; readonly rotates: boolean };

export interface ContainerResult {
  readonly name: string;
  readonly state: 'waiting' | 'running' | 'terminated';
  /** Why the container waits or ended; empty if the runtime gave no reason. */
  readonly reason: string;
  /** `null`: it has not ended. */
  readonly exitCode: number | null;
  readonly restarts: number;
}

export interface PodResult extends PodRef {
  readonly result: 'Ready' | 'Succeeded' | 'Failed' | 'TimedOut';
  /** Why the pod did not become ready or succeed; empty if it did. */
  readonly message: string;
  readonly containers: readonly ContainerResult[];
  /** Milliseconds from the first list to the verdict. */
  readonly tookMs: number;
}

export interface RunOnceFinished {
  readonly type: 'runOnce.finished';
  readonly results: readonly PodResult[];
  /** Upstream's error; empty if every pod became ready or succeeded. */
  readonly error: string;
}

export interface ConfigReloadApplied extends Omit<ConfigurationChange, 'refused'> {
  readonly type: 'configReload.applied';
}

/** The answer of a one-shot subsystem. */
export type Answer<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly message: string };

/** Why the start failed, with the wording of the failed phase. */
export interface Failure {
  /** The active state of the chart, such as `run.lockFile`. */
  readonly phase: string;
  readonly message: string;
  readonly exitCode: number;
  /** The final stderr lines of upstream's command, without klog's headers; default: one line with the message. */
  readonly lines?: readonly string[];
}
