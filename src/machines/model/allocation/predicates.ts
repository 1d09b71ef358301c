/**
 * Decides whether a pod is admitted (by the node's fields and its free resources), which pods a critical pod preempts
 * (as few as possible, best-effort ones first, then those closest to the missing amounts), and whether a resize is
 * granted. The checks are upstream's, in its order, with its reasons and texts. Pure.
 *
 * Invariant: an admitted pod is counted with its granted resources, never with those that it requests now.
 *
 * Upstream: pkg/kubelet/lifecycle/predicate.go, pkg/scheduler AdmissionCheck, pkg/kubelet/eviction (Admit),
 * pkg/kubelet/allocation, pkg/kubelet/preemption.
 */
import type { QOSClass, Toleration } from '../api/pod.ts';
import type { PodDemand } from '../operations/grants.ts';
import { podMessages } from '../reasons/reasons.ts';
import type { Taint } from '../values/labels.ts';
import { mismatchOf, tolerates } from './node-match.ts';
import type { AdmissionRequest, NodeView, Rejection, Shortage } from './request.ts';
import { forbiddenSysctl } from './sysctls.ts';

/** All reasons against a pod, in order of precedence. */
export interface Verdict {
  /** A rejection that no preemption can avoid, checked first. */
  readonly early: Rejection | null;
  readonly shortages: readonly Shortage[];
  readonly mismatch: Rejection | null;
  /** A rejection that is checked once there is room. */
  readonly late: Rejection | null;
}

export const checkPredicates = (request: AdmissionRequest, node: NodeView, others: readonly PodDemand[]): Verdict => ({
  early: beforePredicates(request, node),
  shortages: shortagesOf(request.demand, node, others),
  mismatch: mismatchOf(request, node, others),
  late: afterPredicates(request, node),
});

function beforePredicates({ rules, demand }: AdmissionRequest, node: NodeView): Rejection | null {
  const sysctl = forbiddenSysctl(rules.sysctls, rules, node.sysctls);
  return (
    pressureOf(demand, rules.tolerations, node.pressures) ??
    (sysctl === null ? null : { reason: 'SysctlForbidden', message: sysctl }) ??
    (rules.osLabel !== '' && rules.osLabel !== LINUX ? OS_LABEL_MISMATCH : null) ??
    (rules.os !== '' && rules.os !== LINUX ? OS_MISMATCH : null) ??
    (rules.wantsStrictGroups && !node.strictGroups ? STRICT_GROUPS : null)
  );
}

const LINUX = 'linux';
const OS_LABEL_MISMATCH = {
  reason: 'PodOSSelectorNodeLabelDoesNotMatch',
  message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
};
const OS_MISMATCH = {
  reason: 'PodOSNotSupported',
  message: "Failed to admit pod as the OS field doesn't match node OS",
};
const STRICT_GROUPS = {
  reason: 'SupplementalGroupsPolicyNotSupported',
  message: 'SupplementalGroupsPolicy=Strict is not supported in this node',
};
const NO_APP_ARMOR = { reason: 'AppArmor', message: 'Cannot enforce AppArmor: AppArmor is not enabled on the host' };
/** The rejections of pods that need a feature whose gate is off. */
const FEATURE_DISABLED = {
  podLevelResources: {
    reason: 'PodLevelResourcesNotSupported',
    message: 'PodLevelResources feature gate is disabled',
  },
  restartAll: {
    reason: 'PodFeatureUnsupported',
    message: podMessages.lacksFeatures(['RestartAllContainersOnContainerExits']),
  },
  hostNetworkUsers: {
    reason: 'PodFeatureUnsupported',
    message: podMessages.lacksFeatures(['UserNamespacesHostNetworkSupport']),
  },
} as const satisfies Readonly<Record<string, Rejection>>;
const SHUTTING_DOWN = { reason: 'NodeShutdown', message: 'Pod was rejected as the node is shutting down.' };

