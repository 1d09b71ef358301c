/** Shared by the parts of the recorder: access to the kernel's records, and addresses of pods and containers. */
import type { Kernel } from '../../../kernel/kernel.ts';
import type { PodContext } from '../../../machines/charts/pods/pod/pod-context.ts';
import { contextOf, type NodeEffect, type NodeRecord } from '../../node-records.ts';

export const MS_PER_SECOND = 1_000;
export const DEFAULT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Upstream's buckets of pod start durations. */
export const POD_START_BUCKETS = [
  0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
];

/** An unanswered operation of a machine. */
export type UnderWay = Started<NodeEffect>;
type Started<Effect> = Effect extends NodeEffect
  ? Pick<Effect, 'name' | 'input' | 'class'> & { readonly address: string; readonly sinceMs: number }
  : never;

export interface RecordContext {
  readonly kernel: Kernel;
  /** The request that a `result` or `cancel` record ends. */
  readonly request: UnderWay | undefined;
  /** How long the machines took for this turn. */
  readonly turnMs: number;
}

export type RecordKind = NodeRecord['k'];

/** A part of the metrics, derived from the records of turns, in order; `end` closes each turn. */
export interface Projection {
  /** The record kinds that it receives. */
  readonly recordKinds: readonly RecordKind[];
  on(record: NodeRecord, seen: RecordContext): void;
}

const POD = 'kubelet/pods/pod-';

/** The uid of the pod whose actor is at this address or above it; empty without one. */
export function podUidAt(address: string): string {
  if (!address.startsWith(POD)) return '';
  const end = address.indexOf('/', POD.length);
  return address.slice(POD.length, end === -1 ? undefined : end);
}

/** Whether this is the address of a pod's actor itself. */
export const isPodActor = (address: string): boolean => address.startsWith(POD) && !address.includes('/', POD.length);

export const podContext = (address: string, kernel: Kernel): PodContext | undefined =>
  contextOf<PodContext>(kernel, address);

/** The context of the pod's actor, by any address below it. */
export function podContextAt(address: string, kernel: Kernel): PodContext | undefined {
  const uid = podUidAt(address);
  return uid === '' ? undefined : podContext(`${POD}${uid}`, kernel);
}
