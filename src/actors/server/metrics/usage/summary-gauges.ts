/**
 * The metrics of `/metrics/resource` for autoscalers, from the same summary as `/stats/summary`, and the usage of the
 * volumes of claims.
 *
 * Each claim counts once; volumes that are gone or do not answer are omitted.
 */
import type { KubeletConfiguration } from '../../../../machines/model/configuration/fields.ts';
import { millisecondsOf } from '../../../../machines/model/values/time.ts';
import { claimStats } from '../../../stats/summary-parts.ts';
import {
  type ContainerStats,
  type NodeStats,
  ofRunningPods,
  type PodStats,
  type Summary,
  type SwapStats,
  type VolumeStats,
} from '../../../stats/usage-types.ts';
import type { NodePod } from '../../node-pods.ts';
import type { Family, FamilyType, Sample } from '../instruments.ts';
import { DEFAULT_BUCKETS, gaugeOf, histogram, Instruments, MS_PER_SECOND } from '../instruments.ts';

const NANOSECONDS = 1e9;

const HELP = {
  node_cpu_usage_seconds_total: '[STABLE] Cumulative cpu time consumed by the node in core-seconds',
  node_memory_working_set_bytes: '[STABLE] Current working set of the node in bytes',
  node_swap_usage_bytes: '[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems',
  pod_cpu_usage_seconds_total: '[STABLE] Cumulative cpu time consumed by the pod in core-seconds',
  pod_memory_working_set_bytes: '[STABLE] Current working set of the pod in bytes',
  pod_swap_usage_bytes: '[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems',
  container_cpu_usage_seconds_total: '[STABLE] Cumulative cpu time consumed by the container in core-seconds',
  container_memory_working_set_bytes: '[STABLE] Current working set of the container in bytes',
  container_swap_usage_bytes:
    '[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems',
  container_swap_limit_bytes:
    '[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems',
  container_start_time_seconds: '[STABLE] Start time of the container since unix epoch in seconds',
} as const;

/** The families; `summary` is `null` if the usage could not be measured. */
export function resourceFamilies(summary: Summary | null): Family[] {
  const samples = new Map<keyof typeof HELP, Sample[]>();
  const add = (name: keyof typeof HELP, sample: Sample) => {
    const known = samples.get(name);
    if (known) known.push(sample);
    else samples.set(name, [sample]);
  };
  if (summary) {
    usage('node', summary.node, {}, add);
    for (const pod of ofRunningPods(summary).pods) {
      const labels = { namespace: pod.podRef.namespace, pod: pod.podRef.name };
      usage('pod', pod, labels, add);
      for (const container of pod.containers) {
        const containerLabels = { container: container.name, ...labels };
        usage('container', container, containerLabels, add);
        add('container_start_time_seconds', {
          labels: containerLabels,
          value: Date.parse(container.startTime) / MS_PER_SECOND,
        });
      }
    }
  }
  const error = summary ? 0 : 1;
  return [
    ...[...samples].map(([name, all]) => ({ name, help: HELP[name], type: typeOf(name), samples: all })),
    {
      name: 'resource_scrape_error',
      help: '[STABLE] 1 if there was an error while getting container metrics, 0 otherwise',
      type: 'gauge',
      samples: [{ labels: {}, value: error }],
    },
  ];
}

const typeOf = (name: string): FamilyType => (name.endsWith('_total') ? 'counter' : 'gauge');

type Add = (name: keyof typeof HELP, sample: Sample) => void;
type Measured = Pick<NodeStats | PodStats | ContainerStats, 'cpu' | 'memory'> & { readonly swap?: SwapStats };

