/**
 * The cgroups of this node with all counters, and their pods and containers: the source of /metrics/cadvisor. Also
 * rates of CPU use.
 *
 * Invariants: only the root, the tree of the pods and the configured cgroups are read, as upstream; other processes of
 * the machine cost nothing. Depth and number are limited.
 */
import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import {
  below,
  createdAtMs,
  type Hierarchy,
  podCgroups,
  processCount,
  processesOf,
  readUsage,
} from './cgroup-usage.ts';
import type { Inventory, RunningPod } from './inventory.ts';
import { readNumber, readText } from './kernel-text.ts';
import { type InterfaceUsage, nodeInterfaces, processInterfaces } from './machine-devices.ts';
import type { CgroupUsage } from './usage-types.ts';

/** As the labels of cAdvisor's metrics. */
export interface CgroupLabels {
  readonly container: string;
  readonly pod: string;
  readonly namespace: string;
  readonly image: string;
  /** The container's id. */
  readonly name: string;
}

/** The scheduler's limits; `null` without a limit. */
interface CgroupLimits {
  readonly cpuShares: bigint | null;
  readonly cpuQuotaUs: bigint | null;
  readonly cpuPeriodUs: bigint | null;
}

export interface CgroupSample {
  readonly cgroup: string;
  readonly atMs: number;
  readonly startedAtMs: number | null;
  readonly usage: CgroupUsage;
  readonly processes: number | null;
  readonly limits: CgroupLimits;
  /**
   * The labels of a container's or pod's cgroup; the labels of a pod's cgroup have an empty `container`, `image` and
   * `name`. `null` for other cgroups.
   */
  readonly labels: CgroupLabels | null;
  /** For the machine (`/`) and each pod's sandbox; else `null`. */
  readonly interfaces: readonly InterfaceUsage[] | null;
  /** `null` if the processes are unknown, or too many to inspect. */
  readonly files: ProcessFiles | null;
}

interface Question {
  readonly hierarchy: Hierarchy;
  readonly running: Inventory;
  /** The names of images, by id of a container or sandbox. */
  readonly images: ReadonlyMap<string, string>;
  readonly podsCgroup: string;
  /** The cgroups of the agent, the runtime and the system that the configuration names. */
  readonly systemCgroups: readonly string[];
  readonly root: string;
  readonly now: () => number;
}

/** The limit of levels: no deeper cgroup belongs to a pod or a service. */
const MAX_DEPTH = 8;
/** The limit of cgroups: more than a node with 250 pods has. */
const MAX_CGROUPS = 5_000;
/** Cgroups read between two turns of the event loop. */
const READ_AT_ONCE = 16;

export async function cgroupSamples(question: Question): Promise<CgroupSample[]> {
  const { hierarchy, podsCgroup, systemCgroups, root, now } = question;
  const named = labelsOf(question);
  const samples: CgroupSample[] = [];
  for (const cgroup of walk(hierarchy, [podsCgroup, ...systemCgroups])) {
    const known = named.get(cgroup);
    samples.push({
      cgroup,
      atMs: now(),
      startedAtMs: createdAtMs(hierarchy, cgroup),
      usage: readUsage(hierarchy, cgroup, root),
      processes: processCount(hierarchy, cgroup),
      limits: limitsOf(hierarchy, cgroup),
      labels: known?.labels ?? null,
      files: filesOf(question, cgroup, (known?.labels.name ?? '') !== ''),
      interfaces: cgroup === '/' ? nodeInterfaces(root) : known?.isSandbox ? sandboxInterfaces(question, cgroup) : null,
    });
    if (samples.length % READ_AT_ONCE === 0) await setImmediate();
  }
  return samples;
}

