/** Ports for `stats.*`: usage of this machine, for machines that use it for decisions. */

import type { Port, Ports } from '../../kernel/operation.ts';
import type { StorageExceeded, StorageLimits, statsOperations } from '../../machines/model/operations/stats.ts';
import { nanoOf, wholeUnits } from '../../machines/model/values/quantity.ts';
import { pause } from '../pause.ts';
import type { PodStorage } from './pod-folders.ts';
import type { StatsReader } from './reader.ts';
import { signalPorts } from './signals.ts';

export { StatsReader } from './reader.ts';

/** The operations `stats.*` on this reader. */
export const statsPorts = (reader: StatsReader): Ports<typeof statsOperations> => ({
  ...signalPorts(reader),
  'stats.watchStorage': watchStorage(reader),
});

/** The pause after a measurement, as a multiple of its duration. */
const REST_FACTOR = 10;

const bytes = (quantity: string): bigint => wholeUnits(nanoOf(quantity));

/** The first limit that is exceeded, in the order in which upstream checks: volumes, the pod, its containers. */
export function exceededLimit(
  limits: StorageLimits,
  storage: PodStorage,
  countLayers: boolean,
): StorageExceeded | null {
  const { volumes, logs, hosts, layers } = storage;
  for (const [name, limit] of Object.entries(limits.emptyDirs)) {
    const volume = volumes.find((each) => each.name === name && each.plugin === 'kubernetes.io~empty-dir');
    if (volume !== undefined && volume.used > bytes(limit)) return { kind: 'emptyDir', name };
  }
  const sum = (parts: readonly bigint[]): bigint => parts.reduce((total, part) => total + part, 0n);
  const onDisk = volumes.filter(({ isEphemeral }) => isEphemeral).map(({ used }) => used);
  const logged = [...logs.values()].map(({ used }) => used);
  const total = sum([...onDisk, ...logged, ...layers.values(), hosts.used]);
  if (limits.pod !== null && total > bytes(limits.pod)) return { kind: 'pod', name: '' };
  for (const [name, limit] of Object.entries(limits.containers)) {
    const used = (logs.get(name)?.used ?? 0n) + (countLayers ? (layers.get(name) ?? 0n) : 0n);
    if (used > bytes(limit)) return { kind: 'container', name };
  }
  return null;
}

/**
 * Reports a pod that exceeds its local storage limits: measured periodically, reported on changes.
 *
 * Invariants: a folder that takes long to measure is measured less often, so that measuring takes only a small part of
 * the disk's time; a lower bound above a limit is sufficient.
 */
const watchStorage =
  (reader: StatsReader): Port<(typeof statsOperations)['stats.watchStorage']> =>
  async ({ input, signal, ...call }) => {
    const { place, pod, limits, countLayers, periodMs } = input;
    const where = { ...pod, rootDir: place.rootDir, podLogsDir: place.podLogsDir };
    const hasMoreThanVolumes = limits.pod !== null || Object.keys(limits.containers).length > 0;
    let last = JSON.stringify(null);
    while (!signal.aborted) {
      const startedAt = performance.now();
      const storage = await reader.podStorage(where, hasMoreThanVolumes, signal);
      const exceeded = exceededLimit(limits, storage, countLayers);
      const now = JSON.stringify(exceeded);
      if (now !== last && !signal.aborted) call.emit({ type: 'storage.changed', exceeded });
      last = now;
      const restMs = Math.max(periodMs, (performance.now() - startedAt) * REST_FACTOR);
      await pause(restMs, signal);
    }
    return null;
  };
