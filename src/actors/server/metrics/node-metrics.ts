/**
 * Every metric of this node by endpoint: the recorder's counters, and gauges of the current state.
 *
 * Invariant: nothing is measured unless metrics are scraped.
 */
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { CgroupSample } from '../../stats/cgroup-samples.ts';
import type { DiskSample } from '../../stats/machine-devices.ts';
import type { Summary, VolumeStats } from '../../stats/usage-types.ts';
import type { NodeView } from '../node-view.ts';
import { claimGauge } from './calls/plugin-work.ts';
import { type Family, familiesOf, gaugeOf, one } from './instruments.ts';
import {
  buildInfo,
  cpuGauges,
  evictionCounts,
  memoryQoSGauges,
  mirrorPodsOf,
  neverCounts,
  nodeGauges,
  pluginCounts,
  processFamilies,
  registeredCounts,
} from './node/node-gauges.ts';
import { shutdownTimes } from './node/node-start.ts';
import { pullRecordCounts } from './pods/image-work.ts';
import { podGauges } from './pods/pod-gauges.ts';
import type { Recorder } from './recorder.ts';
import { cadvisorFamilies, machineFamilies } from './usage/cadvisor.ts';
import { measuresVolumes, resourceFamilies, volumeStats } from './usage/summary-gauges.ts';
import { type DriverVolume, volumeCounts } from './volumes/storage.ts';

export interface NodeMetrics {
  /** `further`: families counted elsewhere in this process. */
  node(further?: readonly Family[]): Promise<readonly Family[]>;
  cadvisor(): Promise<readonly Family[]>;
  resource(): Promise<readonly Family[]>;
  probes(): Promise<readonly Family[]>;
  slis(further?: readonly Family[]): Promise<readonly Family[]>;
}

export interface Measurements {
  summary(options: { readonly onlyCpuAndMemory: boolean }): Promise<Summary>;
  cgroups(): Promise<readonly CgroupSample[]>;
  disks(): Promise<readonly DiskSample[]>;
  /** The statistics of volumes reported by CSI drivers. */
  driverVolumes(): Promise<readonly VolumeStats[]>;
  /** The numbers of books and drawers of the machine's CPUs. */
  levels(): Readonly<Record<'books' | 'drawers', number>>;
}

export interface MetricsOptions {
  readonly view: NodeView;
  readonly recorder: Recorder;
  readonly measurements: Measurements;
  /** The version that the node reports: `v1.36.2+statelet.0.2.0`. */
  readonly version: string;
}

/** The sampling interval of the event loop's delay: the library's 10 ms would keep an idle node awake. */
const LOOP_SAMPLE_MS = 5_000;
/** Gauges that are named like counters; `nodejs_active_handles` and the like have the same numbers by type. */
const SUMS = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

export function nodeMetrics({ view, recorder, measurements, version }: MetricsOptions): NodeMetrics {
  const program = new Registry();
  collectDefaultMetrics({ register: program, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
  for (const name of SUMS) program.removeSingleMetric(name);
  return {
    node: async (further = []) => {
      const pods = view.pods();
      const families = [
        ...(await familiesOf(program)),
        ...(await familiesOf(recorder.registry)),
        ...further,
        ...podGauges(pods, mirrorPodsOf(view)),
        volumeCounts(pods, view.contexts<DriverVolume>('kubelet/csiVolumes/mount-')),
        ...(measuresVolumes(view.configuration()) ? await volumeStats(pods, await measurements.driverVolumes()) : []),
        ...nodeGauges(view),
        ...cpuGauges(view, pods),
        ...memoryQoSGauges(view),
        ...evictionCounts(view),
        pluginCounts(view),
        ...(await pullRecordCounts(view.rootDir())),
        ...(await shutdownTimes(view)),
        claimGauge(view),
        ...neverCounts(),
        buildInfo(version),
        ...processFamilies(),
      ];
      return [...families, registeredCounts(families)];
    },
    cadvisor: async () => {
      const machine = view.machine();
      const names = new Map(machine?.topology.disks.map(({ device, name }) => [device, name]));
      const [samples, disks] = await Promise.all([measurements.cgroups().catch(() => null), measurements.disks()]);
      return [...cadvisorFamilies(samples, { disks, names }), ...machineFamilies(machine, measurements.levels())];
    },
    resource: async () => resourceFamilies(await measurements.summary({ onlyCpuAndMemory: true }).catch(() => null)),
    probes: async () => [...(await familiesOf(recorder.probeRegistry)), startTime()],
    slis: async (further = []) => [...further, startTime()],
  };
}

/**
 * In hundredths of a second, as the kernel counts it. The same in each answer: alerts on restarts count changes of it.
 */
const STARTED_SECONDS = Math.round(performance.timeOrigin / 10) / 100;

const startTime = (): Family =>
  gaugeOf('process_start_time_seconds', '[ALPHA] Start time of the process since unix epoch in seconds.', [
    one(STARTED_SECONDS),
  ]);
