/**
 * Every metric of this node by the endpoint that serves it: the recorder's counters, and gauges of what is so now.
 *
 * Invariant: nothing is measured unless somebody asks.
 */
import { dirname } from 'node:path';
import { collectDefaultMetrics, type MetricValue, Registry } from 'prom-client';
import { isMirrorPod, isStaticPod, type Pod } from '../../../machines/api/pod.ts';
import { FEATURE_GATES } from '../../../machines/startup/configuration/feature-gate-table.ts';
import { isEnabled } from '../../../machines/startup/configuration/index.ts';
import type { CgroupSample } from '../../stats/cgroup-samples.ts';
import type { Summary } from '../../stats/summary-types.ts';
import type { NodePod, NodeView } from '../node-view.ts';
import { cadvisorFamilies } from './cadvisor.ts';
import { bytesBelow } from './disk.ts';
import type { Family, Sample } from './family.ts';
import { machineFamilies } from './machine.ts';
import { processFamilies } from './process.ts';
import type { Recorder } from './recorder.ts';
import { resourceFamilies } from './resource.ts';
import { volumeCounts } from './storage.ts';

export interface NodeMetrics {
  node(): Promise<readonly Family[]>;
  cadvisor(): Promise<readonly Family[]>;
  resource(): Promise<readonly Family[]>;
  probes(): Promise<readonly Family[]>;
  slis(): Promise<readonly Family[]>;
}

/** What is measured when somebody asks. */
export interface Measurements {
  summary(options: { readonly onlyCpuAndMemory: boolean }): Promise<Summary>;
  cgroups(): Promise<readonly CgroupSample[]>;
}

export interface MetricsOptions {
  readonly view: NodeView;
  readonly recorder: Recorder;
  readonly measurements: Measurements;
}

/** How often the delay of the event loop is looked at: the library's 10 ms would keep an idle node awake. */
const LOOP_LOOK_MS = 5_000;
/** Gauges that are named like counters; the same by type are `nodejs_active_handles` and so on. */
const SUMS = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

export function nodeMetrics({ view, recorder, measurements }: MetricsOptions): NodeMetrics {
  const program = new Registry();
  collectDefaultMetrics({ register: program, eventLoopMonitoringPrecision: LOOP_LOOK_MS });
  for (const name of SUMS) program.removeSingleMetric(name);
  const healthchecks = new HealthcheckCounts();
  return {
    node: async () => [
      ...(await familiesOf(program)),
      ...(await familiesOf(recorder.registry)),
      ...podGauges(view.pods()),
      volumeCounts(view.pods()),
      ...nodeGauges(view),
      ...evictionCounts(view),
      ...processFamilies(),
    ],
    cadvisor: async () => [
      ...cadvisorFamilies(await measurements.cgroups().catch(() => null)),
      ...machineFamilies(view.machine()),
    ],
    resource: async () => resourceFamilies(await measurements.summary({ onlyCpuAndMemory: true }).catch(() => null)),
    probes: async () => [...(await familiesOf(recorder.probeRegistry)), startTime()],
    slis: async () => [...healthchecks.families(view), startTime()],
  };
}

const gauge = (name: string, help: string, samples: readonly Sample[]): Family => ({
  name,
  help,
  type: 'gauge',
  samples,
});
const one = (value: number, labels: Sample['labels'] = {}): Sample => ({ labels, value });

/** As upstream's counter: it appears with the first eviction. */
function evictionCounts(view: NodeView): Family[] {
  const samples = Object.entries(view.evictions()).map(([signal, count]) => one(count, { eviction_signal: signal }));
  if (samples.length === 0) return [];
  const help = '[ALPHA] Cumulative number of pod evictions by eviction signal';
  return [{ name: 'kubelet_evictions', help, type: 'counter', samples }];
}

function startTime(): Family {
  const began = Date.now() / 1_000 - process.uptime();
  return gauge('process_start_time_seconds', '[ALPHA] Start time of the process since unix epoch in seconds.', [
    one(began),
  ]);
}

/** A registry of Prometheus' client as plain families. */
async function familiesOf(registry: Registry): Promise<Family[]> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.map(({ name, help, type, values }) => ({
    name,
    help,
    type: type as unknown as Family['type'],
    samples: values.map(({ labels, value, metricName = name }: MetricValue<string> & { metricName?: string }) => ({
      labels: Object.fromEntries(
        Object.entries(labels).map(([label, text]) => [
          label,
          label === 'le' && String(text) === 'Infinity' ? '+Inf' : String(text),
        ]),
      ),
      value,
      ...(metricName === name ? {} : { suffix: metricName.slice(name.length) }),
    })),
  }));
}

// ---- pods -----------------------------------------------------------------------------------------------------------

const isFinished = ({ status }: NodePod): boolean => status?.phase === 'Succeeded' || status?.phase === 'Failed';
const isResizing = (status: NodePod['status']): boolean =>
  status?.conditions?.some(({ type, status: value }) => type === 'PodResizeInProgress' && value === 'True') === true;

/** Of each container the files in the folder of its log. */
function logSizes(pods: readonly NodePod[]): Family {
  const samples = pods.flatMap(({ uid, namespace, name, runtime }) => {
    const folders = new Map(
      (runtime?.containers ?? []).map((each) => [each.metadata?.name ?? '', dirname(each.log_path)]),
    );
    return [...folders].map(([container, folder]) => one(bytesBelow(folder), { container, namespace, pod: name, uid }));
  });
  return gauge(
    'kubelet_container_log_filesystem_used_bytes',
    "[ALPHA] Bytes used by the container's logs on the filesystem.",
    samples,
  );
}

