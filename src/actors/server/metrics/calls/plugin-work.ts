/**
 * Calls to plugins: CSI and resource drivers, registrations of device plugins, and allocated devices. Dynamic
 * resources: durations of claim operations, and claims in use. Upstream: pkg/kubelet/metrics.
 */
import type { Registry } from 'prom-client';
import type { DraManagerContext } from '../../../../machines/charts/node/dra/dra-setup.ts';
import type { PluginInfo } from '../../../../machines/model/operations/plugins.ts';
import { endpointOf } from '../../../../machines/model/operations/plugins.ts';
import type { OnPluginRun } from '../../../image/plugin.ts';
import type { NodeRecord } from '../../../node-records.ts';
import { type PluginCall, pluginCalls } from '../../../plugins/connection.ts';
import type { NodeView } from '../../node-view.ts';
import {
  counter,
  DEFAULT_BUCKETS,
  type Family,
  gaugeOf,
  histogram,
  Instruments,
  MS_PER_SECOND,
  one,
  type Projection,
  podUidAt,
  type RecordContext,
} from '../instruments.ts';

const CSI_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600];
const CSI = '/csi.v1.';
const DRA = '/k8s.io.kubelet.pkg.apis.dra.';

interface PluginContext {
  readonly socket: string;
  readonly info: PluginInfo | null;
}

/** Counts calls of CSI drivers and resource drivers from now on. */
export function countDriverCalls(registry: Registry, view: Pick<NodeView, 'contexts'>): void {
  const durations = histogram(
    registry,
    'csi_operations_seconds',
    '[ALPHA] Container Storage Interface operation duration with gRPC error code status total',
    CSI_BUCKETS,
    ['driver_name', 'method_name', 'grpc_status_code', 'migrated'],
  );
  const draDurations = histogram(
    registry,
    'dra_grpc_operations_duration_seconds',
    '[ALPHA] Duration in seconds of the DRA gRPC operations',
    CLAIM_BUCKETS,
    ['driver_name', 'method_name', 'grpc_status_code'],
  );
  pluginCalls.subscribe((message) => {
    const { method, target, code, durationMs } = message as PluginCall;
    const isDra = method.startsWith(DRA);
    if (!isDra && !method.startsWith(CSI)) return;
    const plugins = view.contexts<PluginContext>('kubelet/pluginManager/plugin-');
    const plugin = plugins.find(({ info, socket }) => info && `unix://${endpointOf(info, socket)}` === target);
    const driver_name = plugin?.info?.name ?? '';
    const labels = { driver_name, method_name: method, grpc_status_code: code };
    if (isDra) draDurations.observe(labels, durationMs / MS_PER_SECOND);
    else durations.observe({ ...labels, migrated: 'false' }, durationMs / MS_PER_SECOND);
  });
}

export class DeviceWork extends Instruments implements Projection {
  readonly recordKinds = ['in', 'result'] as const;
  readonly #registrations = counter(
    this.registry,
    'kubelet_device_plugin_registration_total',
    '[ALPHA] Cumulative number of device plugin registrations. Broken down by resource name.',
    ['resource_name'],
  );
  readonly #allocations = histogram(
    this.registry,
    'kubelet_device_plugin_alloc_duration_seconds',
    '[ALPHA] Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.',
    DEFAULT_BUCKETS,
    ['resource_name'],
  );

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'in' && record.event.type === 'devices.registered') {
      this.#registrations.inc({ resource_name: record.event.resource });
    } else if (record.k === 'result' && request?.name === 'devices.allocate') {
      const { resource } = request.input;
      this.#allocations.observe({ resource_name: resource }, (kernel.now - request.sinceMs) / MS_PER_SECOND);
    }
  }
}

export function credentialPluginRuns(registry: Registry): OnPluginRun {
  const name = 'kubelet_credential_provider_plugin';
  const duration = '[ALPHA] Duration of execution in seconds for credential provider plugin';
  const durations = histogram(registry, `${name}_duration`, duration, DEFAULT_BUCKETS, ['plugin_name']);
  const failed = '[ALPHA] Number of errors from credential provider plugin';
  const errors = counter(registry, `${name}_errors_total`, failed, ['plugin_name']);
  return ({ plugin: plugin_name, durationMs, failed: hasFailed }) => {
    durations.observe({ plugin_name }, durationMs / MS_PER_SECOND);
    if (hasFailed) errors.inc({ plugin_name });
  };
}

/** Upstream's buckets: 15, from 0.1 to 40 seconds, in equal ratios. */
const [FIRST_BUCKET, LAST_BUCKET, BUCKETS] = [0.1, 40, 15];
const GROWTH = (LAST_BUCKET / FIRST_BUCKET) ** (1 / (BUCKETS - 1));
const CLAIM_BUCKETS = Array.from({ length: BUCKETS }, (_, at) => FIRST_BUCKET * power(GROWTH, at));

/** By squaring, as in Go: the bounds are labels, so the last digit counts. */
function power(base: number, exponent: number): number {
  let result = 1;
  for (let [square, rest] = [base, exponent]; rest > 0; square *= square, rest >>= 1)
    if (rest % 2 === 1) result *= square;
  return result;
}

const DURATIONS =
  '[ALPHA] Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod when the pod ' +
  'starts or stops. Identified by the name of the operation (PrepareResources or UnprepareResources) and separated by ' +
  "the success of the operation. The number of failed operations is provided through the histogram's overall count.";

type Operation = 'Prepare' | 'Unprepare';

/** The operation, by the type of the message to `draManager`. */
const BEGINS: Readonly<Record<string, Operation>> = { 'claims.wanted': 'Prepare', 'claims.released': 'Unprepare' };
const ENDS: Readonly<Record<string, readonly [operation: Operation, isError: boolean]>> = {
  'claims.prepared': ['Prepare', false],
  'claims.failed': ['Prepare', true],
  'claims.unprepared': ['Unprepare', false],
  'claims.stillPrepared': ['Unprepare', true],
};

export class ClaimWork extends Instruments implements Projection {
  readonly recordKinds = ['message', 'effect'] as const;
  readonly #durations = histogram(this.registry, 'dra_operations_duration_seconds', DURATIONS, CLAIM_BUCKETS, [
    'operation_name',
    'is_error',
  ]);
  readonly #claimed = new Set<string>();
  /** Uids of pods that this node rejected: nothing is prepared or unprepared for them. */
  readonly #refused = new Set<string>();
  /** By operation and uid of a pod, the time of the request. */
  readonly #begun = new Map<string, number>();

  on(record: NodeRecord, { kernel }: RecordContext): void {
    if (record.k === 'effect' && record.name === 'cri.runPodSandbox') this.#without('Prepare', podUidAt(record.at));
    if (record.k !== 'message') return;
    const { event } = record;
    if (event.type === 'claims.wanted') this.#claimed.add(event.uid);
    if (event.type === 'allocation.refused') this.#refused.add(event.uid);
    if (event.type === 'allocation.ended') this.#without('Unprepare', event.uid);
    if (event.type === 'status.removed') {
      this.#claimed.delete(event.uid);
      this.#refused.delete(event.uid);
    } else if (event.type in BEGINS || event.type in ENDS) this.#follow(event, kernel.now);
  }

  /** Observes an operation for a pod without claims, which upstream measures as well. */
  #without(operation: Operation, uid: string): void {
    if (!this.#claimed.has(uid) && !this.#refused.has(uid)) this.#observe(operation, false, 0);
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
