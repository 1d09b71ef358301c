/**
 * The first line of a pod's story: whether it runs and since when, or the reason of its wait and its last failure.
 * Pure.
 */
import type { ClaimWaitView, PodView, ShownRecord } from '../actors/server/visualizer/protocol.ts';
import type { Lane } from './lanes.ts';
import { duration, lastOf } from './words.ts';

/** `waits for ResourceClaim default/gpu to be prepared by driver gpu.example.test for 41 s (…)` */
export function claimWaitText(wait: ClaimWaitView, now: number): string {
  const { what, claims, drivers, since, failures, error } = wait;
  const claim = claims.length === 0 ? 'its ResourceClaims' : `${plural('ResourceClaim', claims)} ${claims.join(', ')}`;
  const by = drivers.length === 0 ? '' : ` by ${plural('driver', drivers)} ${drivers.join(', ')}`;
  const done = what === 'prepare' ? 'prepared' : 'taken back';
  const times = failures === 1 ? 'failed' : `failed ${failures} times, the last time`;
  const last = error === undefined ? [] : [`${times} ${duration(now - error.t)} ago: ${error.message}`];
  return `waits for ${claim} to be ${done}${by} for ${duration(now - since)} (${[...last, stepText(wait, now)].join('; ')})`;
}

function stepText({ step, what, drivers, stepSince, nextTry }: ClaimWaitView, now: number): string {
  const took = duration(now - stepSince);
  if (step === 'reading') return `the API server has not said for ${took} what they are`;
  if (step === 'calling')
    return `${plural('driver', drivers)} ${drivers.join(', ')} asked ${took} ago, without an answer`;
  if (step === 'pausing')
    return nextTry === undefined ? 'it will be tried again' : `next try in ${duration(Math.max(0, nextTry - now))}`;
  return what === 'prepare' ? `the checkpoint is written for ${took}` : `begun ${took} ago`;
}

const plural = (noun: string, all: readonly unknown[]): string => (all.length === 1 ? noun : `${noun}s`);

export interface PodEvent {
  readonly n: number;
  readonly t: number;
  readonly type: string;
  readonly reason: string;
  readonly message: string;
}

/** The events of a pod, in their order, from the lines in which they are logged. */
export function podEvents({ pod }: PodView, records: readonly ShownRecord[]): readonly PodEvent[] {
  return records.flatMap(({ record, t, n }) => {
    if (record.k !== 'log' || record.text !== 'Event occurred' || !record.fields) return [];
    const { object, kind, type, reason, message } = record.fields;
    if (kind !== 'Pod' || object !== pod) return [];
    return [{ n, t, type: String(type), reason: String(reason), message: String(message) }];
  });
}

/** `now` is the clock of the node. */
export function podAnswer(pod: PodView, lanes: readonly Lane[], events: readonly PodEvent[], now: number): string {
  const { phase, ready, restarts, seen, running, gone } = pod;
  const again = restarts === 0 ? '' : restarts === 1 ? ', restarted once' : `, restarted ${restarts} times`;
  if (gone !== undefined) return `Gone after ${duration(gone - seen)}: it was ${phase}${again}`;
  const ran = running === undefined ? '' : `, ran ${duration(running - seen)} after it was seen`;
  const claims = pod.claims === undefined ? undefined : `: ${claimWaitText(pod.claims, now)}`;
  if (claims !== undefined) return `${phase}${ran}${again}${claims}`;
  if (phase === 'Running' && ready) return `Running and ready${ran}${spent(pod, lanes)}${again}`;
  if (phase === 'Succeeded' || phase === 'Failed')
    return `${phase}${ran}${again}${warning(events, phase === 'Failed')}`;
  const head =
    phase === 'Running' ? `Running, not ready${ran}${again}` : `${phase} for ${duration(now - seen)}${again}`;
  return `${head}${waits(lanes)}${warning(events, true)}`;
}

/** Shares below this tell nothing. */
const SHARE_MIN = 0.1;

/** The longest wait until the pod ran, and its share. */
function spent({ seen, running }: PodView, lanes: readonly Lane[]): string {
  if (running === undefined || running <= seen) return '';
  const waited = lanes.flatMap(({ address, segments }) =>
    segments.flatMap(({ activity, from, to, text, waitsFor }) => {
      const ms = Math.min(to, running) - from;
      const what = `${lastOf(address)} ${waitsFor === undefined ? `was in ${text}` : `waited for ${waitsFor}`}`;
      return activity === 'waiting' && ms > 0 ? [{ ms, what }] : [];
    }),
  );
  const longest = waited.reduce((one, other) => (other.ms > one.ms ? other : one), { ms: 0, what: '' });
  const share = longest.ms / (running - seen);
  return share < SHARE_MIN ? '' : `, ${Math.round(share * 100)}% of it while ${longest.what} (${duration(longest.ms)})`;
}

/** The waits of the pod's actors now, the innermost last. */
function waits(lanes: readonly Lane[]): string {
  const last = lanes.findLast(({ segments }) => segments.at(-1)?.lasts && segments.at(-1)?.activity === 'waiting');
  const { waitsFor, text } = last?.segments.at(-1) ?? {};
  if (!last) return '';
  return `: ${lastOf(last.address)} ${waitsFor === undefined ? `is in ${text}` : `waits for ${waitsFor}`}`;
}

/** A node without a cluster DNS records this event for each pod; it stops no pod. */
const HARMLESS = 'MissingClusterDNS';

/** Events that report a failure without its cause, which an earlier event has. */
const CONSEQUENCE = /^(?:Error: |Back-off )/;

function warning(events: readonly PodEvent[], isWanted: boolean): string {
  if (!isWanted) return '';
  const warnings = events.filter(({ type, reason }) => type === 'Warning' && reason !== HARMLESS);
  const last = warnings.findLast(({ message }) => !CONSEQUENCE.test(message)) ?? warnings.at(-1);
  return last ? ` (${last.reason}: ${last.message})` : '';
}
