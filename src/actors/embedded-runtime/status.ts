/**
 * The statuses and the stats of sandboxes and containers as CRI reports them, derived from the records.
 *
 * Invariant: the CPU counter of a container never decreases while it runs, even if one of its processes ended without
 * being reaped.
 */
import { statfs } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import type {
  ContainerState,
  ContainerStats,
  ContainerStatus,
  CpuUsage,
  FilesystemUsage,
  Container as ListedContainer,
  MemoryUsage,
  PodSandbox,
  PodSandboxStats,
  PodSandboxStatus,
  StatusResponse,
} from '../../machines/model/api/cri.ts';
import { nowNanos } from './clock.ts';
import { isAlive, membersOf, readMemory } from './process/proc.ts';
import type { SandboxRecord } from './store/records.ts';
import type { Container } from './store/store.ts';

/** Linux counts process time in hundredths of a second on every architecture (USER_HZ). */
const NANOS_PER_TICK = 10_000_000n;
const NANOS_PER_SECOND = 1_000_000_000n;

interface Usage {
  readonly at: bigint;
  readonly cpuNanos: bigint;
  readonly nanoCores: bigint;
  readonly resident: number;
  readonly anonymous: number;
  readonly minorFaults: number;
  readonly majorFaults: number;
  readonly processes: number;
}

export class Stats {
  readonly #root: string;
  /** The latest reading of each container, from which the next rate is computed. */
  readonly #latest = new Map<string, Usage>();

  constructor(root: string) {
    this.#root = root;
  }

