/**
 * Usage of the node and its pods, read at each request: the counterpart of cAdvisor.
 *
 * Decides: nothing. Owns: the last CPU counter of each cgroup, for rates.
 * Invariants: no timer and no thread; a missing source only loses its own fields; the usage of a container is read from
 * its cgroup, or from the runtime if it has no cgroup; a long list of pods never blocks the event loop for long.
 */

import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import { OperationError, toPlainError } from '../../kernel/json.ts';
import type { StatsPlace } from '../../machines/model/operations/stats.ts';
import { type CgroupSample, cgroupSamples, Rates } from './cgroup-samples.ts';
import {
  createdAtMs,
  type Hierarchy,
  hierarchyOf,
  type PodCgroup,
  podCgroups,
  processCount,
  readUsage,
} from './cgroup-usage.ts';
import { type FileSystemUsage, fileSystemUsage } from './disk-usage.ts';
import { ImageNames } from './image-names.ts';
import type { Inventory, RunningContainer, RunningPod, RuntimeCall, RuntimeFileSystems } from './inventory.ts';
import { inventory, podLayers, runtimeFileSystems } from './inventory.ts';
import { readMeminfo, readNumber, readText } from './kernel-text.ts';
import { type DiskSample, machineDisks, nodeInterfaces, processInterfaces } from './machine-devices.ts';
import { etcHosts, type OnVolume, type PodPlace, type PodStorage, podLogs, podVolumes } from './pod-folders.ts';
import type { ClaimPlaces, Usage } from './summary-parts.ts';
import {
  claimStats,
  fileSystemStats,
  layerStats,
  networkStats,
  partStats,
  runtimeUsage,
  sumOf,
  sumOfFolders,
  timeOf,
  usageOf,
  withoutNulls,
} from './summary-parts.ts';
import { countOf } from './topology.ts';
import type { ContainerStats, FsStats, NodeStats, PodStats, Summary, VolumeStats } from './usage-types.ts';

export interface StatsOptions {
  /** Prefix of /proc and /sys, for a machine that is described by files. */
  readonly root?: string;
  readonly call: RuntimeCall;
  readonly now?: () => number;
  readonly onVolume?: OnVolume;
}

export interface SummaryOptions {
  readonly onlyCpuAndMemory?: boolean;
  /** Folders of volumes are not measured, whose files may be many. */
  readonly withoutVolumes?: boolean;
  readonly claims?: Readonly<Record<string, ClaimPlaces>>;
  /** By pod uid, the statistics that drivers report of its volumes. */
  readonly ofDrivers?: Readonly<Record<string, readonly VolumeStats[]>>;
  readonly signal?: AbortSignal;
}

/** The first request has no earlier counters to compare with: a short sample gives a first rate. */
const FIRST_WINDOW_MS = 100;
/** Pods read between two turns of the event loop. */
const PODS_AT_ONCE = 8;
/** Pods whose folders are walked in parallel: more would not be faster, because the disk limits the rate. */
const FOLDERS_AT_ONCE = 2;

/** Upstream's texts for a runtime that does not answer the first of its questions. */
const NO_FILE_SYSTEMS = 'failed to get imageFs stats';
const NO_LIST = 'failed to list pod stats: failed to get pod or container map: failed to list all containers';

/** How long metrics of cgroups wait for the runtime, which only names what is there. */
const NAMES_TIMEOUT_MS = 3_000;
const NOTHING_RUNS: Inventory = { pods: [], imageFs: null, containerFs: null };

interface Reading {
  readonly node: StatsPlace;
  readonly options: SummaryOptions;
  readonly hierarchy: Hierarchy;
  readonly running: Inventory;
  readonly cgroups: ReadonlyMap<string, PodCgroup>;
  readonly rootFs: FileSystemUsage | null;
  readonly imageFs: FileSystemUsage | null;
  readonly containerFs: FileSystemUsage | null;
}

export class StatsReader {
  readonly root: string;
  readonly now: () => number;
  readonly #call: RuntimeCall;
  readonly #onVolume: OnVolume;
  readonly #rates = new Rates();
  /** When the agent started, as far as clients see. */
  readonly #startedAtMs: number;
  readonly #images: ImageNames;
  #running = NOTHING_RUNS;
  readonly #folders = pLimit(FOLDERS_AT_ONCE);
  #hierarchy: Promise<Hierarchy> | null = null;
  #levels: Readonly<Record<'books' | 'drawers', number>> | null = null;

  constructor({ root = '', call, now = Date.now, onVolume = () => {} }: StatsOptions) {
    this.#onVolume = onVolume;
    this.root = root;
    this.#call = call;
    this.#images = new ImageNames(call);
    this.now = now;
    this.#startedAtMs = now();
  }

