/** Dynamic resources: how long the claims of pods take, and which are in use. Upstream: pkg/kubelet/metrics. */
import type { Registry } from 'prom-client';
import type { DraManagerContext } from '../../../../machines/charts/node/dra/dra-setup.ts';
import type { NodeRecord } from '../../../node-records.ts';
import type { NodeView } from '../../node-view.ts';
import { type Family, gaugeOf, one } from '../family.ts';
import { histogram } from '../instruments.ts';
import { MS_PER_SECOND, type Projection, type Seen } from '../projection.ts';

/** Upstream's: 15 from 0.1 to 40 seconds, each as many times the one before. */
const [FIRST_BUCKET, LAST_BUCKET, BUCKETS] = [0.1, 40, 15];
export const CLAIM_BUCKETS = Array.from(
  { length: BUCKETS },
  (_, at) => FIRST_BUCKET * (LAST_BUCKET / FIRST_BUCKET) ** (at / (BUCKETS - 1)),
);

const DURATIONS =
  '[ALPHA] Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod when the pod ' +
  'starts or stops. Identified by the name of the operation (PrepareResources or UnprepareResources) and separated by ' +
  "the success of the operation. The number of failed operations is provided through the histogram's overall count.";

/** By message to `draManager`, and by its answer. */
const BEGINS: Readonly<Record<string, string>> = {
  'claims.wanted': 'PrepareResources',
  'claims.released': 'UnprepareResources',
};
const ENDS: Readonly<Record<string, readonly [operation: string, isError: boolean]>> = {
  'claims.prepared': ['PrepareResources', false],
  'claims.failed': ['PrepareResources', true],
  'claims.unprepared': ['UnprepareResources', false],
  'claims.stillPrepared': ['UnprepareResources', true],
};

export class ClaimWork implements Projection {
  readonly hears = ['message'] as const;
  readonly #durations;
  /** By operation and uid of a pod, when it was asked for. */
  readonly #begun = new Map<string, number>();

  constructor(registry: Registry) {
    const labels = ['operation_name', 'is_error'];
    this.#durations = histogram(registry, 'dra_operations_duration_seconds', DURATIONS, CLAIM_BUCKETS, labels);
  }

  on(record: NodeRecord, { kernel }: Seen): void {
    if (record.k !== 'message' || !record.event.type.startsWith('claims.')) return;
    const { type } = record.event;
    const uid = 'uid' in record.event && typeof record.event.uid === 'string' ? record.event.uid : '';
    const begins = BEGINS[type];
    if (begins !== undefined) this.#begun.set(`${begins} ${uid}`, kernel.now);
    const [operation = '', isError = false] = ENDS[type] ?? [];
    const sinceMs = this.#begun.get(`${operation} ${uid}`);
    if (sinceMs === undefined) return;
    this.#begun.delete(`${operation} ${uid}`);
    const labels = { operation_name: operation, is_error: String(isError) };
    this.#durations.observe(labels, (kernel.now - sinceMs) / MS_PER_SECOND);
  }
}

const IN_USE =
  '[ALPHA] The number of ResourceClaims that are currently in use on the node, by driver name (driver_name label value) ' +
  'and across all drivers (special value <any> for driver_name). Note that the sum of all by-driver counts is not the ' +
  'total number of in-use ResourceClaims because the same ResourceClaim might use devices from different drivers. ' +
  'Instead, use the count for the <any> driver_name.';

export function claimGauge(view: Pick<NodeView, 'contexts'>): Family {
  const [context] = view.contexts('kubelet/draManager') as readonly DraManagerContext[];
  const prepared = Object.values(context?.cache ?? {}).filter(({ isPrepared }) => isPrepared);
  const drivers = [...new Set(prepared.flatMap((entry) => Object.keys(entry.drivers)))].toSorted();
  const of = (driver: string) => prepared.filter((entry) => entry.drivers[driver] !== undefined).length;
  return gaugeOf('dra_resource_claims_in_use', IN_USE, [
    one(prepared.length, { driver_name: '<any>' }),
    ...drivers.map((driver) => one(of(driver), { driver_name: driver })),
  ]);
}
