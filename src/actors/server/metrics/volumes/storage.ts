/**
 * Durations of setting up and tearing down volumes. One request covers all volumes of a pod: each is counted with the
 * duration of that request, for which its pod waited.
 */
import type { Registry } from 'prom-client';
import type { Pod, Volume } from '../../../../machines/model/api/pod.ts';
import { isDiskPlugin } from '../../../../machines/model/csi/disks.ts';
import type { VolumeSetUp } from '../../../../machines/model/operations/volume.ts';
import type { EventRecorded } from '../../../../machines/model/pods/pod-messages.ts';
import { usesOf } from '../../../../machines/model/volumes/plan.ts';
import { contextOf, type NodeMessageRecord, type NodeRecord, type NodeResult } from '../../../node-records.ts';
import type { NodePod } from '../../node-pods.ts';
import type { Family, Projection, RecordContext, Sample, UnderWay } from '../instruments.ts';
import { counter, gauge, histogram, Instruments, MS_PER_SECOND, podContextAt, podUidAt } from '../instruments.ts';

const BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600];
const LOCAL_PLUGIN = 'kubernetes.io/local-volume';
const NFS_PLUGIN = 'kubernetes.io/nfs';
const PLUGINS: readonly (readonly [kind: keyof Volume, plugin: string])[] = [
  ['emptyDir', 'kubernetes.io/empty-dir'],
  ['configMap', 'kubernetes.io/configmap'],
  ['secret', 'kubernetes.io/secret'],
  ['downwardAPI', 'kubernetes.io/downward-api'],
  ['projected', 'kubernetes.io/projected'],
  ['image', 'kubernetes.io/image'],
  ['hostPath', 'kubernetes.io/host-path'],
  ['nfs', NFS_PLUGIN],
];

/** Upstream's name of a volume's plug-in. A claim is bound to a path of the host, or to a volume of a CSI driver. */
const pluginOf = (volume: Volume | undefined, driver?: string): string =>
  driver === undefined
    ? (PLUGINS.find(([kind]) => volume?.[kind] !== undefined)?.[1] ?? 'kubernetes.io/host-path')
    : driverPlugin(driver);
/** The plug-in of a volume behind a claim, from the path of the volume in the folder of its pod. */
const pluginAt = (path = ''): string | undefined =>
  [LOCAL_PLUGIN, NFS_PLUGIN].find((plugin) => path.includes(`/volumes/${plugin.replace('/', '~')}/`));
/** The plugin of a disk of a storage network is the driver itself. */
const driverPlugin = (driver: string): string => (isDiskPlugin(driver) ? driver : `kubernetes.io/csi:${driver}`);

/** Plug-ins of volumes that may be behind claims, by the way in which they are set up. */
const PLUGINS_OF_KINDS: Partial<Record<VolumeSetUp['kind'], string>> = {
  local: LOCAL_PLUGIN,
  device: LOCAL_PLUGIN,
  nfs: NFS_PLUGIN,
};

/** Upstream's names of the calls to CSI drivers; staging is a part of mounting. */
const DRIVER_OPERATIONS: Readonly<Record<string, string>> = {
  'csi.publish': 'volume_mount',
  'csi.unpublish': 'volume_unmount',
  'csi.unstage': 'unmount_device',
  'csi.expand': 'volume_fs_resize',
  'disk.setUp': 'volume_mount',
  'disk.tearDown': 'volume_unmount',
  'disk.detach': 'unmount_device',
};
const BLOCK_OPERATIONS: Readonly<Record<string, string>> = {
  'csi.publish': 'map_volume',
  'csi.unpublish': 'unmap_volume',
  'csi.unstage': 'unmap_device',
  'disk.setUp': 'map_volume',
  'disk.tearDown': 'unmap_volume',
  'disk.detach': 'unmap_device',
};
function operationOf({ name, input }: UnderWay): string {
  const ofDisk = 'isBlock' in input ? input.isBlock : 'mount' in input && input.mount.map !== null;
  const isBlock = 'block' in input ? input.block : ofDisk;
  return (isBlock ? BLOCK_OPERATIONS[name] : undefined) ?? DRIVER_OPERATIONS[name]!;
}
const ACCESS = 'volume_apply_access_control';
const FAILED_VOLUME = /^MountVolume\.SetUp failed for volume "(?<name>[^"]+)"/;
const DRIVERS_ACTOR = 'kubelet/csiVolumes';
const DRIVER_ACTOR = /^kubelet\/csiVolumes\/[^/]+/;

/** The fields that are read from the context of a driver's volume. */
export interface DriverVolume {
  readonly pod?: { readonly uid: string };
  readonly volume: { readonly name: string; readonly driver: string };
}

/** A volume of a pod, from the first request to set it up. */
interface SetUpVolume {
  readonly plugin: string;
  /** Since when it is not set up; `null` if it is. */
  readonly sinceMs: number | null;
}

