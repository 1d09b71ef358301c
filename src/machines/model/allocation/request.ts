/**
 * The facts about a pod and about this node that admission needs, its answers, and the resources that an admitted pod
 * holds. Pure.
 *
 * Only the request is sent; the pod itself stays with its actor. Amounts are decimal text: thousandths of a CPU, whole
 * units of everything else.
 */

import {
  type Container,
  isStaticPod,
  type Pod,
  type PodRef,
  type ResourceRequirements,
  type Toleration,
} from '../api/pod.ts';
import type { Allocation, HostPort, PodDemand } from '../operations/grants.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import type { AdmissionSettings, NodeSettings } from '../settings/node-settings.ts';
import { hasPodLevelResources, podContainers, podQOS } from '../spec/qos.ts';
import { exclusiveCount, isCritical, isSidecar, podOverhead, podRequests } from '../spec/resources.ts';
import { mayRestartAll } from '../spec/restart.ts';
import { wantsAppArmor } from '../spec/security.ts';
import type { Taint } from '../values/labels.ts';
import { milliUnits, type Nano, nanoOf, wholeUnits } from '../values/quantity.ts';
import { valueIn } from '../values/tables.ts';
import { pinnedMemory } from './memory-manager.ts';
import type { SysctlSettings } from './sysctls.ts';

/** Requirements of a pod beyond resources. */
export interface PodRules {
  readonly nodeName: string;
  readonly isStatic: boolean;
  /** `spec.os.name`; empty: any. */
  readonly os: string;
  /** The node's label `kubernetes.io/os` that it requires; empty: none. */
  readonly osLabel: string;
  readonly nodeSelector: Readonly<Record<string, string>>;
  /** Terms of the required node affinity; `null` if it has none. */
  readonly nodeAffinity: readonly NodeTerm[] | null;
  readonly tolerations: readonly Toleration[];
  readonly sysctls: readonly string[];
  readonly hostNetwork: boolean;
  readonly hostIPC: boolean;
  readonly wantsAppArmor: boolean;
  readonly wantsStrictGroups: boolean;
  /** A feature that the pod uses although its gate is off on this node; absent: none. */
  readonly lacking?: DisabledFeature;
}

/** `hostNetworkUsers`: users of its own in the network of the machine, which this agent does not offer. */
type DisabledFeature = NonNullable<AdmissionSettings['lacks']>[number] | 'hostNetworkUsers';

export interface NodeRequirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

export interface NodeTerm {
  readonly matchExpressions?: readonly NodeRequirement[];
  readonly matchFields?: readonly NodeRequirement[];
}

export interface AdmissionRequest extends PodRef {
  readonly demand: PodDemand;
  readonly rules: PodRules;
  /** Containers that get exclusive resources, in start order; absent: none. */
  readonly containers?: readonly ExclusiveRequest[];
  /**
   * Containers whose swap depends on their memory request, which therefore cannot change while they run; absent: none.
   */
  readonly swapping?: readonly string[];
}

const OS_LABEL = 'kubernetes.io/os';

type NodeFacts = Partial<Pick<NodeSettings, 'behavior'>> &
  Pick<NodeSettings, 'admission' | 'limitedSwapBytes' | 'swapControllerAvailable' | 'cgroupVersion'>;

export const admissionRequest = (pod: Pod, node: NodeFacts = {}): AdmissionRequest => ({
  uid: pod.metadata.uid,
  namespace: pod.metadata.namespace,
  name: pod.metadata.name,
  demand: demandOf(pod),
  rules: { ...rulesOf(pod), ...disabledFeatureOf(pod, node) },
  ...exclusiveRequestsOf(pod, node),
  ...swappingOf(pod, node),
});

/** The first feature in upstream's order whose gate is off. */
function disabledFeatureOf(pod: Pod, node: NodeFacts): Pick<PodRules, 'lacking'> {
  const lacking = node.admission?.lacks?.find((each) =>
    each === 'podLevelResources' ? hasPodLevelResources(pod.spec.resources) : mayRestartAll(pod),
  );
  if (lacking !== undefined) return { lacking };
  return needsHostNetworkUsers(pod, node) ? { lacking: 'hostNetworkUsers' } : {};
}

