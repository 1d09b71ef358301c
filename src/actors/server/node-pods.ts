/** The pods of this node and other facts that endpoints read: copies, taken between two turns of the kernel. */
import type { KubeletConfiguration } from '../../machines/configuration/index.ts';
import type { ContainerStatus } from '../../machines/model/api/cri.ts';
import type { Container, EphemeralContainer, Pod, PodStatus } from '../../machines/model/api/pod.ts';
import type { PreparedClaims } from '../../machines/model/dra/messages.ts';
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';
import type { ExclusiveCpus } from '../../machines/model/operations/grants.ts';
import type { ClaimPlaces } from '../stats/summary-parts.ts';
import { type Answer, text } from './http/answer.ts';
import type { ApiRequest } from './http/endpoint.ts';

/** A pod of this node: wanted, or only found in the runtime. */
export interface NodePod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** `null`: only the runtime knows it. */
  readonly pod: Pod | null;
  readonly status: PodStatus | null;
  readonly runtime: PodRuntimeStatus | null;
  /** How far the pod's end has come; absent: the pod is to run. */
  readonly ending?: PodEnding;
  /** Names of the volumes that are set up. */
  readonly mounted: readonly string[];
  /** By container, the CPUs that it has exclusively: `1-2,5`. Absent: none. */
  readonly exclusiveCpus?: ExclusiveCpus;
  /** What drivers prepared of the pod's ResourceClaims. */
  readonly prepared?: PreparedClaims;
  /** By volume that is set up and lies on this machine, its claim and its path. Absent: none. */
  readonly claims?: ClaimPlaces;
}

/** A pod that its source has: upstream serves and lists no other. */
export type WantedPod = NodePod & { readonly pod: Pod };

export interface PodEnding {
  /** The pod's source does not have it any more. */
  readonly isOrphan: boolean;
  /** The pod's containers have stopped for good. */
  readonly isStopped: boolean;
}

export const isWanted = (known: NodePod): known is WantedPod => known.pod !== null && known.ending?.isOrphan !== true;

/** The wanted pod of this name; the later one while two have it. */
export const podNamed = (pods: readonly NodePod[], namespace: string, name: string): WantedPod | undefined =>
  pods.filter(isWanted).findLast((known) => known.name === name && known.namespace === namespace);

/** A container of any kind, by its name. */
export const containerSpec = ({ spec }: Pod, name: string): Container | EphemeralContainer | undefined =>
  [...spec.containers, ...(spec.initContainers ?? []), ...(spec.ephemeralContainers ?? [])].find(
    (container) => container.name === name,
  );

/** At once where the kernel is, later over a thread. */
type Awaitable<Value> = Value | Promise<Value>;

/** By name of a check, why it fails, or `null` while all is well. */
export type Checks = Readonly<Record<string, () => Awaitable<string | null>>>;

/** The view of the node's pods that endpoints read. */
export interface ApiView {
  pods(): Awaitable<readonly NodePod[]>;
  /** The configuration in force. Only after starting has read it. */
  configuration(): Awaitable<KubeletConfiguration>;
  readonly checks: Checks;
}

/** `uid` is not compared, as upstream does not. */
export async function podOf(
  view: ApiView,
  { parameters }: Pick<ApiRequest, 'parameters'>,
): Promise<WantedPod | Answer> {
  const { namespace = '', pod: name = '' } = parameters;
  return podNamed(await view.pods(), namespace, name) ?? text(404, 'pod does not exist');
}

/** Decides which pod and container a command or a stream is for, with upstream's refusals. Shared by all of them. */
export const isAnswer = (value: object): value is Answer => 'status' in value && typeof value.status === 'number';

/** The instance of a container that runs. */
export const runningContainer = ({ runtime }: NodePod, name: string): ContainerStatus | undefined =>
  runtime?.containers.find(({ metadata, state }) => metadata?.name === name && state === 'CONTAINER_RUNNING');