const isSandboxed = ({ runtime }: NodePod): boolean =>
  runtime?.sandboxes.some(({ state }) => state === 'SANDBOX_READY') === true;

const podGauges = (pods: readonly NodePod[]): Family[] => [...wantedGauges(pods), ...runningGauges(pods)];

function wantedGauges(pods: readonly NodePod[]): Family[] {
  const wanted = pods.filter(({ pod }) => pod !== null);
  const byStatic = (known: readonly NodePod[]) =>
    ([true, false] as const).map((isStatic) =>
      one(known.filter(({ pod }) => isStaticPod(pod!) === isStatic).length, { static: isStatic ? 'true' : '' }),
    );
  const count = (select: (pod: Pod) => boolean) => [one(wanted.filter(({ pod }) => select(pod!)).length)];
  return [
    gauge(
      'kubelet_desired_pods',
      '[ALPHA] The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver.',
      byStatic(wanted),
    ),
    gauge(
      'kubelet_active_pods',
      '[ALPHA] The number of pods the kubelet considers active and which are being considered when admitting new pods. static is true if the pod is not from the apiserver.',
      byStatic(wanted.filter((pod) => !isFinished(pod))),
    ),
    gauge(
      'kubelet_mirror_pods',
      '[ALPHA] The number of mirror pods the kubelet will try to create (one per admitted static pod)',
      count(isMirrorPod),
    ),
    gauge(
      'kubelet_managed_ephemeral_containers',
      '[ALPHA] Current number of ephemeral containers in pods managed by this kubelet.',
      [one(wanted.reduce((sum, { pod }) => sum + (pod!.spec.ephemeralContainers?.length ?? 0), 0))],
    ),
    gauge('kubelet_pod_in_progress_resizes', '[ALPHA] Number of in-progress resizes for pods.', [
      one(wanted.filter(({ status }) => isResizing(status)).length),
    ]),
  ];
}

function runningGauges(pods: readonly NodePod[]): Family[] {
  const states = Object.entries(
    Object.groupBy(
      pods.flatMap(({ runtime }) => runtime?.containers ?? []),
      ({ state }) => state.replace('CONTAINER_', '').toLowerCase(),
    ),
  );
  return [
    logSizes(pods),
    gauge('kubelet_running_pods', '[ALPHA] Number of pods that have a running pod sandbox', [
      one(pods.filter(isSandboxed).length),
    ]),
    gauge(
      'kubelet_running_containers',
      '[ALPHA] Number of containers currently running',
      states.map(([container_state, all]) => one(all!.length, { container_state })),
    ),
    gauge(
      'kubelet_working_pods',
      '[ALPHA] Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is desired, orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been removed from local configuration or force deleted in the API and consumes resources that are not otherwise visible.',
      working(pods),
    ),
  ];
}

function working(pods: readonly NodePod[]): Sample[] {
  const groups = Object.groupBy(pods, (known) => {
    const config = known.pod === null ? 'runtime_only' : 'desired';
    const lifecycle = isFinished(known) ? 'terminated' : known.pod === null ? 'terminating' : 'sync';
    return JSON.stringify({ config, lifecycle, static: known.pod && isStaticPod(known.pod) ? 'true' : '' });
  });
  return Object.entries(groups).map(([labels, all]) => one(all!.length, JSON.parse(labels) as Sample['labels']));
}

// ---- node -----------------------------------------------------------------------------------------------------------

function nodeGauges(view: NodeView): Family[] {
  const changed = view.configuration().featureGates;
  const gates = Object.entries(FEATURE_GATES).map(([name, { stage }]) =>
    one(isEnabled(changed, name) ? 1 : 0, { name, stage: stage === 'ga' ? '' : stage.toUpperCase() }),
  );
  return [
    gauge('kubelet_node_name', "[ALPHA] The node's name. The count is always 1.", [one(1, { node: view.nodeName() })]),
    gauge(
      'kubelet_metrics_provider',
      "[ALPHA] Metrics provider used by kubelet to collect container stats. Values can be 'cadvisor' and 'cri'",
      [one(1, { provider: 'cadvisor' })],
    ),
    gauge(
      'kubelet_cgroup_version',
      '[ALPHA] cgroup version on the hosts.',
      view.cgroupVersion() === null ? [] : [one(view.cgroupVersion()!)],
    ),
    gauge(
      'kubernetes_feature_enabled',
      '[BETA] This metric records the data about the stage and enablement of a k8s feature.',
      gates,
    ),
  ];
}

/** Each look at the checks counts, as upstream's own rounds do. */
class HealthcheckCounts {
  readonly #counts = new Map<string, number>();

  families({ checks }: NodeView): Family[] {
    const results = Object.entries(checks)
      .map(([name, check]) => ({ name, healthy: check() === null }))
      .toSorted((left, right) => (left.name < right.name ? -1 : 1));
    for (const { name, healthy } of results) {
      const key = JSON.stringify({ name, status: healthy ? 'success' : 'error', type: 'healthz' });
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    }
    return [
      gauge(
        'kubernetes_healthcheck',
        '[STABLE] This metric records the result of a single healthcheck.',
        results.map(({ name, healthy }) => one(healthy ? 1 : 0, { name, type: 'healthz' })),
      ),
      {
        name: 'kubernetes_healthchecks_total',
        help: '[STABLE] This metric records the results of all healthcheck.',
        type: 'counter',
        samples: [...this.#counts].map(([key, count]) => one(count, JSON.parse(key) as Sample['labels'])),
      },
    ];
  }
}
