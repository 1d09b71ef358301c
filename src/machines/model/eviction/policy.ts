/**
 * The rules by which the eviction manager decides, and the messages of evictions, whose texts are upstream's, byte for
 * byte. Pure. Upstream: pkg/kubelet/eviction/helpers.go.
 */

import type {
  DiskLayout,
  DiskUse,
  EvictionThreshold,
  Observations,
  PodUse,
  StatsPlace,
  StorageExceeded,
  StorageLimits,
} from '../operations/stats.ts';
import { type Decider, hasBehavior } from '../settings/behaviors.ts';
import type { EvictionSettings } from '../settings/node-settings.ts';
import { formatBinary, fromWhole, nanoOf } from '../values/quantity.ts';
import { valueIn } from '../values/tables.ts';
import { amountOf, type Candidate, type NodePod, rankedForEviction, reclaimable } from './ranking.ts';
import type { ObservedAt, PressureCondition, Shortage, StarvedResource } from './thresholds.ts';
import {
  amountText,
  conditionsObserved,
  metThresholds,
  mostUrgent,
  nextGraceAtMs,
  reportedConditions,
  resourceOf,
  shortageOf,
  thresholdsAt,
  thresholdText,
  withContainerFs,
} from './thresholds.ts';

export interface EvictionContext {
  readonly settings: EvictionSettings;
  readonly place: StatsPlace;
  readonly nodeName: string;
  readonly layout: DiskLayout | null;
  /** The thresholds of the settings, plus derived ones once the layout of file systems is known. */
  readonly thresholds: readonly EvictionThreshold[];
  readonly shortage: Shortage;
  readonly observedAt: ObservedAt;
  readonly conditions: readonly PressureCondition[];
  readonly observations: Observations;
  readonly uses: readonly PodUse[];
  readonly pods: Readonly<Record<string, NodePod>>;
  readonly ordered: readonly string[];
  /** The pod whose end the next turn awaits. */
  readonly victim: string | null;
  /** By signal, how many pods were evicted. */
  readonly evictions: Readonly<Record<string, number>>;
  /** Turns without an effect since the last change: each one makes the next wait longer. */
  readonly idleTurns: number;
  /** The signals cannot be read. */
  readonly failing: boolean;
  /** A soft eviction leaves a pod no more time than its specification does; absent: it may leave more. */
  readonly boundsGrace?: true;
  /** The first observation is reported also without a shortage: an earlier start may have reported one. */
  readonly reportsFirst?: true;
}

const NO_SHORTAGE: Shortage = { metSince: {}, due: [] };

export const initialEviction = (settings: EvictionSettings, place: StatsPlace, decider: Decider): EvictionContext => ({
  ...(hasBehavior(decider, 'softGraceAsKubelet') ? { boundsGrace: true } : {}),
  ...(hasBehavior(decider, 'managersAsKubelet') ? { reportsFirst: true } : {}),
  settings,
  place,
  nodeName: place.nodeName,
  layout: null,
  thresholds: settings.thresholds,
  shortage: NO_SHORTAGE,
  observedAt: {},
  conditions: [],
  observations: {},
  uses: [],
  pods: {},
  ordered: [],
  victim: null,
  evictions: {},
  idleTurns: 0,
  failing: false,
});

export function observed(
  context: EvictionContext,
  observations: Observations,
  nowMs: number,
): Pick<EvictionContext, 'shortage' | 'observedAt' | 'conditions' | 'observations'> {
  const { thresholds, settings } = context;
  const shortage = shortageOf(thresholds, observations, context.shortage, nowMs);
  const lastingUntilNow = { metSince: { ...context.shortage.metSince, ...shortage.metSince }, due: [] };
  const observedAt = conditionsObserved(thresholds, lastingUntilNow, context.observedAt, nowMs);
  const conditions = reportedConditions(thresholds, shortage, observedAt, settings.transitionMs, nowMs);
  return { shortage, observedAt, conditions, observations };
}

/** Re-evaluates the last observation at a later time: a condition may have ended, a grace period may be over. */
export const reevaluated = (context: EvictionContext, nowMs: number) => observed(context, context.observations, nowMs);

export const located = ({ settings }: EvictionContext, layout: DiskLayout) => ({
  layout,
  thresholds: withContainerFs(settings.thresholds, layout),
});

/** The most urgent threshold to act on; `null` if there is none. */
export const target = ({ thresholds, shortage }: EvictionContext): EvictionThreshold | null =>
  mostUrgent(thresholds, shortage.due);

export const dueThresholds = ({ thresholds, shortage }: EvictionContext): readonly EvictionThreshold[] =>
  thresholdsAt(thresholds, shortage.due);

export const graceAtMs = ({ thresholds, shortage }: EvictionContext): number | null =>
  nextGraceAtMs(thresholds, shortage);

/** The end of the next condition that is reported only because of its transition period; `null` if there is none. */
export function reliefAtMs({ conditions, observedAt, settings, thresholds, shortage }: EvictionContext): number | null {
  const lasting = new Set(reportedConditions(thresholds, shortage, {}, 0, 0));
  const ends = conditions.flatMap((each) =>
    lasting.has(each) ? [] : [(observedAt[each] ?? 0) + settings.transitionMs],
  );
  return ends.length === 0 ? null : Math.min(...ends);
}

const LAYOUT: DiskLayout = { dedicatedImageFs: false, splitContainerFs: false };
const layoutOf = ({ layout }: EvictionContext): DiskLayout => layout ?? LAYOUT;