  hierarchy(): Promise<Hierarchy> {
    this.#hierarchy ??= hierarchyOf(this.root);
    this.#hierarchy.catch(() => (this.#hierarchy = null));
    return this.#hierarchy;
  }

  inventory(signal?: AbortSignal): Promise<Inventory> {
    return inventory(this.#call, signal);
  }

  /** Fails when the runtime does not answer. */
  fileSystems(signal?: AbortSignal): Promise<RuntimeFileSystems> {
    return runtimeFileSystems(this.#call, signal);
  }

  /** /stats/summary. Fails when the machine has no cgroups or the runtime does not answer. */
  async summary(node: StatsPlace, options: SummaryOptions = {}): Promise<Summary> {
    const reading = await this.#begin(node, options);
    await this.#firstRates(reading);
    const pods: PodStats[] = [];
    for (const [index, pod] of reading.running.pods.entries()) {
      if (index % PODS_AT_ONCE === PODS_AT_ONCE - 1) await setImmediate();
      pods.push(this.#pod(reading, pod));
    }
    const withDisk = options.onlyCpuAndMemory
      ? pods
      : await Promise.all(pods.map((pod) => this.#folders(() => this.#disk(reading, pod))));
    this.#rates.prune(this.now());
    return { node: this.#node(reading), pods: withDisk };
  }

  /** This node's cgroups with all their counters, named by pod and container where they are: for /metrics/cadvisor. */
  async cgroups(node: StatsPlace): Promise<CgroupSample[]> {
    const [hierarchy, running] = await Promise.all([this.hierarchy(), this.#lastInventory()]);
    const { podsCgroup } = node;
    const systemCgroups = Object.values(node.systemCgroups);
    const images = await this.#images.of(running);
    return await cgroupSamples({
      hierarchy,
      running,
      images,
      podsCgroup,
      systemCgroups,
      root: this.root,
      now: this.now,
    });
  }

  /** What runs according to the runtime, or did when it answered last: cgroups outlive a restart of the runtime. */
  async #lastInventory(): Promise<Inventory> {
    try {
      this.#running = await this.inventory(AbortSignal.timeout(NAMES_TIMEOUT_MS));
    } catch {
      // The last answer is used.
    }
    return this.#running;
  }

  /** The machine's own file systems and disks. */
  disks(): Promise<DiskSample[]> {
    return machineDisks(this.root, this.now);
  }

  /** The numbers of books and drawers; most machines have none. */
  levels(): Readonly<Record<'books' | 'drawers', number>> {
    this.#levels ??= { books: countOf(this.root, 'book'), drawers: countOf(this.root, 'drawer') };
    return this.#levels;
  }

  /** The usage of the node's disk by one pod. The runtime is asked only for writable layers. */
  async podStorage(place: PodPlace, withLayers: boolean, signal: AbortSignal): Promise<PodStorage> {
    const [volumes, logs, hosts, layers] = await Promise.all([
      podVolumes(place, signal, this.#onVolume),
      podLogs(place),
      etcHosts(place),
      withLayers ? podLayers(this.#call, place.uid, signal) : new Map<string, bigint>(),
    ]);
    return { volumes, logs, hosts, layers };
  }

  async #begin(node: StatsPlace, options: SummaryOptions): Promise<Reading> {
    const listed = this.inventory(options.signal).catch((error: unknown) => {
      const { message, ...known } = toPlainError(error);
      throw new OperationError(`${options.onlyCpuAndMemory ? NO_LIST : NO_FILE_SYSTEMS}: ${message}`, known);
    });
    const [hierarchy, running] = await Promise.all([this.hierarchy(), listed]);
    const cgroups = new Map(podCgroups(hierarchy, node.podsCgroup).map((pod) => [pod.uid, pod]));
    const [rootFs, imageFs, containerFs] = await Promise.all([
      fileSystemUsage(node.rootDir),
      fileSystemUsage(running.imageFs?.fs_id?.mountpoint ?? node.rootDir),
      fileSystemUsage(running.containerFs?.fs_id?.mountpoint ?? node.rootDir),
    ]);
    return { node, options, hierarchy, running, cgroups, rootFs, imageFs, containerFs };
  }

  /** Reads cgroups that have no recent reading once before the real reading, so that they have a rate. */
  async #firstRates({ hierarchy, node, cgroups }: Reading): Promise<void> {
    const containers = [...cgroups.values()].flatMap((pod) => [pod.cgroup, ...pod.containers.values()]);
    const { kubelet, runtime, misc } = node.systemCgroups;
    const atMs = this.now();
    const counted = ['/', node.podsCgroup, kubelet, runtime, misc, ...containers]
      .filter((cgroup) => cgroup !== '' && this.#rates.needsReading(cgroup, atMs))
      .filter((cgroup) => this.#usage(hierarchy, cgroup).cpu !== null);
    if (counted.length > 0) await sleep(FIRST_WINDOW_MS);
  }

  #usage(hierarchy: Hierarchy, cgroup: string): Usage {
    const atMs = this.now();
    const usage = readUsage(hierarchy, cgroup, this.root);
    const rate = usage.cpu === null ? null : this.#rates.note(cgroup, atMs, usage.cpu.usage);
    return usageOf(usage, atMs, rate);
  }

  #node(reading: Reading): NodeStats {
    const { node, options, hierarchy, running, rootFs, imageFs, containerFs } = reading;
    const usage = this.#usage(hierarchy, '/');
    const { atMs } = usage;
    const common = {
      nodeName: node.nodeName,
      systemContainers: this.#systemContainers(reading),
      startTime: timeOf(options.onlyCpuAndMemory ? this.#createdAtMs(hierarchy, '/') : this.#bootedAtMs()),
      ...withoutNulls({ cpu: usage.cpu, memory: usage.memory, swap: usage.swap }),
    };
    if (options.onlyCpuAndMemory) return common;
    return {
      ...common,
      io: usage.io,
      network: networkStats(nodeInterfaces(this.root), atMs),
      ...withoutNulls({ fs: rootFs && fileSystemStats(rootFs, atMs) }),
      runtime: withoutNulls({
        imageFs: layerStats(running.imageFs, imageFs),
        containerFs: layerStats(running.containerFs, containerFs),
      }),
      ...withoutNulls({ rlimit: this.processes() }),
    };
  }

  #systemContainers({ node, hierarchy, options }: Reading): ContainerStats[] {
    const { kubelet, runtime, misc } = node.systemCgroups;
    const known: [string, string][] = [
      ['kubelet', kubelet],
      ['runtime', runtime],
      ['misc', misc],
      ['pods', node.podsCgroup],
    ];
    return known.flatMap(([name, cgroup]) => {
      if (cgroup === '') return [];
      const { cpu, memory, io, swap } = this.#usage(hierarchy, cgroup);
      if (cpu === null && memory === null) return [];
      const startTime = timeOf(name === 'kubelet' ? this.#startedAtMs : this.#createdAtMs(hierarchy, cgroup));
      return [{ name, startTime, ...withoutNulls({ cpu, memory, io: options.onlyCpuAndMemory ? null : io, swap }) }];
    });
  }

  #createdAtMs(hierarchy: Hierarchy, cgroup: string): number {
    return createdAtMs(hierarchy, cgroup) ?? this.#bootedAtMs();
  }

  #bootedAtMs(): number {
    const seconds = /^btime (\d+)$/m.exec(readText(`${this.root}/proc/stat`) ?? '')?.[1];
    return Number(seconds ?? 0) * 1_000;
  }

  /** The maximum and the current number of processes; `null` if the machine does not report them. */
  processes(): { time: string; maxpid: bigint; curproc: bigint } | null {
    const maxPid = readNumber(`${this.root}/proc/sys/kernel/pid_max`);
    const maxThreads = readNumber(`${this.root}/proc/sys/kernel/threads-max`);
    const current = /^\S+ \S+ \S+ \d+\/(\d+) /.exec(readText(`${this.root}/proc/loadavg`) ?? '')?.[1];
    if (maxPid === null || current === undefined) return null;
    const maxpid = maxThreads !== null && maxThreads < maxPid ? maxThreads : maxPid;
    return { time: timeOf(this.now()), maxpid, curproc: BigInt(current) };
  }

  /** Memory of the machine, in bytes. */
  memoryTotal(): bigint {
    return readMeminfo(this.root).get('MemTotal') ?? 0n;
  }

  #pod(reading: Reading, pod: RunningPod): PodStats {
    const { hierarchy, cgroups, options } = reading;
    const cgroup = cgroups.get(pod.uid);
    const containers = pod.containers.map((container) => this.#container(reading, cgroup, container));
    const usage =
      cgroup === undefined
        ? sumOf(
            containers.map(({ usage }) => usage),
            this.now(),
          )
        : this.#usage(hierarchy, cgroup.cgroup);
    const { uid, name, namespace } = pod;
    const common = {
      podRef: { name, namespace, uid },
      startTime: timeOf(pod.createdAtMs),
      containers: containers.map(({ stats }) => stats),
      ...withoutNulls({ cpu: usage.cpu, memory: usage.memory, swap: usage.swap }),
    };
    if (options.onlyCpuAndMemory) return common;
    const interfaces = this.#podInterfaces(hierarchy, cgroup, pod);
    return {
      ...common,
      io: usage.io,
      ...(interfaces === null ? {} : { network: networkStats(interfaces, usage.atMs) }),
      ...withoutNulls({ process_stats: processStats(hierarchy, cgroup, pod) }),
    };
  }

  #container(reading: Reading, pod: PodCgroup | undefined, container: RunningContainer) {
    const cgroup = pod?.containers.get(container.id);
    const usage = cgroup === undefined ? runtimeUsage(container.stats ?? {}) : this.#usage(reading.hierarchy, cgroup);
    const stats: ContainerStats = {
      name: container.name,
      startTime: timeOf(container.createdAtMs),
      ...withoutNulls({ cpu: usage.cpu, memory: usage.memory, io: reading.options.onlyCpuAndMemory ? null : usage.io }),
      ...withoutNulls({ swap: usage.swap }),
    };
    return { usage, stats };
  }

  /** The network of a pod is that of any process in its sandbox. */
  #podInterfaces(hierarchy: Hierarchy, cgroup: PodCgroup | undefined, pod: RunningPod) {
    const folders = [pod.sandboxId, ...pod.containers.map(({ id }) => id)].flatMap((id) => {
      const path = cgroup?.containers.get(id);
      return path === undefined ? [] : (hierarchy.folder('memory', path) ?? []);
    });
    for (const folder of folders) {
      const pid = Number(readText(`${folder}/cgroup.procs`)?.split('\n')[0] ?? '');
      if (pid > 0) return processInterfaces(this.root, pid);
    }
    return null;
  }

  async #disk(reading: Reading, stats: PodStats): Promise<PodStats> {
    const { node, options, running, rootFs, containerFs } = reading;
    const atMs = this.now();
    const place = { ...stats.podRef, rootDir: node.rootDir, podLogsDir: node.podLogsDir };
    const pod = running.pods.find(({ uid }) => uid === stats.podRef.uid);
    const [volumes, logs, hosts] = await Promise.all([
      options.withoutVolumes ? [] : podVolumes(place, options.signal, this.#onVolume),
      podLogs(place),
      etcHosts(place),
    ]);
    const containers = stats.containers.map((container) => {
      const layer = pod?.containers.find(({ name }) => name === container.name)?.stats?.writable_layer;
      const log = logs.get(container.name);
      return {
        ...container,
        ...withoutNulls({
          rootfs: layerStats(layer, containerFs),
          logs: rootFs && log ? partStats(rootFs, log.used, log.inodes, atMs) : null,
        }),
      };
    });
    const places = options.claims?.[stats.podRef.uid] ?? {};
    const ofClaims = new Set(Object.values(places).map(({ path }) => path));
    const folderVolumes = volumes.flatMap(({ name, path, used, inodesUsed, fileSystem }): VolumeStats[] =>
      ofClaims.has(path) ? [] : [{ name, ...partStats(fileSystem, used, inodesUsed, atMs) }],
    );
    const ofDrivers = options.ofDrivers?.[stats.podRef.uid] ?? [];
    const volume = [...folderVolumes, ...(await claimStats(stats.podRef.namespace, places, atMs)), ...ofDrivers];
    const ephemeral = sumOfFolders([
      ...containers.map(({ rootfs }) => ({ used: rootfs?.usedBytes ?? 0n, inodes: rootfs?.inodesUsed ?? 0n })),
      ...volumes.filter(({ isEphemeral }) => isEphemeral).map((each) => ({ used: each.used, inodes: each.inodesUsed })),
      ...logs.values(),
      hosts,
    ]);
    const total: FsStats | null = rootFs && partStats(rootFs, ephemeral.used, ephemeral.inodes, atMs);
    return {
      ...stats,
      containers,
      ...(volume.length === 0 ? {} : { volume }),
      ...withoutNulls({ 'ephemeral-storage': total }),
    };
  }
}

/** The processes of a pod are those of its containers, without that of its sandbox. */
function processStats(hierarchy: Hierarchy, cgroup: PodCgroup | undefined, pod: RunningPod) {
  const counts = pod.containers.flatMap(({ id }) => {
    const path = cgroup?.containers.get(id);
    return path === undefined ? [] : (processCount(hierarchy, path) ?? []);
  });
  return counts.length === 0 ? null : { process_count: BigInt(counts.reduce((sum, count) => sum + count)) };
}
