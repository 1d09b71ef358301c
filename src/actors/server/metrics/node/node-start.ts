/**
 * The time from the boot of the machine until the node is Ready, by phase. As upstream: only if this start created the
 * Node, and each phase once.
 */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Gauge, Registry } from 'prom-client';
import { isEnabled } from '../../../../machines/configuration/fields/feature-gates.ts';
import type { NodeStatus } from '../../../../machines/model/api/pod.ts';
import type { ShutdownSettings } from '../../../../machines/model/settings/node-settings.ts';
import type { NodeRecord } from '../../../node-records.ts';
import type { NodeView } from '../../node-view.ts';
import type { Family, Projection, RecordContext, UnderWay } from '../instruments.ts';
import { gauge, gaugeOf, Instruments, MS_PER_SECOND, one } from '../instruments.ts';

const CREATE = 'kubelet/nodeStatus/registration/create';
const REPORT = 'kubelet/nodeStatus/patch';

/** Upstream's help of each phase; all are 0 until the Node is Ready. */
const PHASES = {
  total: 'Duration in seconds of node startup in total.',
  pre_kubelet: 'Duration in seconds of node startup before kubelet starts.',
  pre_registration: 'Duration in seconds of node startup before registration.',
  registration: 'Duration in seconds of node startup during registration.',
  post_registration: 'Duration in seconds of node startup after registration.',
} as const;

/** The machine's boot time, in ms since the epoch. `undefined` if the kernel does not report it. */
function bootTimeMs(): number | undefined {
  try {
    const seconds = /^btime (\d+)$/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1];
    return seconds === undefined ? undefined : Number(seconds) * MS_PER_SECOND;
  } catch {
    return undefined;
  }
}

export class NodeStart implements Projection {
  readonly recordKinds = ['header', 'effect', 'result', 'cancel', 'end'] as const;
  readonly #gauges: Readonly<Record<keyof typeof PHASES, Gauge>>;
  #beganMs = 0;
  #askedMs: number | undefined;
  #registeredMs: number | undefined;
  /** The report that the node is Ready was withdrawn in this turn, because the API server already shows it. */
  #isWithdrawn = false;
  #isOver = false;

  constructor(registry: Registry) {
    const named = Object.entries(PHASES).map(([phase, help]) => {
      const name = phase === 'total' ? '' : `${phase}_`;
      return [phase, gauge(registry, `kubelet_node_startup_${name}duration_seconds`, `[ALPHA] ${help}`)] as const;
    });
    this.#gauges = Object.fromEntries(named) as Record<keyof typeof PHASES, Gauge>;
  }

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'header') this.#beganMs = record.t;
    else if (this.#isOver) return;
    else if (record.k === 'effect' && record.at === CREATE) this.#askedMs ??= kernel.now;
    else if (record.k === 'result' && !record.error && request?.address === CREATE) this.#registeredMs = kernel.now;
    else if (this.#isReported(record, request)) {
      this.#isOver = true;
      this.#ready(kernel.now);
    }
  }

  /** A report is withdrawn without another one if the watch of the Node was faster than the answer. */
  #isReported(record: NodeRecord, request: UnderWay | undefined): boolean {
    if (record.k === 'effect' && record.at === REPORT) this.#isWithdrawn = false;
    if (record.k === 'end') return this.#isWithdrawn;
    if (request?.address !== REPORT || !reportsReady(request)) return false;
    if (record.k === 'cancel') this.#isWithdrawn = true;
    return record.k === 'result' && !record.error;
  }

  #ready(nowMs: number): void {
    if (this.#askedMs === undefined || this.#registeredMs === undefined) return;
    const bootedMs = bootTimeMs();
    const requestedMs = this.#askedMs;
    if (bootedMs !== undefined) {
      this.#set('pre_kubelet', this.#beganMs - bootedMs);
      this.#set('total', nowMs - bootedMs);
    }
    const registered = this.#registeredMs;
    this.#set('pre_registration', requestedMs - this.#beganMs);
    this.#set('registration', registered - requestedMs);
    this.#set('post_registration', nowMs - registered);
  }

  #set(phase: keyof typeof PHASES, durationMs: number): void {
    this.#gauges[phase].set(durationMs / MS_PER_SECOND);
  }
}

function reportsReady({ input }: UnderWay): boolean {
  const { status } = (input as { readonly body: { readonly status?: NodeStatus } }).body;
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
}

/** From this release on upstream requires a runtime that reports its cgroup driver. */
const SUPPORT_ENDS = '1.37.0';

/** Whether this runtime will be supported by the next release of Kubernetes. */
export class RuntimeSupport extends Instruments implements Projection {
  readonly recordKinds = ['result'] as const;
  readonly #losing = gauge(
    this.registry,
    'kubelet_cri_losing_support',
    '[ALPHA] the Kubernetes version that the currently running CRI implementation will lose support on if not upgraded.',
    ['version'],
  );

  on(record: NodeRecord): void {
    if (record.k !== 'result' || record.name !== 'cri.runtimeConfig' || record.error) return;
    if (record.output.cgroupDriver === null) this.#losing.set({ version: SUPPORT_ENDS }, 1);
    else this.#losing.reset();
  }
}

/**
 * When the last graceful shutdown of this node began and ended, by the file in which the shutdown manager keeps it,
 * also of a shutdown by an earlier agent. Zero if there was none, if graceful shutdown is not configured, and without
 * the gate of shutdowns by pod priority.
 */
export async function shutdownTimes(view: NodeView): Promise<Family[]> {
  const [manager] = view.contexts<{ readonly settings: ShutdownSettings }>('kubelet/shutdown');
  const isCounted = isEnabled(view.configuration().featureGates, 'GracefulNodeShutdownBasedOnPodPriority');
  const { startTime, endTime } = manager && isCounted ? await stateIn(manager.settings.stateFile) : NONE;
  return [
    gaugeOf(
      'kubelet_graceful_shutdown_start_time_seconds',
      '[ALPHA] Last graceful shutdown start time since unix epoch in seconds',
      [one(secondsOf(startTime))],
    ),
    gaugeOf(
      'kubelet_graceful_shutdown_end_time_seconds',
      '[ALPHA] Last graceful shutdown end time since unix epoch in seconds',
      [one(secondsOf(endTime))],
    ),
  ];
}

interface State {
  readonly startTime?: unknown;
  readonly endTime?: unknown;
}

const NONE: State = {};

async function stateIn(file: string): Promise<State> {
  try {
    const state: unknown = JSON.parse(await readFile(file, 'utf8'));
    return typeof state === 'object' && state !== null ? state : NONE;
  } catch {
    return NONE;
  }
}

/** The time in seconds since the epoch; Go's zero time, in the year 1, counts as no time. */
const secondsOf = (time: unknown): number =>
  typeof time === 'string' ? Math.max(0, Date.parse(time) || 0) / MS_PER_SECOND : 0;