/** The rejection holds only for this start: after a reboot a static pod may be admitted. */
export const isOfThisStart = ({ rules }: AdmissionRequest, { reason }: Rejection): boolean =>
  rules.isStatic && reason === SHUTTING_DOWN.reason;

const MEMORY_PRESSURE = 'MemoryPressure';
const MEMORY_PRESSURE_TAINT: Taint = { key: 'node.kubernetes.io/memory-pressure', effect: 'NoSchedule' };

/** Under pressure only critical pods are admitted; under memory pressure alone also those that request memory. */
function pressureOf(demand: PodDemand, tolerations: readonly Toleration[], pressures: readonly string[]) {
  if (pressures.length === 0 || demand.isCritical) return null;
  const onlyMemory = pressures.length === 1 && pressures[0] === MEMORY_PRESSURE;
  const toleratesPressure =
    demand.qos !== 'BestEffort' || tolerations.some((each) => tolerates(each, MEMORY_PRESSURE_TAINT));
  if (onlyMemory && toleratesPressure) return null;
  return { reason: 'Evicted', message: `The node had condition: [${pressures.join(' ')}]. ` };
}

function afterPredicates({ rules }: AdmissionRequest, node: NodeView): Rejection | null {
  if (rules.wantsAppArmor && !node.appArmor) return NO_APP_ARMOR;
  if (rules.lacking !== undefined) return FEATURE_DISABLED[rules.lacking];
  return node.isShuttingDown ? SHUTTING_DOWN : null;
}

const FIRST = ['cpu', 'memory', 'ephemeral-storage'];
const STANDARD = new Set([...FIRST, 'pods']);

/** Resources that this node does not know are not checked: other components account for them. */
function shortagesOf({ requests }: PodDemand, { allocatable }: NodeView, others: readonly PodDemand[]): Shortage[] {
  const checkedNames = Object.keys(requests).filter((name) => STANDARD.has(name) || allocatable[name] !== undefined);
  const rest = checkedNames.filter((name) => !STANDARD.has(name)).toSorted();
  const amounts = [...FIRST.filter((name) => checkedNames.includes(name)), ...rest].flatMap((name) => {
    const requested = BigInt(requests[name] ?? '0');
    const used = others.reduce((sum, each) => sum + BigInt(each.requests[name] ?? '0'), 0n);
    const capacity = BigInt(allocatable[name] ?? '0');
    return requested > 0n && requested > capacity - used ? [{ resource: name, requested, used, capacity }] : [];
  });
  const pods = BigInt(allocatable['pods'] ?? '0');
  const used = BigInt(others.length);
  return used + 1n > pods ? [{ resource: 'pods', requested: 1n, used, capacity: pods }, ...amounts] : amounts;
}

const outOf = ({ resource, requested, used, capacity }: Shortage): Rejection => ({
  reason: `OutOf${resource}`,
  message: `Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`,
});

export type Admission =
  | { readonly rejection: Rejection; readonly victims?: undefined; readonly shortOf?: undefined }
  /** Admitted once the victims have ended; `shortOf` is the resource that was short. */
  | { readonly rejection: null; readonly victims: readonly string[]; readonly shortOf?: string };

const refused = (rejection: Rejection): Admission => ({ rejection });

export function admit(request: AdmissionRequest, node: NodeView, active: readonly Candidate[]): Admission {
  const others = active.filter(({ uid }) => uid !== request.uid);
  const { early, shortages, mismatch, late } = checkPredicates(
    request,
    node,
    others.map(({ demand }) => demand),
  );
  if (early !== null) return refused(early);
  const [first] = shortages;
  if (!request.demand.isCritical) {
    return answer((first === undefined ? mismatch : outOf(first)) ?? late, []);
  }
  if (mismatch !== null) return refused(mismatch);
  if (first === undefined) return answer(late, []);
  const preemption = choose(request.demand, others, shortages);
  return 'error' in preemption
    ? refused(unexpected(preemption.error))
    : answer(late, preemption.victims, first.resource);
}