/** The root itself, and each of `tops` with everything below it, once. */
function walk(hierarchy: Hierarchy, tops: readonly string[]): string[] {
  const found = new Set(['/']);
  // Where the configuration names the root cgroup, upstream prints the whole machine; here it is not printed.
  let level = tops.filter((top) => top !== '' && top !== '/' && isThere(hierarchy, top));
  for (let depth = 0; depth < MAX_DEPTH && level.length > 0; depth += 1) {
    for (const cgroup of level.slice(0, MAX_CGROUPS - found.size)) found.add(cgroup);
    if (found.size >= MAX_CGROUPS) break;
    level = level.flatMap((parent) => hierarchy.children(parent).map((name) => below(parent, name)));
  }
  return [...found];
}

const isThere = (hierarchy: Hierarchy, cgroup: string): boolean =>
  existsSync(hierarchy.folder('memory', cgroup) ?? hierarchy.folder('cpuacct', cgroup) ?? '');

interface Named {
  readonly labels: CgroupLabels;
  readonly isSandbox: boolean;
}

function labelsOf({ hierarchy, running, images, podsCgroup }: Question): Map<string, Named> {
  const pods = new Map(running.pods.map((pod) => [pod.uid, pod]));
  const named = new Map<string, Named>();
  for (const { uid, cgroup, containers } of podCgroups(hierarchy, podsCgroup)) {
    const pod = pods.get(uid);
    if (pod === undefined) continue;
    named.set(cgroup, { labels: podLabels(pod, '', '', ''), isSandbox: false });
    for (const [id, path] of containers) {
      const container = pod.containers.find((each) => each.id === id);
      const isSandbox = id === pod.sandboxId;
      const image = images.get(id) ?? container?.imageIds[0] ?? '';
      if (container || isSandbox) {
        named.set(path, { labels: podLabels(pod, container?.name ?? '', image, id), isSandbox });
      }
    }
  }
  return named;
}

const podLabels = (pod: RunningPod, container: string, image: string, name: string): CgroupLabels => ({
  container,
  pod: pod.name,
  namespace: pod.namespace,
  image,
  name,
});

function sandboxInterfaces({ hierarchy, root }: Question, cgroup: string): InterfaceUsage[] | null {
  const pid = Number(readText(`${hierarchy.folder('memory', cgroup)}/cgroup.procs`)?.split('\n')[0] ?? '');
  return pid > 0 ? processInterfaces(root, pid) : null;
}

/** As in cAdvisor, limits are those of a container's first process, and for the root those of the machine's. */
function filesOf({ hierarchy, root }: Question, cgroup: string, isContainer: boolean): ProcessFiles | null {
  const pids = processesOf(hierarchy, cgroup);
  if (pids === null) return null;
  return processFiles(pids, root, cgroup === '/' ? '1' : isContainer ? pids[0] : undefined);
}

function limitsOf(hierarchy: Hierarchy, cgroup: string): CgroupLimits {
  const folder = hierarchy.folder('cpu', cgroup);
  if (hierarchy.version === 2) {
    const [quota = 'max', period = ''] = readText(`${folder}/cpu.max`)?.split(' ') ?? [];
    return {
      cpuShares: sharesOfWeight(readNumber(`${folder}/cpu.weight`)),
      cpuQuotaUs: /^\d+$/.test(quota) ? BigInt(quota) : null,
      cpuPeriodUs: /^\d+$/.test(period) ? BigInt(period) : null,
    };
  }
  return {
    cpuShares: readNumber(`${folder}/cpu.shares`),
    cpuQuotaUs: readNumber(`${folder}/cpu.cfs_quota_us`),
    cpuPeriodUs: readNumber(`${folder}/cpu.cfs_period_us`),
  };
}

/** The inverse of how shares of v1 become a weight of v2. */
const sharesOfWeight = (weight: bigint | null): bigint | null =>
  weight === null ? null : 2n + ((weight - 1n) * 262_142n) / 9_999n;

/**
 * Open files of the processes of one cgroup. Format: proc_pid_fd(5). A process that ends during the count has no open
 * files.
 */
