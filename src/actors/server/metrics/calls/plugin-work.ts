/** Calls to plugins: CSI and resource drivers, registrations of device plugins, and allocated devices. */
import type { Registry } from 'prom-client';
import { endpointOf } from '../../../../machines/charts/node/plugin-policy.ts';
import type { PluginInfo } from '../../../../machines/model/operations/plugins.ts';
import type { OnPluginRun } from '../../../image/plugin.ts';
import type { NodeRecord } from '../../../node-records.ts';
import { type PluginCall, pluginCalls } from '../../../plugins/connection.ts';
import type { NodeView } from '../../node-view.ts';
import { counter, histogram } from '../instruments.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND, type Projection, type RecordContext } from '../projection.ts';
import { CLAIM_BUCKETS } from './claim-work.ts';

/** Upstream's. */
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

export class DeviceWork implements Projection {
  readonly recordKinds = ['in', 'result'] as const;
  readonly #registrations;
  readonly #allocations;

  constructor(registry: Registry) {
    this.#registrations = counter(
      registry,
      'kubelet_device_plugin_registration_total',
      '[ALPHA] Cumulative number of device plugin registrations. Broken down by resource name.',
      ['resource_name'],
    );
    this.#allocations = histogram(
      registry,
      'kubelet_device_plugin_alloc_duration_seconds',
      '[ALPHA] Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.',
      DEFAULT_BUCKETS,
      ['resource_name'],
    );
  }

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'in' && record.event.type === 'devices.registered') {
      this.#registrations.inc({ resource_name: record.event.resource });
    } else if (record.k === 'result' && request?.name === 'devices.allocate') {
      const { resource } = request.input;
      this.#allocations.observe({ resource_name: resource }, (kernel.now - request.sinceMs) / MS_PER_SECOND);
    }
  }
}

/**
 * Runs of credential provider plugins.
 *
 * Counts them in this registry.
 */
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
