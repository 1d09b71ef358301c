/**
 * Decides whether this node admits a pod: upstream's admission checks in order, with its reasons and texts. Pure.
 *
 * Upstream: pkg/kubelet/lifecycle/predicate.go, pkg/scheduler AdmissionCheck, pkg/kubelet/eviction (Admit).
 */

import type { Toleration } from '../api/pod.ts';
import type { PodDemand } from '../operations/grants.ts';
import { mismatchOf, tolerates } from './node-match.ts';
import type { NodeView, Rejection, Shortage, Taint } from './node-view.ts';
import type { AdmissionRequest } from './request.ts';
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
    message: 'Pod requires node features that are not available: RestartAllContainersOnContainerExits',
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

export const outOf = ({ resource, requested, used, capacity }: Shortage): Rejection => ({
  reason: `OutOf${resource}`,
  message: `Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`,
});
