/**
 * How full the volumes of claims are, each claim once, and how long volumes take to be measured. A volume that is gone
 * or does not answer says nothing.
 */
import type { Histogram, Registry } from 'prom-client';
import { claimUsage } from '../../stats/claim-stats.ts';
import type { FileSystemUsage } from '../../stats/disk-usage.ts';
import type { NodePod } from '../node-view.ts';
import { type Family, gaugeOf, type Sample } from './family.ts';
import { histogram } from './instruments.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND } from './projection.ts';

const FAMILIES: readonly (readonly [name: string, help: string, read: (usage: FileSystemUsage) => bigint])[] = [
  ['capacity_bytes', 'Capacity in bytes of the volume', ({ capacity }) => capacity],
  ['available_bytes', 'Number of available bytes in the volume', ({ available }) => available],
  ['used_bytes', 'Number of used bytes in the volume', ({ used }) => used],
  ['inodes', 'Maximum number of inodes in the volume', ({ inodes }) => inodes],
  ['inodes_free', 'Number of free inodes in the volume', ({ inodesFree }) => inodesFree],
  ['inodes_used', 'Number of used inodes in the volume', ({ inodes, inodesFree }) => inodes - inodesFree],
];

export async function volumeStats(pods: readonly NodePod[]): Promise<Family[]> {
  const claims = new Map<string, { readonly labels: Sample['labels']; readonly path: string }>();
  for (const { namespace, claims: places = {} } of pods) {
    for (const { claim, path } of Object.values(places)) {
      claims.set(`${namespace}/${claim}`, { labels: { namespace, persistentvolumeclaim: claim }, path });
    }
  }
  const measured = await Promise.all(
    [...claims.values()].map(async ({ labels, path }) => ({
      labels,
      usage: await claimUsage(path),
    })),
  );
  return FAMILIES.map(([name, help, read]) =>
    gaugeOf(
      `kubelet_volume_stats_${name}`,
      `[ALPHA] ${help}`,
      measured.flatMap(({ labels, usage }) => (usage === null ? [] : [{ labels, value: Number(read(usage)) }])),
    ),
  );
}

export class VolumeMeasuring {
  readonly #durations: Histogram<'metric_source'>;

  constructor(registry: Registry) {
    this.#durations = histogram(
      registry,
      'kubelet_volume_metric_collection_duration_seconds',
      '[ALPHA] Duration in seconds to calculate volume stats',
      DEFAULT_BUCKETS,
      ['metric_source'],
    );
  }

  /** In paths `~` stands for the slash of a plugin's name. */
  readonly measured = (plugin: string, durationMs: number): void => {
    this.#durations.observe({ metric_source: plugin.replace('~', '/') }, durationMs / MS_PER_SECOND);
  };
}