function usage(of: 'node' | 'pod' | 'container', { cpu, memory, swap }: Measured, labels: Sample['labels'], add: Add) {
  const sampleAt = (time: string) => ({ labels, timestampMs: Date.parse(time) });
  if (cpu?.usageCoreNanoSeconds !== undefined) {
    add(`${of}_cpu_usage_seconds_total`, {
      ...sampleAt(cpu.time),
      value: Number(cpu.usageCoreNanoSeconds) / NANOSECONDS,
    });
  }
  if (memory?.workingSetBytes !== undefined) {
    add(`${of}_memory_working_set_bytes`, { ...sampleAt(memory.time), value: Number(memory.workingSetBytes) });
  }
  if (swap?.swapUsageBytes !== undefined) {
    add(`${of}_swap_usage_bytes`, { ...sampleAt(swap.time), value: Number(swap.swapUsageBytes) });
  }
  if (of === 'container' && swap?.swapAvailableBytes !== undefined) {
    const limit = swap.swapAvailableBytes + (swap.swapUsageBytes ?? 0n);
    add('container_swap_limit_bytes', { ...sampleAt(swap.time), value: Number(limit) });
  }
}

const FAMILIES: readonly (readonly [name: string, help: string, read: (stats: VolumeStats) => bigint | undefined])[] = [
  ['capacity_bytes', 'Capacity in bytes of the volume', ({ capacityBytes }) => capacityBytes],
  ['available_bytes', 'Number of available bytes in the volume', ({ availableBytes }) => availableBytes],
  ['used_bytes', 'Number of used bytes in the volume', ({ usedBytes }) => usedBytes],
  ['inodes', 'Maximum number of inodes in the volume', ({ inodes }) => inodes],
  ['inodes_free', 'Number of free inodes in the volume', ({ inodesFree }) => inodesFree],
  ['inodes_used', 'Number of used inodes in the volume', ({ inodesUsed }) => inodesUsed],
  [
    'health_status_abnormal',
    'Abnormal volume health status. The count is either 1 or 0. 1 indicates the volume is unhealthy, 0 indicates ' +
      'volume is healthy',
    ({ volumeHealthStats: health }) => health && BigInt(health.abnormal),
  ],
];

/** As upstream, no volume is measured with a period that is not positive. */
export const measuresVolumes = ({
  volumeStatsAggPeriod,
}: Pick<KubeletConfiguration, 'volumeStatsAggPeriod'>): boolean => millisecondsOf(volumeStatsAggPeriod) > 0;

/** The statistics of volumes. `ofDrivers` are reported by CSI drivers; other volumes are measured. */
export async function volumeStats(pods: readonly NodePod[], ofDrivers: readonly VolumeStats[]): Promise<Family[]> {
  const atMs = Date.now();
  const measured = await Promise.all(
    pods.flatMap(({ namespace, claims }) => (claims ? [claimStats(namespace, claims, atMs)] : [])),
  );
  const claims = new Map(
    [...measured.flat(), ...ofDrivers].flatMap((stats) =>
      stats.pvcRef ? [[`${stats.pvcRef.namespace}/${stats.pvcRef.name}`, { stats, ref: stats.pvcRef }] as const] : [],
    ),
  );
  const sampleOf = (read: (typeof FAMILIES)[number][2]): readonly Sample[] =>
    [...claims.values()].flatMap(({ stats, ref: { namespace, name } }) => {
      const value = read(stats);
      return value === undefined ? [] : [{ labels: { namespace, persistentvolumeclaim: name }, value: Number(value) }];
    });
  return FAMILIES.flatMap(([name, help, read]) => {
    const samples = sampleOf(read);
    const isOptional = name === 'health_status_abnormal' && samples.length === 0;
    return isOptional ? [] : [gaugeOf(`kubelet_volume_stats_${name}`, `[ALPHA] ${help}`, samples)];
  });
}

export class VolumeMeasuring extends Instruments {
  readonly #durations = histogram(
    this.registry,
    'kubelet_volume_metric_collection_duration_seconds',
    '[ALPHA] Duration in seconds to calculate volume stats',
    DEFAULT_BUCKETS,
    ['metric_source'],
  );

  readonly measured = (source: string, durationMs: number): void => {
    this.#durations.observe({ metric_source: source }, durationMs / MS_PER_SECOND);
  };
}
