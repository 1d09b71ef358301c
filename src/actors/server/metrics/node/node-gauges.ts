/**
 * Gauges of the node itself (name, build, feature gates, CPUs and plugins) and of this process; and counters that are
 * always zero here.
 */
import { readFileSync } from 'node:fs';
import { FEATURE_GATES } from '../../../../machines/configuration/fields/feature-gate-table.ts';
import { isEnabled } from '../../../../machines/configuration/fields/feature-gates.ts';
import type { QOSDemand } from '../../../../machines/model/cgroups/node-groups.ts';
import { cpuIds } from '../../../../machines/model/values/cpu-set.ts';
import type { NodePod } from '../../node-pods.ts';
import type { NodeView } from '../../node-view.ts';
import { type Family, gaugeOf, one } from '../instruments.ts';

/** The gates that set all gates of a stage. */
const GROUPS = [
  ['AllAlpha', { stage: 'alpha' }],
  ['AllBeta', { stage: 'beta' }],
] as const;

export function nodeGauges(view: NodeView): Family[] {
  const changed = view.configuration().featureGates;
  const version = view.cgroupVersion();
  const gates = [...Object.entries(FEATURE_GATES), ...GROUPS].map(([name, { stage }]) =>
    one(isEnabled(changed, name) ? 1 : 0, { name, stage: stage === 'ga' ? '' : stage.toUpperCase() }),
  );
  return [
    gaugeOf('kubelet_node_name', "[ALPHA] The node's name. The count is always 1.", [
      one(1, { node: view.nodeName() }),
    ]),
    gaugeOf(
      'kubelet_metrics_provider',
      "[ALPHA] Metrics provider used by kubelet to collect container stats. Values can be 'cadvisor' and 'cri'",
      [one(1, { provider: 'cadvisor' })],
    ),
    gaugeOf('kubelet_cgroup_version', '[ALPHA] cgroup version on the hosts.', version === null ? [] : [one(version)]),
    gaugeOf(
      'kubernetes_feature_enabled',
      '[BETA] This metric records the data about the stage and enablement of a k8s feature.',
      gates,
    ),
  ];
}

/** The counts of evictions by signal. As upstream, the counter appears with the first eviction. */
export function evictionCounts(view: NodeView): Family[] {
  const samples = Object.entries(view.evictions()).map(([signal, count]) => one(count, { eviction_signal: signal }));
  if (samples.length === 0) return [];
  const help = '[ALPHA] Cumulative number of pod evictions by eviction signal';
  return [{ name: 'kubelet_evictions', help, type: 'counter', samples }];
}

export function cpuGauges(view: NodeView, pods: readonly NodePod[]): Family[] {
  const exclusive = pods.flatMap(({ exclusiveCpus = {} }) => Object.values(exclusiveCpus).flatMap(cpuIds));
  const allocatable = view.allocatableCpus();
  const nodeOf = new Map(view.machine()?.topology.cpus.map(({ id, numaNode }) => [id, String(numaNode)]));
  const byNode = Object.groupBy(exclusive, (id) => nodeOf.get(id) ?? '0');
  return [
    gaugeOf(
      'kubelet_cpu_manager_exclusive_cpu_allocation_count',
      '[ALPHA] The total number of CPUs exclusively allocated to containers running on this node',
      [one(exclusive.length)],
    ),
    gaugeOf(
      'kubelet_cpu_manager_shared_pool_size_millicores',
      '[ALPHA] The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.',
      [one(Math.max(0, allocatable.length - exclusive.length) * MILLI)],
    ),
    gaugeOf(
      'kubelet_cpu_manager_allocation_per_numa',
      '[ALPHA] Number of CPUs allocated per NUMA node',
      Object.entries(byNode).map(([numa_node, ids = []]) => one(ids.length, { numa_node })),
    ),
  ];
}

const MILLI = 1_000;

/** The protected memory of pods: with the gate MemoryQoS, on cgroup v2, and the policy `TieredReservation`. */
export function memoryQoSGauges(view: NodeView): Family[] {
  const { featureGates, memoryReservationPolicy } = view.configuration();
  if (!isEnabled(featureGates, 'MemoryQoS')) return [];
  const [allocation] = view.contexts<{ readonly demand: QOSDemand }>('kubelet/allocation');
  const isSet = view.cgroupVersion() === 2 && memoryReservationPolicy === 'TieredReservation';
  const amount = (name: 'guaranteedMemoryBytes' | 'burstableMemoryBytes'): number =>
    isSet ? Number(allocation?.demand[name] ?? 0) : 0;
  return [
    gaugeOf(
      'kubelet_memory_qos_node_memory_min_bytes',
      '[ALPHA] Total cgroup v2 memory.min in bytes for Guaranteed pods. This memory is hard-reserved and never ' +
        'reclaimed by the kernel.',
      [one(amount('guaranteedMemoryBytes'))],
    ),
    gaugeOf(
      'kubelet_memory_qos_node_memory_low_bytes',
      '[ALPHA] Total cgroup v2 memory.low in bytes for Burstable pods. This memory is soft-reserved and may be ' +
        'reclaimed under extreme pressure.',
      [one(amount('burstableMemoryBytes'))],
    ),
  ];
}

