/** The pods of this node and other facts for endpoints: copies, taken between two turns of the kernel. */
import type { ContainerStatus } from '../../machines/model/api/cri.ts';
import type { Container, EphemeralContainer, Pod, PodStatus } from '../../machines/model/api/pod.ts';
import type { KubeletConfiguration } from '../../machines/model/configuration/fields.ts';
import type { PreparedClaims } from '../../machines/model/dra/messages.ts';
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';
import type { ExclusiveCpus } from '../../machines/model/operations/grants.ts';
import type { ClaimPlaces } from '../stats/summary-parts.ts';
import { type Answer, type ApiRequest, text } from './http/endpoint.ts';

/** A pod of this node: wanted, or only found in the runtime. */
export interface NodePod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** The configured pod; `null` if only the runtime knows the pod. */
  readonly pod: Pod | null;
  readonly status: PodStatus | null;
  readonly runtime: PodRuntimeStatus | null;
  /** The progress of the pod's end; absent: the pod is not ending. */
  readonly ending?: PodEnding;
  /** The pod was never admitted: nothing of it runs. */
  readonly isRejected?: true;
  /** Names of the volumes that are set up. */
  readonly mounted: readonly string[];
  /** By container, its exclusive CPUs: `1-2,5`. Absent for none. */
  readonly exclusiveCpus?: ExclusiveCpus;
  /** Prepared devices of the pod's ResourceClaims. */
  readonly prepared?: PreparedClaims;
  /** By volume that is set up and on this machine, its claim and its path. Absent for none. */
  readonly claims?: ClaimPlaces;
}

/** A pod that its source still has: upstream serves and lists no other. */
export type WantedPod = NodePod & { readonly pod: Pod };

export interface PodEnding {
  /** The pod's source no longer has it. */
  readonly isOrphan: boolean;
  /** The pod's containers have stopped for good. */
  readonly isStopped: boolean;
}

export const isWanted = (known: NodePod): known is WantedPod => known.pod !== null && known.ending?.isOrphan !== true;

/** The wanted pod of this name; if there are two, the later pod. */
export const podNamed = (pods: readonly NodePod[], namespace: string, name: string): WantedPod | undefined =>
  pods.filter(isWanted).findLast((known) => known.name === name && known.namespace === namespace);

export const containerSpec = ({ spec }: Pod, name: string): Container | EphemeralContainer | undefined =>
  [...spec.containers, ...(spec.initContainers ?? []), ...(spec.ephemeralContainers ?? [])].find(
    (container) => container.name === name,
  );

/** A value that is immediate on the kernel's thread and asynchronous on other threads. */
export type Awaitable<Value> = Value | Promise<Value>;

/** By name of a check, why it fails, or `null`. */
export type Checks = Readonly<Record<string, () => Awaitable<string | null>>>;

export interface ApiView {
  pods(): Awaitable<readonly NodePod[]>;
  /** The current configuration. Only after the start has read it. */
  configuration(): Awaitable<KubeletConfiguration>;
  readonly checks: Checks;
}

/** The pod of a request, or an error response. As upstream, `uid` is not compared. */
export async function podOf(
  view: ApiView,
  { parameters }: Pick<ApiRequest, 'parameters'>,
): Promise<WantedPod | Answer> {
  const { namespace = '', pod: name = '' } = parameters;
  return podNamed(await view.pods(), namespace, name) ?? text(404, 'pod does not exist');
}

/** Whether a lookup returned an error response instead of a pod. */
export const isAnswer = (value: object): value is Answer => 'status' in value && typeof value.status === 'number';

export const runningContainer = ({ runtime }: NodePod, name: string): ContainerStatus | undefined =>
  runtime?.containers.find(({ metadata, state }) => metadata?.name === name && state === 'CONTAINER_RUNNING');
