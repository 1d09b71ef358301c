/**
 * Durations of setting up and tearing down volumes. One request covers all volumes of a pod: each is counted with the
 * duration of that request, for which its pod waited.
 */
import type { Registry } from 'prom-client';
import type { Pod, Volume } from '../../../../machines/model/api/pod.ts';
import { usesOf } from '../../../../machines/model/volumes/plan.ts';
import { contextOf, type NodeRecord, type NodeResult } from '../../../node-records.ts';
import type { NodePod } from '../../node-pods.ts';
import type { Family, Sample } from '../family.ts';
import { counter, gauge, histogram, Instruments } from '../instruments.ts';
import {
  MS_PER_SECOND,
  type Projection,
  podContextAt,
  podUidAt,
  type RecordContext,
  type UnderWay,
} from '../projection.ts';

const BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600];
const PLUGINS: readonly (readonly [kind: keyof Volume, plugin: string])[] = [
  ['emptyDir', 'kubernetes.io/empty-dir'],
  ['configMap', 'kubernetes.io/configmap'],
  ['secret', 'kubernetes.io/secret'],
  ['downwardAPI', 'kubernetes.io/downward-api'],
  ['projected', 'kubernetes.io/projected'],
  ['image', 'kubernetes.io/image'],
  ['hostPath', 'kubernetes.io/host-path'],
];

/** Upstream's name of a volume's plug-in. A claim is bound to a path of the host, or to a volume of a CSI driver. */
const pluginOf = (volume: Volume | undefined, driver?: string): string =>
  driver === undefined
    ? (PLUGINS.find(([kind]) => volume?.[kind] !== undefined)?.[1] ?? 'kubernetes.io/host-path')
    : `kubernetes.io/csi:${driver}`;

/** Upstream's names of the calls to CSI drivers; staging is a part of mounting. */
const DRIVER_OPERATIONS: Readonly<Record<string, string>> = {
  'csi.publish': 'volume_mount',
  'csi.unpublish': 'volume_unmount',
  'csi.unstage': 'unmount_device',
  'csi.expand': 'volume_fs_resize',
};
const BLOCK_OPERATIONS: Readonly<Record<string, string>> = {
  'csi.publish': 'map_volume',
  'csi.unpublish': 'unmap_volume',
  'csi.unstage': 'unmap_device',
};
const operationOf = ({ name, input }: UnderWay): string =>
  (input && 'block' in input && input.block ? BLOCK_OPERATIONS[name] : undefined) ?? DRIVER_OPERATIONS[name]!;
const DRIVER_ACTOR = /^kubelet\/csiVolumes\/[^/]+/;

/** The fields that are read from the context of a driver's volume. */
export interface DriverVolume {
  readonly pod?: { readonly uid: string };
  readonly volume: { readonly name: string; readonly driver: string };
}

export class StorageMetrics extends Instruments implements Projection {
  readonly recordKinds = ['effect', 'result', 'cancel'] as const;
  /** By pod, since when a volume is not set up. */
  readonly #since = new Map<string, Map<string, number>>();
  /** By request of a driver's volume, the driver, because the actor of the volume may have ended with the answer. */
  readonly #drivers = new Map<number, string>();
  readonly #operations = histogram(
    this.registry,
    'storage_operation_duration_seconds',
    '[ALPHA] Storage operation duration',
    BUCKETS,
    ['volume_plugin', 'operation_name', 'status', 'migrated'],
  );
  readonly #whole = histogram(
    this.registry,
    'volume_operation_total_seconds',
    '[ALPHA] Storage operation end to end duration in seconds',
    BUCKETS,
    ['plugin_name', 'operation_name'],
  );

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'effect' && DRIVER_OPERATIONS[record.name] !== undefined) {
      this.#drivers.set(record.id, driverAt(record.at, kernel));
    } else if (record.k === 'result' && request && this.#drivers.has(record.id)) {
      const operation_name = operationOf(request);
      const driver = this.#drivers.get(record.id)!;
      this.#drivers.delete(record.id);
      this.#observe(request, { volume: undefined, driver, operation_name, isDone: !record.error }, kernel.now);
    } else if (record.k === 'cancel') this.#drivers.delete(record.id);
    else if (record.k === 'effect' && record.name === 'volume.setUp') {
      const uid = podUidAt(record.at);
      const since = this.#since.get(uid) ?? new Map<string, number>();
      this.#since.set(uid, since);
      for (const { name } of record.input.volumes) since.set(name, since.get(name) ?? kernel.now);
    } else if (record.k === 'result' && record.name === 'volume.setUp' && request?.name === 'volume.setUp') {
      const failed = record.output?.failed ?? [];
      const failures = new Set(failed.map(({ name }) => name));
      for (const { name } of request.input.volumes) {
        this.#done(request, name, record.error === undefined && !failures.has(name), kernel);
      }
    } else if (record.k === 'result' && request?.name === 'volume.tearDown') {
      this.#since.delete(podUidAt(request.address));
      for (const volume of specVolumes(request.address, kernel)) {
        this.#observe(request, { volume, operation_name: 'volume_unmount', isDone: !record.error }, kernel.now);
      }
    }
  }

  #done(request: UnderWay, name: string, isDone: boolean, kernel: RecordContext['kernel']): void {
    const volume = specVolumes(request.address, kernel).find((each) => each.name === name);
    this.#observe(request, { volume, operation_name: 'volume_mount', isDone }, kernel.now);
    const since = this.#since.get(podUidAt(request.address));
    const sinceMs = since?.get(name);
    if (!isDone || sinceMs === undefined) return;
    since?.delete(name);
    const labels = { plugin_name: pluginOf(volume), operation_name: 'volume_mount' };
    this.#whole.observe(labels, (kernel.now - sinceMs) / MS_PER_SECOND);
  }

  #observe(
    { sinceMs }: UnderWay,
    operation: {
      readonly volume: Volume | undefined;
      readonly driver?: string;
      readonly operation_name: string;
      readonly isDone: boolean;
    },
    nowMs: number,
  ): void {
    const { volume, driver, operation_name, isDone } = operation;
    const status = isDone ? 'success' : 'fail-unknown';
    const labels = { volume_plugin: pluginOf(volume, driver), operation_name, status, migrated: 'false' };
    this.#operations.observe(labels, (nowMs - sinceMs) / MS_PER_SECOND);
  }
}

