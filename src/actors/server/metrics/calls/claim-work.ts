/** Dynamic resources: durations of claim operations, and claims in use. Upstream: pkg/kubelet/metrics. */
import type { Registry } from 'prom-client';
import type { DraManagerContext } from '../../../../machines/charts/node/dra/dra-setup.ts';
import type { NodeRecord } from '../../../node-records.ts';
import type { NodeView } from '../../node-view.ts';
import { type Family, gaugeOf, one } from '../family.ts';
import { histogram } from '../instruments.ts';
import { MS_PER_SECOND, type Projection, podUidAt, type RecordContext } from '../projection.ts';

/** Upstream's: 15 buckets from 0.1 to 40 seconds, in equal ratios. */
const [FIRST_BUCKET, LAST_BUCKET, BUCKETS] = [0.1, 40, 15];
export const CLAIM_BUCKETS = Array.from(
  { length: BUCKETS },
  (_, at) => FIRST_BUCKET * (LAST_BUCKET / FIRST_BUCKET) ** (at / (BUCKETS - 1)),
);

const DURATIONS =
  '[ALPHA] Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod when the pod ' +
  'starts or stops. Identified by the name of the operation (PrepareResources or UnprepareResources) and separated by ' +
  "the success of the operation. The number of failed operations is provided through the histogram's overall count.";

type Operation = 'Prepare' | 'Unprepare';

/** By message to `draManager`, and by its answer. */
const BEGINS: Readonly<Record<string, Operation>> = { 'claims.wanted': 'Prepare', 'claims.released': 'Unprepare' };
const ENDS: Readonly<Record<string, readonly [operation: Operation, isError: boolean]>> = {
  'claims.prepared': ['Prepare', false],
  'claims.failed': ['Prepare', true],
  'claims.unprepared': ['Unprepare', false],
  'claims.stillPrepared': ['Unprepare', true],
};

export class ClaimWork implements Projection {
  readonly recordKinds = ['message', 'effect'] as const;
  readonly #durations;
  /** Uids of pods with claims. */
  readonly #claimed = new Set<string>();
  /** By operation and uid of a pod, the time of the request. */
  readonly #begun = new Map<string, number>();

  constructor(registry: Registry) {
    const labels = ['operation_name', 'is_error'];
    this.#durations = histogram(registry, 'dra_operations_duration_seconds', DURATIONS, CLAIM_BUCKETS, labels);
  }

  on(record: NodeRecord, { kernel }: RecordContext): void {
    if (record.k === 'effect' && record.name === 'cri.runPodSandbox') this.#without('Prepare', podUidAt(record.at));
    if (record.k !== 'message') return;
    const { event } = record;
    if (event.type === 'claims.wanted') this.#claimed.add(event.uid);
    if (event.type === 'status.removed') {
      this.#without('Unprepare', event.uid);
      this.#claimed.delete(event.uid);
    } else if (event.type in BEGINS || event.type in ENDS) this.#follow(event, kernel.now);
  }

  /** A pod without claims has nothing to prepare; upstream measures that as well. */
  #without(operation: Operation, uid: string): void {
    if (!this.#claimed.has(uid)) this.#observe(operation, false, 0);
  }

  #follow({ type, uid }: { readonly type: string; readonly uid?: string }, nowMs: number): void {
    const begins = BEGINS[type];
    if (begins !== undefined) this.#begun.set(`${begins} ${uid}`, nowMs);
    const [operation, isError = false] = ENDS[type] ?? [];
    const sinceMs = this.#begun.get(`${operation} ${uid}`);
    if (operation === undefined || sinceMs === undefined) return;
    this.#begun.delete(`${operation} ${uid}`);
    this.#observe(operation, isError, nowMs - sinceMs);
  }

  #observe(operation: Operation, isError: boolean, ms: number): void {
    this.#durations.observe({ operation_name: `${operation}Resources`, is_error: String(isError) }, ms / MS_PER_SECOND);
  }
}

const IN_USE =
  '[ALPHA] The number of ResourceClaims that are currently in use on the node, by driver name (driver_name label value) ' +
  'and across all drivers (special value <any> for driver_name). Note that the sum of all by-driver counts is not the ' +
  'total number of in-use ResourceClaims because the same ResourceClaim might use devices from different drivers. ' +
  'Instead, use the count for the <any> driver_name.';

export function claimGauge(view: Pick<NodeView, 'contexts'>): Family {
  const [context] = view.contexts<DraManagerContext>('kubelet/draManager');
  const prepared = Object.values(context?.cache ?? {}).filter(({ isPrepared }) => isPrepared);
  const drivers = [...new Set(prepared.flatMap((entry) => Object.keys(entry.drivers)))].toSorted();
  const of = (driver: string) => prepared.filter((entry) => Object.hasOwn(entry.drivers, driver)).length;
  return gaugeOf('dra_resource_claims_in_use', IN_USE, [
    one(prepared.length, { driver_name: '<any>' }),
    ...drivers.map((driver) => one(of(driver), { driver_name: driver })),
  ]);
}
