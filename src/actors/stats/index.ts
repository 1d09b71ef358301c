/**
 * Ports for `stats.*`: the usage of this machine for machines that decide by it, and the signals of eviction.
 *
 * The eviction signals: available memory, disk and process ids.
 *
 * Decides: when to report. Owns, per watch, the thresholds met last.
 * Invariants: an observation is reported only if a threshold was crossed or its minimum reclaimed; an unreadable signal
 * is absent; a failure is reported once.
 */

import { stat } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import type { Port, Ports } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { metThresholds } from '../../machines/model/eviction/thresholds.ts';
import type {
  DiskLayout,
  DiskUse,
  EvictionSignal,
  EvictionThreshold,
  Observations,
  PodUse,
  SignalObservation,
  StatsPlace,
  StorageExceeded,
  StorageLimits,
  statsOperations,
} from '../../machines/model/operations/stats.ts';
import { nanoOf, wholeUnits } from '../../machines/model/values/quantity.ts';
import { pause } from '../pause.ts';
import { readUsage } from './cgroup-usage.ts';
import { type FileSystemUsage, fileSystemUsage } from './disk-usage.ts';
import type { PodStorage } from './pod-folders.ts';
import type { StatsReader } from './reader.ts';
import type { FsStats, PodStats } from './usage-types.ts';

export { StatsReader } from './reader.ts';

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

type Operations = typeof statsOperations;

interface Folders {
  readonly images: string;
  readonly containers: string;
}

/** The folders of images and of writable layers; the root directory when the runtime reports none. */
async function runtimeFolders(reader: StatsReader, { rootDir }: StatsPlace, signal: AbortSignal): Promise<Folders> {
  const { imageFs, containerFs } = await reader.fileSystems(signal);
  const images = imageFs?.fs_id?.mountpoint || rootDir;
  return { images, containers: containerFs?.fs_id?.mountpoint || images };
}

const deviceOf = async (path: string): Promise<number> => {
  try {
    return (await stat(path)).dev;
  } catch (error) {
    throw new OperationError(`failed to get device for dir ${JSON.stringify(path)}: ${messageOf(error)}`);
  }
};

const diskLayout =
  (reader: StatsReader): Port<Operations['stats.diskLayout']> =>
  async ({ input: { place }, signal }): Promise<DiskLayout> => {
    const folders = await runtimeFolders(reader, place, signal);
    const [root, images, containers] = await Promise.all(
      [place.rootDir, folders.images, folders.containers].map(deviceOf),
    );
    return { dedicatedImageFs: images !== root, splitContainerFs: images !== containers };
  };

const observation = (available: bigint, capacity: bigint): SignalObservation => ({
  available: String(available < 0n ? 0n : available),
  capacity: String(capacity),
});

async function observe(reader: StatsReader, place: StatsPlace, folders: Folders): Promise<Observations> {
  const hierarchy = await reader.hierarchy();
  const node = readUsage(hierarchy, '/', reader.root).memory;
  const pods = place.podsCgroup === '' ? null : readUsage(hierarchy, place.podsCgroup, reader.root).memory;
  const [rootFs, imageFs, containerFs] = await Promise.all([
    fileSystemUsage(place.rootDir),
    fileSystemUsage(folders.images),
    fileSystemUsage(folders.containers),
  ]);
  const processes = reader.processes();
  const capacity = reader.memoryTotal();
  return {
    ...(node === null ? {} : { 'memory.available': observation(capacity - node.workingSet, capacity) }),
    ...(pods?.limit == null
      ? {}
      : { 'allocatableMemory.available': observation(pods.limit - pods.workingSet, pods.limit) }),
    ...diskSignals('nodefs', rootFs),
    ...diskSignals('imagefs', imageFs),
    ...diskSignals('containerfs', containerFs),
    ...(processes === null
      ? {}
      : { 'pid.available': observation(processes.maxpid - processes.curproc, processes.maxpid) }),
  };
}

/** The signals of one file system. A file system that creates inodes on demand has no signal of free inodes. */
function diskSignals(name: 'nodefs' | 'imagefs' | 'containerfs', usage: FileSystemUsage | null): Observations {
  if (usage === null) return {};
  const available: EvictionSignal = `${name}.available`;
  const inodes: EvictionSignal = `${name}.inodesFree`;
  return {
    [available]: observation(usage.available, usage.capacity),
    ...(usage.inodes === 0n ? {} : { [inodes]: observation(usage.inodesFree, usage.inodes) }),
  };
}

const observeStats =
  (reader: StatsReader): Port<Operations['stats.observe']> =>
  async ({ input: { place, withPods }, signal }) => {
    const observations = await observe(reader, place, await runtimeFolders(reader, place, signal));
    const pods = withPods ? (await reader.summary(place, { signal })).pods : [];
    return { observations, pods: pods.map(podUse) };
  };

const text = (value: bigint | undefined): string | null => (value === undefined ? null : String(value));
const diskUse = (fs: FsStats | undefined): DiskUse | null =>
  fs === undefined ? null : { bytes: String(fs.usedBytes ?? 0n), inodes: String(fs.inodesUsed ?? 0n) };

const podUse = (pod: PodStats): PodUse => ({
  uid: pod.podRef.uid,
  workingSetBytes: text(pod.memory?.workingSetBytes),
  processes: text(pod.process_stats?.process_count),
  containers: pod.containers.map(({ name, memory, rootfs, logs }) => ({
    name,
    workingSetBytes: text(memory?.workingSetBytes),
    rootfs: diskUse(rootfs),
    logs: diskUse(logs),
  })),
  volumes: Object.fromEntries((pod.volume ?? []).map((volume) => [volume.name, diskUse(volume)!])),
});

/** The thresholds that are met, and the thresholds whose minimum is not reclaimed yet, as text to compare. */
const thresholdsMet = (thresholds: readonly EvictionThreshold[], observations: Observations): string =>
  JSON.stringify([metThresholds(thresholds, observations, false), metThresholds(thresholds, observations, true)]);

const NO_THRESHOLD_MET = JSON.stringify([[], []]);

const watchSignals =
  (reader: StatsReader): Port<Operations['stats.watchSignals']> =>
  async ({ input: { place, thresholds, periodMs }, signal, ...call }) => {
    const folders = await runtimeFolders(reader, place, signal);
    let last = NO_THRESHOLD_MET;
    let failing = false;
    while (!signal.aborted) {
      try {
        const observations = await observe(reader, place, folders);
        const now = thresholdsMet(thresholds, observations);
        if (now !== last || failing) call.emit({ type: 'signals.changed', observations });
        last = now;
        failing = false;
      } catch (error) {
        if (!failing) call.emit({ type: 'signals.failed', message: messageOf(error) });
        failing = true;
      }
      await pause(periodMs, signal);
    }
    return null;
  };

const signalPorts = (reader: StatsReader) => ({
  'stats.diskLayout': diskLayout(reader),
  'stats.watchSignals': watchSignals(reader),
  'stats.observe': observeStats(reader),
});