/** A call to a driver; its volume is read at the start, because the actor may have ended with the answer. */
interface DriverCall {
  readonly plugin: string;
  /** The pod and the volume. */
  readonly key: string;
}

interface StorageOperation {
  readonly plugin: string;
  readonly operation_name: string;
  readonly isDone: boolean;
}

export class StorageMetrics extends Instruments implements Projection {
  readonly recordKinds = ['effect', 'result', 'cancel', 'message'] as const;
  readonly #volumes = new Map<string, Map<string, SetUpVolume>>();
  /** By pod and name, since when a volume of a driver is wanted and not published. */
  readonly #wanted = new Map<string, number>();
  readonly #calls = new Map<number, DriverCall>();
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
    if (record.k === 'message') this.#readMessage(record, kernel);
    else if (record.k === 'effect' && record.name === 'cri.runPodSandbox') {
      this.#usedInPlace(podUidAt(record.at), specVolumes(record.at, kernel));
    } else if (record.k === 'effect' && DRIVER_OPERATIONS[record.name] !== undefined) {
      this.#calls.set(record.id, callAt(record.at, kernel));
    } else if (record.k === 'effect' && record.name === 'volume.setUp') {
      this.#begin(podUidAt(record.at), record.input.volumes, specVolumes(record.at, kernel), kernel.now);
    } else if (record.k === 'cancel') this.#calls.delete(record.id);
    else if (record.k !== 'result' || !request) return;
    else if (this.#calls.has(record.id)) this.#called(record, request, kernel.now);
    else if (record.name === 'volume.setUp' && request.name === 'volume.setUp') {
      const failures = new Set((record.output?.failed ?? []).map(({ name }) => name));
      for (const volume of request.input.volumes) {
        this.#done(request, volume, record.error === undefined && !failures.has(volume.name), kernel.now);
      }
    } else if (request.name === 'volume.tearDown') this.#tornDown(request, !record.error, kernel.now);
  }

  #readMessage({ from, to, event }: NodeMessageRecord, kernel: RecordContext['kernel']): void {
    if (event.type === 'event.recorded') this.#reported(from, event, kernel);
    else if (event.type === 'status.removed') this.#removed(event.uid);
    else if (to !== DRIVERS_ACTOR) return;
    else if (event.type === 'csi.wanted') {
      for (const { name, driver } of event.volumes) {
        const key = `${event.pod.uid}/${name}`;
        if (this.#wanted.has(key)) continue;
        this.#wanted.set(key, kernel.now);
        this.#verified(driverPlugin(driver));
      }
    } else if (event.type === 'csi.released') {
      for (const key of this.#wanted.keys()) if (key.startsWith(`${event.uid}/`)) this.#wanted.delete(key);
    }
  }

  /** Counts a failure before any request, because an object of the volume is missing. */
  #reported(from: string, { reason, message }: EventRecorded, kernel: RecordContext['kernel']): void {
    const uid = podUidAt(from);
    const name = reason === 'FailedMount' ? FAILED_VOLUME.exec(message)?.groups?.['name'] : undefined;
    if (uid === '' || name === undefined || this.#volumes.get(uid)?.has(name)) return;
    const volume = specVolumes(from, kernel).find((each) => each.name === name);
    if (volume) this.#add({ plugin: pluginOf(volume), operation_name: 'volume_mount', isDone: false }, 0);
  }

  /** Volumes that need no request are mounted when the sandbox of their pod starts. */
  #usedInPlace(uid: string, volumes: readonly Volume[]): void {
    const known = this.#volumes.get(uid) ?? new Map<string, SetUpVolume>();
    this.#volumes.set(uid, known);
    for (const volume of volumes) {
      if (known.has(volume.name) || (volume.image === undefined && volume.hostPath === undefined)) continue;
      const plugin = pluginOf(volume);
      known.set(volume.name, { plugin, sinceMs: null });
      this.#verified(plugin);
      this.#add({ plugin, operation_name: 'volume_mount', isDone: true }, 0);
      this.#overall(plugin, 0);
    }
  }

  #removed(uid: string): void {
    for (const { plugin } of this.#volumes.get(uid)?.values() ?? [])
      this.#add({ plugin, operation_name: 'volume_unmount', isDone: true }, 0);
    this.#volumes.delete(uid);
  }