interface Plugins {
  readonly plugins: Readonly<Record<string, { readonly driver: object | null }>>;
}

/** Sockets in the plugin folder, and accepted plugins among them. */
export function pluginCounts(view: NodeView): Family {
  const [manager] = view.contexts<Plugins>('kubelet/pluginManager');
  const sockets = Object.entries(manager?.plugins ?? {});
  const samples = sockets.flatMap(([socket_path, { driver }]) => [
    one(1, { socket_path, state: 'desired_state_of_world' }),
    ...(driver === null ? [] : [one(1, { socket_path, state: 'actual_state_of_world' })]),
  ]);
  return gaugeOf('plugin_manager_total_plugins', '[ALPHA] Number of plugins in Plugin Manager', samples);
}

/** The number of mirror pods in the API server for static pods of this node. */
export const mirrorPodsOf = (view: NodeView): number =>
  view.contexts<{ readonly seen: object | null }>('kubelet/mirrorPods/mirror-').filter(({ seen }) => seen !== null)
    .length;

/** Go's names of architectures. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' };

/** `version` as reported by the node. Nothing is compiled, so there is no compiler and no build date. */
export function buildInfo(version: string): Family {
  const [, major = '', minor = ''] = /^v(\d+)\.(\d+)/.exec(version) ?? [];
  const labels = {
    build_date: '',
    compiler: '',
    git_commit: '',
    git_tree_state: '',
    git_version: version,
    go_version: '',
    major,
    minor,
    platform: `${process.platform}/${ARCHITECTURES[process.arch] ?? process.arch}`,
  };
  const help =
    "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build " +
    'date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.';
  return gaugeOf('kubernetes_build_info', help, [one(1, labels)]);
}

/** Families by stability; those of libraries have none and are not counted, as by upstream. */
export function registeredCounts(families: readonly Family[]): Family {
  const stabilities = families.flatMap(({ help }) => /^\[([A-Z]+)\]/.exec(help)?.[1] ?? []);
  const counts = Object.groupBy(stabilities, (stability) => stability);
  return {
    name: 'registered_metrics_total',
    help: '[BETA] The count of registered metrics broken by stability level and deprecation version.',
    type: 'counter',
    samples: Object.entries(counts).map(([stability_level, all = []]) =>
      one(all.length, { deprecated_version: '', stability_level }),
    ),
  };
}

/** The name, upstream's help, and the reason why the counter stays zero. */
const NEVER: readonly (readonly [name: string, help: string])[] = [
  // Nothing here is hidden or disabled.
  ['disabled_metrics_total', '[BETA] The count of disabled metrics.'],
  ['hidden_metrics_total', '[BETA] The count of hidden metrics.'],
  // Each event of the runtime leads to an inspection of its pod; the last inspection covers earlier events.
  ['kubelet_pleg_discard_events', '[ALPHA] The number of discard events in PLEG.'],
  // The API by which agents watch pods is behind a gate that is off.
  ['kubelet_pod_watch_events_dropped_total', '[ALPHA] Cumulative number of pod watch events dropped.'],
  // A volume with unreadable statistics is logged and left out.
  [
    'force_cleaned_failed_volume_operations_total',
    '[ALPHA] The number of volumes that were force cleaned after their reconstruction failed during kubelet startup. ' +
      'This includes both successful and failed cleanups.',
  ],
  [
    'force_cleaned_failed_volume_operation_errors_total',
    '[ALPHA] The number of volumes that failed force cleanup after their reconstruction failed during kubelet startup.',
  ],
];

/**
 * Upstream's metrics of events that cannot happen on this node: they stay zero, so that dashboards and alerts find
 * them.
 */
export const neverCounts = (): Family[] =>
  NEVER.map(([name, help]): Family => ({ name, help, type: 'counter', samples: [one(0)] }));

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Columns of /proc/net/dev after the name: eight for received, then eight for sent traffic. */
const SENT_COLUMN = 8;

/** Gauges of this process that Prometheus' client lacks, from the kernel's files. */
export function processFamilies(): Family[] {
  const interfaces = read('/proc/self/net/dev')
    .split('\n')
    .flatMap((line) => /^\s*[^:\s]+:(.*)$/.exec(line)?.[1] ?? [])
    .map((columns) => columns.trim().split(/\s+/).map(Number));
  const sum = (column: number) => interfaces.reduce((total, columns) => total + (columns[column] ?? 0), 0);
  const limit = /^Max address space\s+(\d+)/m.exec(read('/proc/self/limits'))?.[1];
  const family = (name: string, help: string, type: Family['type'], value: number): Family => ({
    name,
    help,
    type,
    samples: [{ labels: {}, value }],
  });
  return [
    family(
      'process_network_receive_bytes_total',
      'Number of bytes received by the process over the network.',
      'counter',
      sum(0),
    ),
    family(
      'process_network_transmit_bytes_total',
      'Number of bytes sent by the process over the network.',
      'counter',
      sum(SENT_COLUMN),
    ),
    family(
      'process_virtual_memory_max_bytes',
      'Maximum amount of virtual memory available in bytes.',
      'gauge',
      limit === undefined ? 2 ** 64 : Number(limit),
    ),
  ];
}
