/**
 * Metrics of admission: pods that this node rejected (each counts once), preempted for critical pods, or evicted; and
 * resizes by container and resource, with their outcomes and the duration of applying them.
 */
import type { Registry } from 'prom-client';
import type { ResizeRefusal } from '../../../../machines/model/allocation/predicates.ts';
import type { ResourceRequirements } from '../../../../machines/model/api/pod.ts';
import type { EvictionContext } from '../../../../machines/model/eviction/policy.ts';
import type { Allocation } from '../../../../machines/model/operations/grants.ts';
import { nanoOf } from '../../../../machines/model/values/quantity.ts';
import { contextOf, type NodeMessageRecord, type NodeRecord } from '../../../node-records.ts';
import type { Projection, RecordContext } from '../instruments.ts';
import {
  counter,
  DEFAULT_BUCKETS,
  histogram,
  Instruments,
  isPodActor,
  MS_PER_SECOND,
  podUidAt,
} from '../instruments.ts';

/** Upstream's buckets in milliseconds: from 10, with a factor of 2. */
const DURATION_BUCKETS = Array.from({ length: 18 }, (_, power) => 10 * 2 ** power);
const ALLOCATION = 'kubelet/allocation';
/** In the state of a pod's actor after a failed attempt. */
const FAILING = '"resizing":"failing"';
const REQUIREMENTS = ['requests', 'limits'] as const;
/** The resources that may change while a pod runs. */
const RESOURCES = ['cpu', 'memory'] as const;

/** Upstream's labels, by the text of the refusal. */
const DETAILS: readonly (readonly [text: RegExp, detail: string])[] = [
  [/CPU Manager policy/, 'guaranteed_pod_cpu_manager_static_policy'],
  [/Memory Manager policy/, 'guaranteed_pod_memory_manager_static_policy'],
  [/static-pods/, 'static_pod'],
  [/with swap/, 'swap_limitation'],
];

/** By message of a pod, this or another one, why a deferred resize may be granted now. */
const TRIGGERS: Readonly<Record<string, string>> = {
  'allocation.wanted': 'pod_updated',
  'allocation.ended': 'pod_terminated',
  'allocation.released': 'pods_removed',
};

interface Asked {
  allocation: Allocation;
  refusal: ResizeRefusal | null;
}

export class Resizes extends Instruments implements Projection {
  readonly recordKinds = ['message', 'state', 'end'] as const;
  readonly #requests = new Map<string, Asked>();
  /** By pod, the start of applying a granted resize. */
  readonly #working = new Map<string, number>();
  /** The trigger, by the messages to the allocation manager in this turn. */
  #trigger = 'periodic_retry';
  readonly #families = families(this.registry);

  on(record: NodeRecord, { kernel }: RecordContext): void {
    if (record.k === 'message') {
      this.#readMessage(record);
      this.#actuated(record, kernel.now);
    } else if (record.k === 'state' && isPodActor(record.at) && JSON.stringify(record.value).includes(FAILING)) {
      this.#over(podUidAt(record.at), false, kernel.now);
    } else if (record.k === 'end') {
      this.#trigger = 'periodic_retry';
    }
  }

  #readMessage({ to, event }: NodeMessageRecord): void {
    const trigger = to === ALLOCATION ? TRIGGERS[event.type] : undefined;
    if (trigger !== undefined) this.#trigger = trigger;
    if (to === ALLOCATION && event.type === 'allocation.wanted') this.#resourcesRequested(event);
    else if (to === ALLOCATION && event.type === 'allocation.released') this.#requests.delete(event.uid);
    else if (isPodActor(to) && event.type === 'allocation.pending') this.#refused(event.uid, event.refusal);
    else if (isPodActor(to) && event.type === 'allocation.granted') this.#granted(event.uid);
  }

  #resourcesRequested({
    request: { uid },
    allocation,
  }: {
    readonly request: { readonly uid: string };
    allocation: Allocation;
  }): void {
    const before = this.#requests.get(uid);
    this.#requests.set(uid, { allocation, refusal: before?.refusal ?? null });
    if (!before) return;
    for (const [name, resources] of Object.entries(allocation)) {
      if (name !== '') this.#compared(before.allocation[name] ?? {}, resources);
    }
  }

  #compared(before: ResourceRequirements, after: ResourceRequirements): void {
    for (const requirement of REQUIREMENTS) {
      for (const resource of RESOURCES) {
        const operation = operationOf(before[requirement]?.[resource], after[requirement]?.[resource]);
        if (operation !== null) this.#families.requested.inc({ resource, requirement, operation });
      }
    }
  }

  #refused(uid: string, refusal: ResizeRefusal): void {
    const resize = this.#requests.get(uid);
    if (!resize) return;
    const isNew = JSON.stringify(resize.refusal) !== JSON.stringify(refusal);
    resize.refusal = refusal;
    if (isNew && refusal.reason === 'Infeasible') this.#families.infeasible.inc({ reason_detail: detailOf(refusal) });
  }

  #granted(uid: string): void {
    const resize = this.#requests.get(uid);
    if (resize?.refusal?.reason === 'Deferred') this.#families.accepted.inc({ retry_trigger: this.#trigger });
    if (resize) resize.refusal = null;
  }

  /** `softState` receives a message at the start of a resize and at its end. */
  #actuated({ to, event }: NodeMessageRecord, nowMs: number): void {
    if (to !== 'kubelet/softState' || event.type !== 'softState.resized') return;
    const { uid, actuated } = event;
    if (actuated === null) this.#over(uid, true, nowMs);
    else if (!this.#working.has(uid)) this.#working.set(uid, nowMs);
  }

  #over(uid: string, isDone: boolean, nowMs: number): void {
    const sinceMs = this.#working.get(uid);
    this.#working.delete(uid);
    if (sinceMs !== undefined) this.#families.durations.observe({ success: String(isDone) }, nowMs - sinceMs);
  }
}