  #called({ id, error }: NodeResult, request: UnderWay, nowMs: number): void {
    const { plugin, key } = this.#calls.get(id)!;
    this.#calls.delete(id);
    const isDone = !error;
    this.#observe(request, { plugin, operation_name: operationOf(request), isDone }, nowMs);
    if (request.name !== 'csi.publish' && request.name !== 'disk.setUp') return;
    if (request.input.ownership) this.#observe(request, { plugin, operation_name: ACCESS, isDone }, nowMs);
    const sinceMs = this.#wanted.get(key);
    if (!isDone || sinceMs === undefined || sinceMs === Number.POSITIVE_INFINITY) return;
    this.#wanted.set(key, Number.POSITIVE_INFINITY);
    const isBlock = request.name === 'disk.setUp' ? request.input.mount.map !== null : request.input.block;
    if (!isBlock) this.#overall(plugin, nowMs - sinceMs);
  }

  #begin(uid: string, wanted: readonly VolumeSetUp[], volumes: readonly Volume[], nowMs: number): void {
    const known = this.#volumes.get(uid) ?? new Map<string, SetUpVolume>();
    this.#volumes.set(uid, known);
    for (const { name, kind } of wanted) {
      if (known.has(name)) continue;
      const plugin = PLUGINS_OF_KINDS[kind] ?? pluginOf(volumes.find((each) => each.name === name));
      known.set(name, { plugin, sinceMs: nowMs });
      this.#verified(plugin);
    }
  }

  /** A volume that needs no attachment, or was attached before, is verified at once. */
  #verified(plugin: string): void {
    this.#add({ plugin, operation_name: 'verify_controller_attached_volume', isDone: true }, 0);
  }

  #done(request: UnderWay, volume: VolumeSetUp, isDone: boolean, nowMs: number): void {
    const known = this.#volumes.get(podUidAt(request.address));
    const { plugin, sinceMs } = known?.get(volume.name) ?? { plugin: pluginOf(undefined), sinceMs: null };
    const operation_name = volume.kind === 'device' ? 'map_volume' : 'volume_mount';
    this.#observe(request, { plugin, operation_name, isDone }, nowMs);
    if (changesGroup(volume)) this.#observe(request, { plugin, operation_name: ACCESS, isDone }, nowMs);
    if (!isDone || sinceMs === null) return;
    known?.set(volume.name, { plugin, sinceMs: null });
    if (volume.kind !== 'device') this.#overall(plugin, nowMs - sinceMs);
  }

  #tornDown(request: UnderWay, isDone: boolean, nowMs: number): void {
    const uid = podUidAt(request.address);
    const known = this.#volumes.get(uid) ?? new Map<string, SetUpVolume>();
    if (isDone) this.#volumes.delete(uid);
    for (const { plugin } of known.values()) {
      this.#observe(request, { plugin, operation_name: 'volume_unmount', isDone }, nowMs);
    }
  }

  #overall(plugin_name: string, ms: number): void {
    this.#whole.observe({ plugin_name, operation_name: 'overall_volume_mount' }, ms / MS_PER_SECOND);
  }

  #observe({ sinceMs }: UnderWay, operation: StorageOperation, nowMs: number): void {
    this.#add(operation, nowMs - sinceMs);
  }

  #add({ plugin, operation_name, isDone }: StorageOperation, ms: number): void {
    const status = isDone ? 'success' : 'fail-unknown';
    const labels = { volume_plugin: plugin, operation_name, status, migrated: 'false' };
    this.#operations.observe(labels, ms / MS_PER_SECOND);
  }
}

/** Whether the files of the volume get the group of the pod. */
const changesGroup = (volume: VolumeSetUp): boolean =>
  'groupId' in volume ? volume.groupId !== null : volume.kind === 'local' && volume.ownership !== null;

const specVolumes = (address: string, kernel: RecordContext['kernel']): readonly Volume[] =>
  usedVolumes(podContextAt(address, kernel)?.pod ?? null);

/** The volumes that containers use; other volumes are not set up, and do not count. */
function usedVolumes(pod: Pod | null): readonly Volume[] {
  if (pod === null) return [];
  const { mounts, devices } = usesOf(pod);
  return (pod.spec.volumes ?? []).filter(({ name }) => mounts.has(name) || devices.has(name));
}

function callAt(address: string, kernel: RecordContext['kernel']): DriverCall {
  const actor = DRIVER_ACTOR.exec(address)?.[0] ?? '';
  const { pod, volume } = contextOf<DriverVolume>(kernel, actor) ?? {};
  return { plugin: driverPlugin(volume?.driver ?? ''), key: `${pod?.uid}/${volume?.name}` };
}

/** The wanted volumes of pods, and those that are set up; `ofDrivers` are the CSI drivers' volumes. */
export function volumeCounts(pods: readonly NodePod[], ofDrivers: readonly DriverVolume[]): Family {
  const drivers = new Map(ofDrivers.map(({ pod, volume }) => [`${pod?.uid}/${volume.name}`, volume.driver]));
  const counts = new Map<string, number>();
  const add = (plugin_name: string, state: string) => {
    const key = JSON.stringify({ plugin_name, state });
    counts.set(key, (counts.get(key) ?? 0) + 1);
  };
  for (const { uid, pod, status, mounted, claims = {} } of pods) {
    const isOver = status?.phase === 'Succeeded' || status?.phase === 'Failed';
    for (const volume of usedVolumes(pod)) {
      const plugin = pluginAt(claims[volume.name]?.path) ?? pluginOf(volume, drivers.get(`${uid}/${volume.name}`));
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
