/** Pods that this node rejected (each counts once), preempted for critical pods, or evicted. */
import type { EvictionContext } from '../../../../machines/model/eviction/policy.ts';
import { contextOf, type NodeRecord } from '../../../node-records.ts';
import {
  counter,
  DEFAULT_BUCKETS,
  histogram,
  Instruments,
  isPodActor,
  MS_PER_SECOND,
  type Projection,
  type RecordContext,
} from '../instruments.ts';

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