const specVolumes = (address: string, kernel: RecordContext['kernel']): readonly Volume[] =>
  usedVolumes(podContextAt(address, kernel)?.pod ?? null);

/** The volumes that containers use; other volumes are not set up, and do not count. */
function usedVolumes(pod: Pod | null): readonly Volume[] {
  if (pod === null) return [];
  const { mounts, devices } = usesOf(pod);
  return (pod.spec.volumes ?? []).filter(({ name }) => mounts.has(name) || devices.has(name));
}

function driverAt(address: string, kernel: RecordContext['kernel']): string {
  const actor = DRIVER_ACTOR.exec(address)?.[0] ?? '';
  return contextOf<DriverVolume>(kernel, actor)?.volume.driver ?? '';
}

/** The wanted volumes of pods, and those that are set up; `ofDrivers` are the CSI drivers' volumes. */
export function volumeCounts(pods: readonly NodePod[], ofDrivers: readonly DriverVolume[]): Family {
  const drivers = new Map(ofDrivers.map(({ pod, volume }) => [`${pod?.uid}/${volume.name}`, volume.driver]));
  const counts = new Map<string, number>();
  const add = (plugin_name: string, state: string) => {
    const key = JSON.stringify({ plugin_name, state });
    counts.set(key, (counts.get(key) ?? 0) + 1);
  };
  for (const { uid, pod, status, mounted } of pods) {
    const isOver = status?.phase === 'Succeeded' || status?.phase === 'Failed';
    for (const volume of usedVolumes(pod)) {
      const plugin = pluginOf(volume, drivers.get(`${uid}/${volume.name}`));
      if (!isOver) add(plugin, 'desired_state_of_world');
      if (mounted.includes(volume.name)) add(plugin, 'actual_state_of_world');
    }
  }
  const samples = [...counts].map(([labels, value]): Sample => ({ labels: JSON.parse(labels), value }));
  return {
    name: 'volume_manager_total_volumes',
    help: '[ALPHA] Number of volumes in Volume Manager',
    type: 'gauge',
    samples,
  };
}

/**
 * Volumes left by an earlier agent, counted once after a start: volumes of removed pods, and volumes that the earlier
 * agent had set up for pods that still exist.
 */
export class VolumeLeftovers extends Instruments implements Projection {
  readonly recordKinds = ['result'] as const;
  /** Pods that had a folder when this agent listed them, and whose folder is not known to be removed. */
  #leftovers = new Set<string>();
  readonly #failing = new Set<string>();
  readonly #families = families(this.registry);

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k !== 'result' || !request) return;
    if (record.name === 'volume.podFolders' && !record.error) this.#listed(record.output.uids);
    else if (record.name === 'csi.inventory' && !record.error) {
      this.#inventoryListed(record.output.volumes.length, record.output.errors.length);
    } else if (request.name !== 'volume.tearDown') return;
    else if (podContextAt(request.address, kernel)?.pod === null) this.#tornDown(request, record);
  }

  #listed(uids: readonly string[]): void {
    this.#leftovers = new Set(uids);
    this.#families.cleaned.set(0);
    this.#families.errors.set(0);
  }

  #tornDown({ address }: UnderWay, { error }: NodeResult): void {
    const uid = podUidAt(address);
    if (!this.#leftovers.has(uid)) return;
    if (error) this.#failing.add(uid);
    else {
      this.#failing.delete(uid);
      this.#leftovers.delete(uid);
      this.#families.cleaned.inc();
    }
    this.#families.errors.set(this.#failing.size);
  }

  #inventoryListed(readable: number, unreadable: number): void {
    this.#families.reconstructed.inc(readable + unreadable);
    this.#families.unreadable.inc(unreadable);
  }
}

const families = (registry: Registry) => ({
  cleaned: gauge(
    registry,
    'kubelet_orphan_pod_cleaned_volumes',
    '[ALPHA] The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.',
  ),
  errors: gauge(
    registry,
    'kubelet_orphan_pod_cleaned_volumes_errors',
    '[ALPHA] The number of orphaned Pods whose volumes failed to be cleaned in the last periodic sweep.',
  ),
  reconstructed: counter(
    registry,
    'reconstruct_volume_operations_total',
    '[ALPHA] The number of volumes that were attempted to be reconstructed from the operating system during kubelet startup. This includes both successful and failed reconstruction.',
  ),
  unreadable: counter(
    registry,
    'reconstruct_volume_operations_errors_total',
    '[ALPHA] The number of volumes that failed reconstruction from the operating system during kubelet startup.',
  ),
});