  async container(container: Container): Promise<ContainerStats> {
    return statsOf(container, this.#measure(container), await this.filesystem(false));
  }

  async sandbox(sandbox: SandboxRecord, containers: readonly Container[]): Promise<PodSandboxStats> {
    const running = containers.filter((container) => container.running);
    const readings = running.map((container) => ({ container, usage: this.#measure(container) }));
    const writable = await this.filesystem(false);
    const total = readings.map(({ usage }) => usage).reduce(add, nothing());
    return {
      attributes: {
        id: sandbox.id,
        metadata: sandbox.metadata,
        labels: sandbox.labels,
        annotations: sandbox.annotations,
      },
      linux: {
        cpu: cpuOf(total),
        memory: memoryOf(total),
        process: { timestamp: String(total.at), process_count: { value: String(total.processes) } },
        containers: readings.map(({ container, usage }) => statsOf(container, usage, writable)),
      },
    };
  }

  forget(containerId: string): void {
    this.#latest.delete(containerId);
  }

  /** The filesystem of images and containers. Containers write to the host: their own layer is empty. */
  async filesystem(withUsage: boolean): Promise<FilesystemUsage> {
    const { blocks, bfree, bsize, files, ffree } = await statfs(this.#root);
    return {
      timestamp: String(nowNanos()),
      fs_id: { mountpoint: this.#root },
      used_bytes: { value: withUsage ? String((blocks - bfree) * bsize) : '0' },
      inodes_used: { value: withUsage ? String(files - ffree) : '0' },
    };
  }

  #measure({ id, process: leader }: Container): Usage {
    const before = this.#latest.get(id);
    const members = membersOf(id, leader && isAlive(leader) ? leader.pid : undefined);
    const memory = members.map(({ pid }) => readMemory(pid));
    const at = nowNanos();
    const counted = BigInt(sum(members, (one) => one.cpuTicks)) * NANOS_PER_TICK;
    const cpuNanos = before && before.cpuNanos > counted ? before.cpuNanos : counted;
    const nanoCores = before ? ((cpuNanos - before.cpuNanos) * NANOS_PER_SECOND) / (at - before.at) : 0n;
    const usage: Usage = {
      at,
      cpuNanos,
      nanoCores,
      resident: sum(memory, (one) => one.resident),
      anonymous: sum(memory, (one) => one.anonymous),
      minorFaults: sum(members, (one) => one.minorFaults),
      majorFaults: sum(members, (one) => one.majorFaults),
      processes: members.length,
    };
    this.#latest.set(id, usage);
    return usage;
  }
}

function sum<T>(list: readonly T[], value: (one: T) => number): number {
  return list.reduce((total, one) => total + value(one), 0);
}

function nothing(): Usage {
  const at = nowNanos();
  return {
    at,
    cpuNanos: 0n,
    nanoCores: 0n,
    resident: 0,
    anonymous: 0,
    minorFaults: 0,
    majorFaults: 0,
    processes: 0,
  };
}

function add(a: Usage, b: Usage): Usage {
  return {
    at: a.at,
    cpuNanos: a.cpuNanos + b.cpuNanos,
    nanoCores: a.nanoCores + b.nanoCores,
    resident: a.resident + b.resident,
    anonymous: a.anonymous + b.anonymous,
    minorFaults: a.minorFaults + b.minorFaults,
    majorFaults: a.majorFaults + b.majorFaults,
    processes: a.processes + b.processes,
  };
}

function statsOf({ record }: Container, usage: Usage, writable_layer: FilesystemUsage): ContainerStats {
  return {
    attributes: {
      id: record.id,
      metadata: record.metadata,
      labels: record.labels,
      annotations: record.annotations,
    },
    cpu: cpuOf(usage),
    memory: memoryOf(usage),
    writable_layer,
  };
}

function cpuOf({ at, cpuNanos, nanoCores }: Usage): CpuUsage {
  return {
    timestamp: String(at),
    usage_core_nano_seconds: { value: String(cpuNanos) },
    usage_nano_cores: { value: String(nanoCores) },
  };
}

function memoryOf({ at, resident, anonymous, minorFaults, majorFaults }: Usage): MemoryUsage {
  return {
    timestamp: String(at),
    working_set_bytes: { value: String(resident) },
    usage_bytes: { value: String(resident) },
    rss_bytes: { value: String(anonymous) },
    page_faults: { value: String(minorFaults) },
    major_page_faults: { value: String(majorFaults) },
  };
}

export const NO_ISOLATION = 'containers run as plain host processes: no isolation, no limits, no mounts, host network';

export function stateOf(container: Container): ContainerState {
  if (container.exit) return 'CONTAINER_EXITED';
  return container.process ? 'CONTAINER_RUNNING' : 'CONTAINER_CREATED';
}

export function listedContainer(container: Container): ListedContainer {
  const { record } = container;
  return {
    id: record.id,
    pod_sandbox_id: record.sandboxId,
    metadata: record.metadata,
    image: { image: record.image },
    image_ref: record.imageId,
    image_id: record.imageId,
    state: stateOf(container),
    created_at: record.createdAt,
    labels: record.labels,
    annotations: record.annotations,
  };
}

export function containerStatus(container: Container): ContainerStatus {
  const { record, process: running, exit } = container;
  return {
    id: record.id,
    metadata: record.metadata,
    state: stateOf(container),
    created_at: record.createdAt,
    started_at: exit?.startedAt ?? running?.startedAt ?? '0',
    finished_at: exit?.finishedAt ?? '0',
    exit_code: exit?.exitCode ?? 0,
    image: { image: record.image },
    image_ref: record.imageId,
    image_id: record.imageId,
    reason: exit?.reason ?? '',
    message: exit?.message ?? '',
    labels: record.labels,
    annotations: record.annotations,
    mounts: record.mounts,
    log_path: record.logPath,
    user: { linux: userOf(container) },
    stop_signal: record.stopSignal,
  };
}

function userOf({ record }: Container) {
  const uid = record.process.uid ?? process.getuid?.() ?? 0;
  const gid = record.process.gid ?? process.getgid?.() ?? 0;
  return { uid: String(uid), gid: String(gid), supplemental_groups: [] };
}

export function listedSandbox(record: SandboxRecord): PodSandbox {
  return {
    id: record.id,
    metadata: record.metadata,
    state: record.ready ? 'SANDBOX_READY' : 'SANDBOX_NOTREADY',
    created_at: record.createdAt,
    labels: record.labels,
    annotations: record.annotations,
    runtime_handler: '',
  };
}

/**
 * A pod on the host network has no address of its own, as CRI requires; any other pod shares the host's, and reports
 * it.
 */
export function sandboxStatus(record: SandboxRecord): PodSandboxStatus {
  const ip = record.ready && record.namespaces.network !== 'NODE' ? hostAddress() : '';
  return {
    ...listedSandbox(record),
    network: { ip, additional_ips: [] },
    linux: { namespaces: { options: record.namespaces } },
  };
}

/** The first IPv4 address that is reachable by others, or the loopback address. */
function hostAddress(): string {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return addresses.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1';
}

export function runtimeStatus(verbose: boolean, root: string): StatusResponse {
  const condition = (type: string) => ({ type, status: true, reason: 'NoIsolation', message: NO_ISOLATION });
  return {
    status: { conditions: [condition('RuntimeReady'), condition('NetworkReady')] },
    info: verbose ? { config: JSON.stringify({ root, isolation: 'none', pid: process.pid }) } : {},
    runtime_handlers: [{ name: '', features: { recursive_read_only_mounts: false, user_namespaces: false } }],
    features: { supplemental_groups_policy: false, user_namespaces_host_network: false },
  };
}

/** Whether every wanted label has the same value. */
export function hasLabels(
  labels: Readonly<Record<string, string>>,
  selector: Readonly<Record<string, string>> | undefined,
): boolean {
  return Object.entries(selector ?? {}).every(([key, value]) => labels[key] === value);
}