const answer = (rejection: Rejection | null, victims: readonly string[], shortOf?: string): Admission =>
  rejection === null ? { rejection, victims, ...(shortOf === undefined ? {} : { shortOf }) } : { rejection };

const unexpected = (error: string): Rejection => ({
  reason: 'UnexpectedAdmissionError',
  message: `Unexpected error while attempting to recover from admission failure: ${error}`,
});

/** Why a resize is not granted: a `Deferred` one may be granted later, an `Infeasible` one never. */
export interface ResizeRefusal {
  readonly reason: 'Deferred' | 'Infeasible';
  /** The cause, as the event names it. */
  readonly cause: string;
  readonly message: string;
}

export const infeasible = (message: string): ResizeRefusal => ({ reason: 'Infeasible', cause: 'Infeasible', message });

const deferred = ({ reason, message }: Rejection): ResizeRefusal => ({ reason: 'Deferred', cause: reason, message });

/** Whether a pod gets other resources; a critical one may preempt others for them. */
export type ResizeVerdict =
  | { readonly refusal: ResizeRefusal }
  /** Granted once the victims have ended; `shortOf` is the resource that was short. */
  | { readonly refusal: null; readonly victims: readonly string[]; readonly shortOf?: string | undefined };

/** What does not fit may fit later, as upstream: the API server refuses what never fits. */
export function judgeResize(request: AdmissionRequest, node: NodeView, active: readonly Candidate[]): ResizeVerdict {
  if (request.rules.isStatic) return { refusal: STATIC_POD };
  const { rejection, victims = [], shortOf } = admit(request, node, active);
  return rejection === null ? { refusal: null, victims, shortOf } : { refusal: deferred(rejection) };
}

const STATIC_POD = infeasible('In-place resize of static-pods is not supported');

/**
 * The verdict before the behavior `resizesJudgedAsKubelet`. `wholeNode`: allocatable without the eviction reserve, the
 * maximum that pods could have.
 */
export function resize(
  request: AdmissionRequest,
  node: NodeView,
  wholeNode: Readonly<Record<string, string>>,
  active: readonly Candidate[],
): ResizeRefusal | null {
  if (request.rules.isStatic) return STATIC_POD;
  const beyond = ['memory', 'cpu'].find((name) => amount(request.demand, name) > BigInt(wholeNode[name] ?? '0'));
  if (beyond !== undefined) {
    const shortage = `${beyond}, requested: ${amount(request.demand, beyond)}, capacity: ${wholeNode[beyond] ?? '0'}`;
    return infeasible(`Node didn't have enough capacity: ${shortage}`);
  }
  const others = active.filter(({ uid }) => uid !== request.uid).map(({ demand }) => demand);
  const { early, shortages, mismatch, late } = checkPredicates(request, node, others);
  const first = shortages[0] === undefined ? null : outOf(shortages[0]);
  const rejection = early ?? first ?? mismatch ?? late;
  return rejection === null ? null : deferred(rejection);
}

const amount = ({ requests }: PodDemand, name: string): bigint => BigInt(requests[name] ?? '0');

interface Pending {
  readonly request: AdmissionRequest;
  readonly increases: boolean;
  readonly sinceMs: number;
}

const QOS_RANK = { Guaranteed: 0, Burstable: 1, BestEffort: 2 } as const;

/** Resizes that need no more resources come first; then by priority, QoS class, and waiting time. */
export const byUrgency = (a: Pending, b: Pending): number =>
  Number(a.increases) - Number(b.increases) ||
  (b.request.demand.priority ?? 0) - (a.request.demand.priority ?? 0) ||
  QOS_RANK[a.request.demand.qos] - QOS_RANK[b.request.demand.qos] ||
  a.sinceMs - b.sinceMs;