const needsHostNetworkUsers = ({ spec }: Pod, { admission, behavior = 0 }: NodeFacts): boolean =>
  spec.hostNetwork === true &&
  spec.hostUsers === false &&
  admission?.ignoresNeeds !== true &&
  hasBehavior({ behavior }, 'podDetailsAsKubelet');

/** Containers that may swap. A resize that restarts a container changes its swap limit. */
function swappingOf(pod: Pod, node: NodeFacts): Pick<AdmissionRequest, 'swapping'> {
  const canSwap = node.limitedSwapBytes !== undefined && node.swapControllerAvailable && node.cgroupVersion === 2;
  if (!canSwap || isCritical(pod)) return {};
  const swapping = podContainers(pod).filter(
    ({ resizePolicy = [] }) =>
      resizePolicy.find(({ resourceName }) => resourceName === 'memory')?.restartPolicy !== 'RestartContainer',
  );
  return { swapping: swapping.map(({ name }) => name) };
}

function exclusiveRequestsOf(pod: Pod, node: Pick<NodeSettings, 'admission'>): Pick<AdmissionRequest, 'containers'> {
  const containers = exclusiveRequests(pod, node);
  return containers.length === 0 ? {} : { containers };
}

export function demandOf(pod: Pod): PodDemand {
  const overhead = podOverhead(pod);
  const requests = podRequests(pod);
  const names = [...new Set([...Object.keys(requests), ...Object.keys(overhead)])].toSorted();
  const total = (name: string): Nano => (requests[name] ?? 0n) + (overhead[name] ?? 0n);
  return {
    requests: Object.fromEntries(names.map((name) => [name, units(name, total(name))])),
    ports: hostPorts(pod),
    qos: podQOS(pod),
    priority: pod.spec.priority ?? null,
    isCritical: isCritical(pod),
  };
}

export const units = (name: string, amount: Nano): string =>
  String(name === 'cpu' ? milliUnits(amount) : wholeUnits(amount));

/** Host ports of containers and sidecars; init containers have ended before others need theirs. */
function hostPorts({ spec }: Pod): readonly HostPort[] {
  return [...spec.containers, ...(spec.initContainers ?? []).filter(isSidecar)].flatMap(({ ports = [] }) =>
    ports.flatMap(({ hostIP, hostPort, protocol }) =>
      hostPort === undefined || hostPort === 0
        ? []
        : [{ ip: hostIP || ANY_ADDRESS, protocol: protocol ?? 'TCP', port: hostPort }],
    ),
  );
}

export const ANY_ADDRESS = '0.0.0.0';

function rulesOf(pod: Pod): PodRules {
  const { spec, metadata } = pod;
  const required = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return {
    nodeName: spec.nodeName ?? '',
    isStatic: isStaticPod(pod),
    os: spec.os?.name ?? '',
    osLabel: metadata.labels?.[OS_LABEL] ?? '',
    nodeSelector: spec.nodeSelector ?? {},
    nodeAffinity: required === undefined ? null : required.nodeSelectorTerms,
    tolerations: spec.tolerations ?? [],
    sysctls: (spec.securityContext?.sysctls ?? []).map(({ name }) => name),
    hostNetwork: spec.hostNetwork === true,
    hostIPC: spec.hostIPC === true,
    wantsAppArmor: wantsAppArmor(pod),
    wantsStrictGroups: spec.securityContext?.supplementalGroupsPolicy === 'Strict',
  };
}

export const WHOLE_POD = '';

/** Resources of containers that can be resized: all but ephemeral ones. */
export const allocationOf = ({ spec }: Pod): Allocation => ({
  ...(spec.resources === undefined ? {} : { [WHOLE_POD]: spec.resources }),
  ...Object.fromEntries(
    [...spec.containers, ...(spec.initContainers ?? [])].map(({ name, resources = {} }) => [name, resources]),
  ),
});

/**
 * The granted resources for the current pod: a changed manifest may have other containers without a resize. New
 * containers are granted their requests at once.
 */
