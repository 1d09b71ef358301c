/**
 * The usage of the volumes of claims, each claim once, and the duration of measuring it. Volumes that are gone or do
 * not answer are omitted.
 */
import { claimStats } from '../../../stats/summary-parts.ts';
import type { VolumeStats } from '../../../stats/summary-types.ts';
import type { NodePod } from '../../node-pods.ts';
import { type Family, gaugeOf, type Sample } from '../family.ts';
import { histogram, Instruments } from '../instruments.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND } from '../projection.ts';

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