export function reclaims(context: EvictionContext): { readonly containers: boolean; readonly images: boolean } {
  const threshold = target(context);
  return threshold === null ? { containers: false, images: false } : reclaimable(threshold.signal, layoutOf(context));
}

/** Signals were read since the start. */
export const hasObserved = ({ observations }: EvictionContext): boolean => Object.keys(observations).length > 0;

/** No threshold is met any more, with minimums reclaimed. */
export const isCleared = ({ thresholds, observations }: EvictionContext): boolean =>
  metThresholds(thresholds, observations, true).length === 0;

/** All pods that may be evicted, in order. */
export function candidates(context: EvictionContext): readonly Candidate[] {
  const threshold = target(context);
  if (threshold === null) return [];
  const uses = new Map(context.uses.map((use) => [use.uid, use]));
  const open = Object.entries(context.pods).filter(([uid]) => !context.ordered.includes(uid));
  const all = open.map(([uid, pod]): Candidate => ({ uid, pod, use: uses.get(uid) ?? null }));
  return rankedForEviction(all, threshold.signal, layoutOf(context));
}

export const counted = (evictions: EvictionContext['evictions'], signal: string) => ({
  ...evictions,
  [signal]: (evictions[signal] ?? 0) + 1,
});

/** To `nodeStatus` and `allocation`. */
export interface ConditionsChanged {
  readonly type: 'eviction.conditions';
  readonly conditions: readonly PressureCondition[];
}

/** The messages of evictions. Texts are upstream's, byte for byte. Upstream: pkg/kubelet/eviction/helpers.go. */
export interface EvictionMessage {
  readonly message: string;
  readonly annotations: Readonly<Record<string, string>>;
}

interface Why {
  readonly resource: StarvedResource;
  readonly due: readonly EvictionThreshold[];
  readonly observations: Observations;
}

export function evictionMessage({ pod, use }: Candidate, why: Why): EvictionMessage {
  const { resource } = why;
  const containers = use === null ? [] : exceedingContainers(pod, use, resource);
  const parts = [
    `The node was low on resource: ${resource}. `,
    thresholdSentence(why),
    ...(use === null ? [] : podSentence(pod, use, resource)),
    ...containers.map(
      ({ name, used, asked }) =>
        `Container ${name} was using ${used}, request is ${asked}, has larger consumption of ${resource}. `,
    ),
  ];
  if (use === null) return { message: parts.join(''), annotations: {} };
  const annotations = {
    ...podAnnotations(pod, use, resource),
    offending_containers: containers.map(({ name }) => name).join(','),
    offending_containers_usage: containers.map(({ used }) => used).join(','),
    starved_resource: resource,
  };
  return { message: parts.join(''), annotations };
}

function thresholdSentence({ resource, due, observations }: Why): string {
  for (const threshold of due) {
    const observed = observations[threshold.signal];
    if (resourceOf(threshold.signal) !== resource || observed === undefined) continue;
    const available = amountText(threshold.signal, BigInt(observed.available));
    return `Threshold quantity: ${thresholdText(threshold, observed)}, available: ${available}. `;
  }
  return '';
}

const bytesText = (bytes: bigint): string => formatBinary(fromWhole(bytes));

function podMemory({ podMemoryRequest }: NodePod, use: PodUse, resource: StarvedResource): string | null {
  if (resource !== 'memory' || podMemoryRequest === null || use.workingSetBytes === null) return null;
  return bytesText(BigInt(use.workingSetBytes));
}

function podSentence(pod: NodePod, use: PodUse, resource: StarvedResource): string[] {
  const used = podMemory(pod, use, resource);
  if (used === null) return [];
  return [
    `Pod ${pod.name} was using ${used}, request is ${pod.podMemoryRequest}, has larger consumption of ${resource}. `,
  ];
}

function podAnnotations(pod: NodePod, use: PodUse, resource: StarvedResource): Record<string, string> {
  const used = podMemory(pod, use, resource);
  return used === null ? {} : { offending_pod: pod.name, offending_pod_usage: used };
}

interface Exceeding {
  readonly name: string;
  readonly used: string;
  readonly asked: string;
}

function exceedingContainers(pod: NodePod, use: PodUse, resource: StarvedResource): Exceeding[] {
  return use.containers.flatMap(({ name, workingSetBytes, rootfs, logs }) => {
    const requests = valueIn(pod.containerRequests, name);
    if (requests === undefined) return [];
    const request = requests[resource] ?? '0';
    const used = containerUse(resource, workingSetBytes, rootfs, logs);
    if (used === null || fromWhole(used) <= nanoOf(request)) return [];
    return [{ name, used: bytesText(used), asked: request }];
  });
}

function containerUse(
  resource: StarvedResource,
  workingSetBytes: string | null,
  rootfs: DiskUse | null,
  logs: DiskUse | null,
): bigint | null {
  if (resource === 'memory') return workingSetBytes === null ? null : BigInt(workingSetBytes);
  if (resource !== 'ephemeral-storage' || rootfs === null || logs === null) return null;
  return amountOf(rootfs, 'bytes') + amountOf(logs, 'bytes');
}

/** The messages for a pod that exceeds its local storage. Texts are upstream's, byte for byte. */
export function storageMessage({ kind, name }: StorageExceeded, limits: StorageLimits): string {
  if (kind === 'emptyDir')
    return `Usage of EmptyDir volume "${name}" exceeds the limit "${valueIn(limits.emptyDirs, name)}". `;
  if (kind === 'pod') return `Pod ephemeral local storage usage exceeds the total limit of containers ${limits.pod}. `;
  return `Container ${name} exceeded its local ephemeral storage limit "${valueIn(limits.containers, name)}". `;
}