export function carriedOver(before: Allocation, after: Allocation): Allocation {
  const ofContainers = Object.entries(after).filter(([name]) => name !== WHOLE_POD);
  return {
    ...(before[WHOLE_POD] === undefined ? {} : { [WHOLE_POD]: before[WHOLE_POD] }),
    ...Object.fromEntries(ofContainers.map(([name, resources]) => [name, valueIn(before, name) ?? resources])),
  };
}

/** The pod with its granted resources instead of the requested ones. */
export function withAllocation(pod: Pod, allocation: Allocation | null): Pod {
  if (allocation === null) return pod;
  const given = <Container extends { readonly name: string; readonly resources?: ResourceRequirements }>(
    container: Container,
  ): Container => {
    const resources = valueIn(allocation, container.name);
    const isSame = JSON.stringify(resources) === JSON.stringify(container.resources ?? {});
    return resources === undefined || isSame ? container : { ...container, resources };
  };
  const { initContainers, containers, resources: _asked, ...spec } = pod.spec;
  const whole = allocation[WHOLE_POD];
  return {
    ...pod,
    spec: {
      ...spec,
      ...(whole === undefined ? {} : { resources: whole }),
      containers: containers.map(given),
      ...(initContainers === undefined ? {} : { initContainers: initContainers.map(given) }),
    },
  };
}

/** Exclusive resources of one container: whole CPUs, memory of chosen NUMA nodes, devices. Pure. */
export interface ExclusiveRequest {
  readonly container: string;
  /** The container ends before the next one starts. */
  readonly isInit: boolean;
  /** Number of exclusive CPUs; absent: it uses shared CPUs. */
  readonly cpus?: number;
  /** Bytes by resource (`memory`, `hugepages-2Mi`) from chosen NUMA nodes; absent: from any. */
  readonly memory?: Readonly<Record<string, string>>;
  /** Number of devices by resource that a plugin may offer; absent: none. */
  readonly devices?: Readonly<Record<string, number>>;
}

/** Containers that get exclusive resources, in start order. */
export function exclusiveRequests(
  pod: Pod,
  { admission }: Pick<NodeSettings, 'admission'>,
): readonly ExclusiveRequest[] {
  const inits = pod.spec.initContainers ?? [];
  return podContainers(pod).flatMap((container) => {
    const cpus = exclusiveCount(pod, container);
    const memory = admission?.memoryManager === undefined ? null : pinnedMemory(pod, container);
    const devices = extendedResources(container);
    const hasDevices = Object.keys(devices).length > 0;
    if (cpus === 0 && memory === null && !hasDevices) return [];
    return [
      {
        container: container.name,
        isInit: inits.includes(container) && !isSidecar(container),
        ...(cpus === 0 ? {} : { cpus }),
        ...(memory === null ? {} : { memory }),
        ...(hasDevices ? { devices } : {}),
      },
    ];
  });
}

/** Resources outside of the `kubernetes.io` domain, which plugins may offer. Upstream: IsExtendedResourceName. */
export const isExtendedResource = (name: string): boolean =>
  name.includes('/') && !name.includes('kubernetes.io/') && !name.startsWith('requests.');

/** Extended resources are never overcommitted: the limit is the request. */
const extendedResources = ({ resources }: Container): Readonly<Record<string, number>> =>
  Object.fromEntries(
    Object.entries(resources?.limits ?? {})
      .filter(([name]) => isExtendedResource(name))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, amount]) => [name, Number(wholeUnits(nanoOf(amount)))]),
  );

/** The facts about this node that admission needs. */
export interface NodeView {
  readonly nodeName: string;
  /** Allocatable amounts in the units of a demand; `pods` is one of them. */
  readonly allocatable: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  readonly sysctls: SysctlSettings;
  readonly appArmor: boolean;
  /** The runtime sets exactly the supplemental groups of a pod's specification. */
  readonly strictGroups: boolean;
  /** Conditions under which fewer pods are admitted: `MemoryPressure`, `DiskPressure`, `PIDPressure`. */
  readonly pressures: readonly string[];
  readonly isShuttingDown: boolean;
}

export interface Rejection {
  readonly reason: string;
  readonly message: string;
}

/** A resource with too little left. */
export interface Shortage {
  readonly resource: string;
  readonly requested: bigint;
  readonly used: bigint;
  readonly capacity: bigint;
}