export interface Candidate {
  readonly uid: string;
  readonly demand: PodDemand;
}

/** The amount of a resource that is still missing. */
interface Need {
  readonly resource: string;
  readonly quantity: bigint;
}

export type Preemption = { readonly victims: readonly string[] } | { readonly error: string };

export function choose(
  preemptor: PodDemand,
  candidates: readonly Candidate[],
  shortages: readonly Shortage[],
): Preemption {
  const needs = shortages.map(({ resource, requested, used, capacity }) => ({
    resource,
    quantity: requested - (capacity - used),
  }));
  const candidatesOf = (qos: QOSClass) =>
    candidates.filter(({ demand }) => demand.qos === qos && isPreemptable(preemptor, demand));
  const [bestEffort, burstable, guaranteed] = [
    candidatesOf('BestEffort'),
    candidatesOf('Burstable'),
    candidatesOf('Guaranteed'),
  ];
  const unmet = without(needs, [...bestEffort, ...burstable, ...guaranteed]);
  if (unmet.length > 0) return { error: notFound(unmet) };
  const fromGuaranteed = closest(guaranteed, without(needs, [...bestEffort, ...burstable]));
  const fromBurstable = closest(burstable, without(needs, [...bestEffort, ...fromGuaranteed]));
  const fromBestEffort = closest(bestEffort, without(needs, [...fromBurstable, ...fromGuaranteed]));
  return { victims: [...fromBestEffort, ...fromBurstable, ...fromGuaranteed].map(({ uid }) => uid) };
}

const notFound = (needs: readonly Need[]): string =>
  'preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: ' +
  `[${needs.map(({ resource, quantity }) => `(res: ${resource}, q: ${quantity}), `).join('')}]`;

/** Critical pods preempt pods that are not critical, and critical ones of a lower priority. */
const isPreemptable = (preemptor: PodDemand, other: PodDemand): boolean =>
  (preemptor.isCritical && !other.isCritical) ||
  (preemptor.priority !== null && other.priority !== null && preemptor.priority > other.priority);

const amountOf = ({ demand }: Candidate, resource: string): bigint =>
  resource === 'pods' ? 1n : BigInt(demand.requests[resource] ?? '0');

const without = (needs: readonly Need[], gone: readonly Candidate[]): readonly Need[] =>
  needs
    .map(({ resource, quantity }) => ({
      resource,
      quantity: gone.reduce((rest, candidate) => rest - amountOf(candidate, resource), quantity),
    }))
    .filter(({ quantity }) => quantity > 0n);

/** Repeatedly chooses the pod that leaves the least missing; of equal ones the smaller pod. */
function closest(candidates: readonly Candidate[], needs: readonly Need[]): readonly Candidate[] {
  const chosen: Candidate[] = [];
  const rest = [...candidates];
  for (let open = needs; open.length > 0 && rest.length > 0; open = without(open, chosen.slice(-1))) {
    const best = rest.reduce((found, each) => {
      const difference = distance(each, open) - distance(found, open);
      return difference < 0 || (difference === 0 && isSmaller(each, found)) ? each : found;
    });
    chosen.push(best);
    rest.splice(rest.indexOf(best), 1);
  }
  return chosen;
}

/** The remaining need after a pod, as the sum of squared shares, so that every need counts the same. */
function distance(candidate: Candidate, needs: readonly Need[]): number {
  return needs.reduce((sum, { resource, quantity }) => {
    const open = Number(quantity - amountOf(candidate, resource));
    return open > 0 ? sum + (open / Number(quantity)) ** 2 : sum;
  }, 0);
}

function isSmaller(a: Candidate, b: Candidate): boolean {
  for (const resource of ['memory', 'cpu']) {
    const difference = amountOf(a, resource) - amountOf(b, resource);
    if (difference !== 0n) return difference < 0n;
  }
  return true;
}