interface ProcessFiles {
  readonly open: number;
  /** `null` if there are too many open files to inspect them. */
  readonly sockets: number | null;
  /** The limit of a process; `null` if there is none or it has ended, -1 without a limit. */
  readonly openLimit: number | null;
}

/**
 * Inspecting a file costs a few microseconds, and a database has a hundred thousand connections: a process with more
 * open files is not inspected.
 */
const INSPECTED_MAX = 2_000;
/** Listing the files of a process costs some ten microseconds, and the root cgroup may have all processes. */
const PROCESSES_MAX = 1_000;

/** The open files of these processes; `null` if they are too many. `root` is the prefix of /proc. */
export function processFiles(pids: readonly string[], root: string, limitOf?: string): ProcessFiles | null {
  if (pids.length > PROCESSES_MAX) return null;
  const open = pids.filter((pid) => pid !== '0').flatMap((pid) => descriptors(`${root}/proc/${pid}/fd`));
  const isMuch = open.length > INSPECTED_MAX;
  return {
    open: open.length,
    sockets: isMuch ? null : open.filter(isSocket).length,
    openLimit: limitOf === undefined ? null : openLimit(`${root}/proc/${limitOf}/limits`),
  };
}

function descriptors(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => `${folder}/${name}`);
  } catch {
    return [];
  }
}

function isSocket(path: string): boolean {
  try {
    return readlinkSync(path).startsWith('socket:');
  } catch {
    return false;
  }
}

function openLimit(path: string): number | null {
  const soft = /^Max open files\s+(\S+)/m.exec(readText(path) ?? '')?.[1];
  if (soft === undefined) return null;
  return soft === 'unlimited' ? -1 : Number(soft);
}

/** The shortest window that gives a rate. */
const MIN_WINDOW_MS = 1_000;
/** The longest window that gives a rate: `usageNanoCores` is no average over a longer time. */
const MAX_WINDOW_MS = 300_000;
const NANOS_PER_MILLI = 1_000_000n;
const NANOS_PER_SECOND = 1_000_000_000n;

interface Reading {
  readonly atMs: number;
  readonly usage: bigint;
  readonly rate: bigint | null;
}

/** Whether the earlier reading is too old, or in the future because the clock was set back. */
const isStale = (windowMs: number): boolean => windowMs < 0 || windowMs > MAX_WINDOW_MS;

/**
 * Converts CPU time counters to rates since the last request.
 *
 * Invariants: a counter that decreased (a new cgroup of the same name) has no rate; two requests in quick succession
 * give the same rate, because a short window is imprecise; an unused counter is forgotten; a clock that was set back
 * loses one rate.
 */
export class Rates {
  #last = new Map<string, Reading>();

  /** Nanoseconds of CPU time a second; `null` when this is the first reading. */
  note(key: string, atMs: number, usage: bigint): bigint | null {
    const before = this.#last.get(key);
    const windowMs = before === undefined ? 0 : atMs - before.atMs;
    if (before?.rate != null && windowMs >= 0 && windowMs < MIN_WINDOW_MS) return before.rate;
    const isComparable = before !== undefined && windowMs > 0 && !isStale(windowMs) && usage >= before.usage;
    const nanos = BigInt(Math.round(windowMs)) * NANOS_PER_MILLI;
    const rate = isComparable ? ((usage - before.usage) * NANOS_PER_SECOND) / nanos : null;
    this.#last.set(key, { atMs, usage, rate });
    return rate;
  }

  /** Whether another reading of this key now would have no rate: a short sample gives one first. */
  needsReading(key: string, nowMs: number): boolean {
    const before = this.#last.get(key);
    return before?.rate == null || isStale(nowMs - before.atMs);
  }

  /** Forgets readings that are too old to be compared with a later reading. */
  prune(nowMs: number): void {
    for (const [key, { atMs }] of this.#last) if (isStale(nowMs - atMs)) this.#last.delete(key);
  }
}
