/**
 * Statistics of CSI volumes in use from their drivers: usage, and health if requested.
 *
 * Invariants: a driver is asked for a volume at most once in the configured period; a hanging driver delays requests
 * only briefly, and its late answer is used for the next request; a driver without statistics is not asked. Upstream:
 * pkg/volume/csi/csi_metrics.go, pkg/kubelet/server/stats/volume_stat_calculator.go.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pLimit, { type LimitFunction } from 'p-limit';
import { callDriver, capabilities } from '../csi/volumes.ts';
import type { OnVolume } from './pod-folders.ts';
import { timeOf } from './summary-parts.ts';
import type { FsStats, VolumeStats } from './usage-types.ts';

/** How long a request waits for drivers. */
const WAIT_MS = 1_000;
/** Volumes that one driver is asked for at once. */
const CALLS_MAX = 4;

/** A volume that containers use. */
export interface StatsVolume {
  readonly uid: string;
  readonly name: string;
  /** The claim of the volume; `null` for a volume that is defined in the pod itself. */
  readonly claim: { readonly namespace: string; readonly name: string } | null;
  readonly driver: string;
  readonly endpoint: string;
  readonly handle: string;
  /** The path of the volume in its pod. */
  readonly path: string;
}

interface DriverStatsOptions {
  /** How long an answer is valid; 0 or less: drivers are not called. */
  readonly periodMs: () => number;
  /** Drivers are also asked for the health of volumes. */
  readonly withHealth: () => boolean;
  readonly onVolume: OnVolume;
  readonly now?: () => number;
  readonly waitMs?: number;
}

type Answer = FsStats & Pick<VolumeStats, 'volumeHealthStats'>;

interface Known {
  readonly askedMs: number;
  /** `null` if the driver has no statistics, or has not answered yet. */
  answer: Answer | null;
  readonly done: Promise<void>;
}

export class DriverStats {
  readonly #options: Required<DriverStatsOptions>;
  readonly #answers = new Map<string, Known>();
  /** A limit of calls for each driver, by endpoint: a hanging driver delays only its own volumes. */
  readonly #calls = new Map<string, LimitFunction>();

  constructor({ now = Date.now, waitMs = WAIT_MS, ...options }: DriverStatsOptions) {
    this.#options = { now, waitMs, ...options };
  }

  /** The statistics that are known of these volumes, which must be all volumes of the node. */
  async of(volumes: readonly StatsVolume[]): Promise<ReadonlyMap<StatsVolume, VolumeStats>> {
    const { periodMs, waitMs } = this.#options;
    if (volumes.length === 0 || periodMs() <= 0) return new Map();
    const questions = volumes.map((volume) => ({ volume, known: this.#ask(volume) }));
    this.#forgetOthers(volumes);
    const late = new AbortController();
    await Promise.race([
      Promise.all(questions.map(({ known }) => known.done)),
      sleep(waitMs, undefined, { signal: late.signal, ref: false }).catch(() => {}),
    ]);
    late.abort();
    const answered = questions.flatMap(({ volume, known: { answer } }): [StatsVolume, VolumeStats][] => {
      return answer === null ? [] : [[volume, { name: volume.name, ...claimOf(volume), ...answer }]];
    });
    return new Map(answered);
  }

  #ask(volume: StatsVolume): Known {
    const { now, periodMs } = this.#options;
    const before = this.#answers.get(volume.path);
    // The clock may have been set back.
    const ageMs = before ? now() - before.askedMs : -1;
    if (before && ageMs >= 0 && ageMs < periodMs()) return before;
    const calls = this.#calls.get(volume.endpoint) ?? pLimit(CALLS_MAX);
    this.#calls.set(volume.endpoint, calls);
    const done = calls(() => this.#fill(volume));
    const known: Known = { askedMs: now(), answer: before?.answer ?? null, done };
    this.#answers.set(volume.path, known);
    return known;
  }

  async #fill(volume: StatsVolume): Promise<void> {
    const beganMs = performance.now();
    const answer = await this.#read(volume).catch(() => null);
    this.#options.onVolume(volume.driver, performance.now() - beganMs);
    const known = this.#answers.get(volume.path);
    if (known) known.answer = answer;
  }

  async #read({ endpoint, handle, path }: StatsVolume): Promise<Answer | null> {
    const { signal } = new AbortController();
    const can = new Set((await capabilities({ endpoint }, signal)).capabilities);
    if (!can.has('GET_VOLUME_STATS')) return null;
    const request = { volume_id: handle, volume_path: path };
    const reply = await callDriver<Reply>(endpoint, 'NodeGetVolumeStats', request, signal);
    const isHealthReported = this.#options.withHealth() && can.has('VOLUME_CONDITION');
    if (reply.usage.length === 0 && !isHealthReported) return null;
    const abnormal = reply.volume_condition?.abnormal ?? false;
    return {
      ...usageOf(reply.usage, this.#options.now()),
      ...(isHealthReported ? { volumeHealthStats: { abnormal } } : {}),
    };
  }

  #forgetOthers(volumes: readonly StatsVolume[]): void {
    const paths = new Set(volumes.map(({ path }) => path));
    for (const path of this.#answers.keys()) if (!paths.has(path)) this.#answers.delete(path);
    const endpoints = new Set(volumes.map(({ endpoint }) => endpoint));
    for (const endpoint of this.#calls.keys()) if (!endpoints.has(endpoint)) this.#calls.delete(endpoint);
  }
}

interface Usage {
  readonly available: string;
  readonly total: string;
  readonly used: string;
  readonly unit: string;
}

interface Reply {
  readonly usage: readonly Usage[];
  readonly volume_condition: { readonly abnormal: boolean; readonly message: string } | null;
}

const claimOf = ({ claim }: StatsVolume): Pick<VolumeStats, 'pvcRef'> =>
  claim === null ? {} : { pvcRef: { name: claim.name, namespace: claim.namespace } };

/** Values that a driver omits count as zero, as upstream. */
function usageOf(usage: readonly Usage[], atMs: number): FsStats {
  const usageIn = (unit: string) => usage.findLast((each) => each.unit === unit);
  const amount = (text: string | undefined): bigint => {
    const value = BigInt(text ?? '0');
    return value < 0n ? 0n : value;
  };
  const [bytes, inodes] = [usageIn('BYTES'), usageIn('INODES')];
  return {
    time: timeOf(atMs),
    availableBytes: amount(bytes?.available),
    capacityBytes: amount(bytes?.total),
    usedBytes: amount(bytes?.used),
    inodesFree: amount(inodes?.available),
    inodes: amount(inodes?.total),
    inodesUsed: amount(inodes?.used),
  };
}