/** The label of the change, as upstream; `null` if the value does not change. */
function operationOf(before: string | undefined, after: string | undefined): string | null {
  if (before === undefined || after === undefined) {
    if (before === after) return null;
    return before === undefined ? 'add' : 'remove';
  }
  const more = nanoOf(after) - nanoOf(before);
  return more === 0n ? null : more > 0n ? 'increase' : 'decrease';
}

const detailOf = ({ message }: ResizeRefusal): string =>
  DETAILS.find(([text]) => text.test(message))?.[1] ?? 'insufficient_node_allocatable';

const families = (registry: Registry) => ({
  requested: counter(
    registry,
    'kubelet_container_requested_resizes_total',
    "[ALPHA] Number of requested resizes, counted at the container level. Different resources on the same container are counted separately. The 'requirement' label refers to 'memory' or 'limits'; the 'operation' label can be one of 'add', 'remove', 'increase' or 'decrease'.",
    ['resource', 'requirement', 'operation'],
  ),
  infeasible: counter(
    registry,
    'kubelet_pod_infeasible_resizes_total',
    '[ALPHA] Number of infeasible resizes for pods.',
    ['reason_detail'],
  ),
  accepted: counter(
    registry,
    'kubelet_pod_deferred_accepted_resizes_total',
    '[ALPHA] Cumulative number of resizes that were accepted after being deferred.',
    ['retry_trigger'],
  ),
  durations: histogram(
    registry,
    'kubelet_pod_resize_duration_milliseconds',
    '[ALPHA] Duration in milliseconds to actuate a pod resize',
    DURATION_BUCKETS,
    ['success'],
  ),
});

/** The reasons that upstream counts by name. */
const REASONS: ReadonlySet<string> = new Set([
  'AppArmor',
  'Evicted',
  'InitContainerRestartPolicyForbidden',
  'InvalidNodeInfo',
  'NodeShutdown',
  'OutOfcpu',
  'OutOfephemeral-storage',
  'OutOfmemory',
  'OutOfpods',
  'PodFeatureUnsupported',
  'PodLevelResourcesNotSupported',
  'PodOSNotSupported',
  'PodOSSelectorNodeLabelDoesNotMatch',
  'SupplementalGroupsPolicyNotSupported',
  'SysctlForbidden',
  'TopologyAffinityError',
  'UnexpectedAdmissionError',
  'UnexpectedPredicateFailureType',
  'UnknownReason',
  'VolumeAttachmentLimitExceeded',
]);

export class PodAdmission extends Instruments implements Projection {
  readonly recordKinds = ['message'] as const;
  readonly #refused = new Set<string>();
  readonly #rejections = counter(
    this.registry,
    'kubelet_admission_rejections_total',
    '[ALPHA] Cumulative number pod admission rejections by the Kubelet.',
    ['reason'],
  );
  readonly #preemptions = counter(
    this.registry,
    'kubelet_preemptions',
    '[ALPHA] Cumulative number of pod preemptions by preemption resource',
    ['preemption_signal'],
  );

  on(record: NodeRecord): void {
    if (record.k !== 'message') return;
    const { to, event } = record;
    if (event.type === 'allocation.refused' && isPodActor(to)) {
      const { uid, rejection } = event;
      if (this.#refused.has(uid)) return;
      this.#refused.add(uid);
      this.#rejections.inc({ reason: reasonOf(rejection.reason) });
    } else if (event.type === 'pods.kill' && to === 'kubelet/pods') {
      const { shortOf } = event;
      if (shortOf !== undefined) this.#preemptions.inc({ preemption_signal: shortOf });
    } else if (to === 'kubelet/status' && event.type === 'status.removed') {
      this.#refused.delete(event.uid);
    }
  }
}

/**
 * The label of a rejection. A shortage of any other resource counts as a shortage of extended resources; all further
 * reasons have one label.
 */
function reasonOf(reason: string): string {
  if (REASONS.has(reason)) return reason;
  return reason.startsWith('OutOf') ? 'OutOfExtendedResources' : 'Other';
}

const EVICTION = 'kubelet/eviction';

/** The age of the statistics used by evictions. */
export class Evictions extends Instruments implements Projection {
  readonly recordKinds = ['message', 'result'] as const;
  readonly #ages = histogram(
    this.registry,
    'kubelet_eviction_stats_age_seconds',
    '[ALPHA] Time between when stats are collected, and when pod is evicted based on those stats by eviction signal',
    DEFAULT_BUCKETS,
    ['eviction_signal'],
  );
  #counted: EvictionContext['evictions'] = {};
  #observedAtMs: number | undefined;

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'result' && request?.name === 'stats.observe') this.#observedAtMs = request.sinceMs;
    else if (record.k === 'message' && record.from === EVICTION && record.event.type === 'pods.kill') {
      this.#went(contextOf<EvictionContext>(kernel, EVICTION)?.evictions ?? {}, kernel.now);
    }
  }

  /** Observes the signals with more pods than before. Limits of local storage have no signal. */
  #went(evictions: EvictionContext['evictions'], nowMs: number): void {
    for (const [eviction_signal, count] of Object.entries(evictions)) {
      const isNew = count > (this.#counted[eviction_signal] ?? 0) && !eviction_signal.endsWith('fs.limit');
      if (!isNew || this.#observedAtMs === undefined) continue;
      this.#ages.observe({ eviction_signal }, (nowMs - this.#observedAtMs) / MS_PER_SECOND);
    }
    this.#counted = evictions;
  }
}
