/**
 * The node's API as one part of the daemon: its read models, the services that it calls, and its ports.
 *
 * Owns: the read model of the kernel and the recorder of metrics, both kept current by `onTurn`.
 */
import { isObject, type Json } from '../../kernel/json.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Ports } from '../../kernel/operation.ts';
import type { KernelRecord } from '../../kernel/records.ts';
import { flagDefaults } from '../../machines/configuration/fields/defaults.ts';
import { gatesOf } from '../../machines/configuration/fields/feature-gates.ts';
import { FLAGS } from '../../machines/configuration/flags/flag-table.ts';
import { parseCommandLine } from '../../machines/configuration/flags/flags.ts';
import type { Pod } from '../../machines/model/api/pod.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';
import type { KubeObject } from '../../machines/model/operations/kube.ts';
import type { serverOperations } from '../../machines/model/operations/server.ts';
import { millisecondsOf } from '../../machines/model/values/time.ts';
import type { OnRuntimeActivity } from '../cri/activity.ts';
import type { RuntimeClient } from '../cri/client.ts';
import type { OnPluginRun } from '../image/plugin.ts';
import type { OnRequest } from '../kube/client.ts';
import type { KubeConnection } from '../kube/index.ts';
import type { OnTransport } from '../kube/transport.ts';
import type { OnAttempt } from '../probe/index.ts';
import { DriverStats } from '../stats/driver-stats.ts';
import type { OnVolume } from '../stats/pod-folders.ts';
import type { StatsReader } from '../stats/reader.ts';
import type { VolumeStats } from '../stats/usage-types.ts';
import { insightAnswers } from './http/inspector.ts';
import { ApiClientMetrics, RuntimeMetrics, TransportMetrics } from './metrics/calls/client-calls.ts';
import { countDriverCalls, credentialPluginRuns } from './metrics/calls/plugin-work.ts';
import { PodResourcesMetrics } from './metrics/calls/request-metrics.ts';
import { type Measurements, type NodeMetrics, nodeMetrics } from './metrics/node-metrics.ts';
import { bytesBelow } from './metrics/pods/pod-gauges.ts';
import { Recorder } from './metrics/recorder.ts';
import { measuresVolumes, VolumeMeasuring } from './metrics/usage/summary-gauges.ts';
import { KernelView } from './node-view.ts';
import { servePodResources } from './pod-resources.ts';
import { runtimeCalls, runtimeStreamUrls } from './streaming/endpoints.ts';
import { ServerThread, type ServerThreadOptions } from './thread/host.ts';
import { PodVersions } from './thread/known-pods.ts';
import type { QuestionAnswers } from './thread/questions.ts';
import { selfSigned } from './tls/self-signed.ts';
import type { Feed, KernelFeed } from './visualizer/feed.ts';
import { type PageInput, ServedPage } from './visualizer/served-page.ts';

export interface NodeServerOptions {
  readonly call: RuntimeClient['call'];
  /** Requests reviews of credentials and rights from the API server. */
  readonly review: KubeConnection['review'];
  readonly stats: StatsReader;
  /** Arguments of the kubelet, credentials masked. */
  readonly argv: readonly string[];
  /** `v1.36.2`. */
  readonly version: string;
  /** As reported by the node: `v1.36.2+statelet.0.2.0`. */
  readonly nodeVersion: string;
  readonly journalDir: string;
  /** The pod as its author wrote it: machines have handles in place of some values. */
  readonly openedPod: (pod: Pod) => Pod;
  readonly setVerbosity: (level: number) => void;
  readonly warn: (sentence: string) => void;
  /** Records for the visualizer's page. */
  readonly feed: KernelFeed;
  /** The program of the server thread. */
  readonly thread: Pick<ServerThreadOptions, 'entry' | 'isBundled'>;
}

export interface NodeServer {
  readonly ports: Ports<typeof serverOperations & Pick<typeof hostOperations, 'server.healthz'>>;
  /** Starts the server thread before it is needed. */
  readonly start: () => void;
  readonly close: () => Promise<void>;
  /** The visualizer's page, not served yet. */
  readonly page: (input: PageInput) => ServedPage;
  /** For the kernel's option `onTurn`. */
  readonly onTurn: (records: readonly KernelRecord[], kernel: Kernel, tookMs: number) => void;
  /** Receives each call of the runtime and each inspection of its pods. */
  readonly onRuntime: OnRuntimeActivity;
  /** Receives each run of a credential plugin. */
  readonly onCredentialPlugin: OnPluginRun;
  readonly onVolume: OnVolume;
  readonly onAttempt: OnAttempt;
  /** Receives each exchange with the API server. */
  readonly onRequest: OnRequest;
  /** Receives events of the underlying connections. */
  readonly onTransport: OnTransport;
}

const driverStats = (view: KernelView, onVolume: OnVolume): DriverStats =>
  new DriverStats({
    periodMs: () => millisecondsOf(view.configuration().volumeStatsAggPeriod),
    withHealth: () => gatesOf(view.configuration())('CSIVolumeHealth'),
    onVolume,
  });

async function statsByPod(drivers: DriverStats, view: KernelView): Promise<Record<string, readonly VolumeStats[]>> {
  const byPod: Record<string, VolumeStats[]> = {};
  for (const [{ uid }, each] of await drivers.of(view.driverVolumes())) (byPod[uid] ??= []).push(each);
  return byPod;
}

/** The machine's log folder. */
const LOG_DIRECTORY = '/var/log';

const measurementsOf = (stats: StatsReader, drivers: DriverStats, view: KernelView): Measurements => ({
  summary: async (asked) => {
    const withoutVolumes = !measuresVolumes(view.configuration());
    const ofDrivers = asked.onlyCpuAndMemory ? {} : await statsByPod(drivers, view);
    const claims = withoutVolumes ? {} : view.claims();
    return await stats.summary(view.statsPlace(), { ...asked, withoutVolumes, claims, ofDrivers });
  },
  driverVolumes: async () => [...(await drivers.of(view.driverVolumes())).values()],
  cgroups: () => stats.cgroups(view.statsPlace()),
  disks: () => stats.disks(),
  levels: () => stats.levels(),
});

const feedAnswers = (feed: KernelFeed, journalDir: string): Pick<QuestionAnswers, keyof Feed> => ({
  tree: () => feed.tree(),
  phases: () => feed.phases(),
  podList: () => feed.podList(),
  actor: (asked) => feed.actor(asked),
  records: (asked) => feed.records(asked),
  health: () => ({ ...feed.health(), journalBytes: bytesBelow(journalDir) }),
  follow: (asked, following) => feed.follow(asked, following),
});

interface Known {
  readonly view: KernelView;
  readonly metrics: NodeMetrics;
  readonly measurements: Measurements;
}

function answersOf(
  { call, review, setVerbosity, warn, feed, journalDir }: NodeServerOptions,
  { view, metrics, measurements }: Known,
): QuestionAnswers {
  const pods = new PodVersions();
  const calls = runtimeCalls(call);
  const checks = Object.entries(view.checks);
  return {
    pods: ({ since }) => pods.changedSince(since, view.podSources()),
    configuration: () => view.configuration(),
    checks: () => Object.fromEntries(checks.map(([name, problem]) => [name, problem()])),
    metrics: ({ endpoint, further }) => metrics[endpoint](further),
    summary: (asked) => measurements.summary(asked),
    review: async ({ body, ...target }, { signal }) => (await review(target, body, signal)) as KubeObject,
    ...runtimeStreamUrls(call),
    execSync: (request, { signal }) => calls.execSync(request, signal),
    checkpoint: async (request, { signal }) => (await calls.checkpoint(request, signal), null),
    setVerbosity: (level) => (setVerbosity(level), null),
    warn: (sentence) => (warn(sentence), null),
    ...feedAnswers(feed, journalDir),
    ...insightAnswers,
  };
}

export function nodeServer(options: NodeServerOptions): NodeServer {
  const { stats, argv, version, nodeVersion, warn, journalDir } = options;
  const view = new KernelView(undefined, options.openedPod);
  const recorder = new Recorder({ journalBytes: () => bytesBelow(journalDir) });
  countDriverCalls(recorder.registry, view);
  const measuring = new VolumeMeasuring(recorder.registry);
  const drivers = driverStats(view, measuring.measured);
  const measurements = measurementsOf(stats, drivers, view);
  const metrics = nodeMetrics({ view, recorder, measurements, version: nodeVersion });
  const answers = answersOf(options, { view, metrics, measurements });
  const facts = {
    flags: flagValues(argv),
    program: { startedAt: Date.now(), version: version.replace(/^v/, '') },
    logDirectory: LOG_DIRECTORY,
    checks: Object.keys(view.checks),
  };
  const thread = new ServerThread({ ...options.thread, facts, answers, warn });
  const podResourcesMetrics = new PodResourcesMetrics(recorder.registry);
  const ports: NodeServer['ports'] = {
    'server.selfSign': ({ input }) => selfSigned(input.directory, input.hostname),
    'server.serve': (opened) => thread.open('port', opened),
    'server.serveLocal': (opened) =>
      opened.input.service === 'api'
        ? thread.open('localSocket', opened)
        : servePodResources(opened, { view, seen: podResourcesMetrics }),
    'server.healthz': (opened) => thread.open('healthz', opened),
  };
  return {
    ports,
    start: () => thread.start(),
    page: (input) => new ServedPage(thread, input),
    close: () => thread.close(),
    onCredentialPlugin: credentialPluginRuns(recorder.registry),
    onVolume: measuring.measured,
    onRuntime: new RuntimeMetrics(recorder.registry).seen,
    onAttempt: (request, result, durationMs) => recorder.probed(request, result, durationMs),
    onRequest: new ApiClientMetrics(recorder.registry).seen,
    onTransport: new TransportMetrics(recorder.registry).seen,
    onTurn: (records, kernel, tookMs) => {
      view.onTurn(records, kernel);
      recorder.onTurn(records, kernel, tookMs);
    },
  };
}

const NO_TEXT = { version: '', raw: '' };
/** Kinds of flags whose empty list has no brackets. */
const NOTHING: ReadonlySet<string> = new Set(['taints', 'reservedMemory', 'vmodule']);
const isEmpty = (value: Json | undefined): boolean => Array.isArray(value) && value.length === 0;

/** The value of every flag of this process in the format of `/flagz`, by name: as given, or the flag's own default. */
export function flagValues(argv: readonly string[]): Readonly<Record<string, string>> {
  const line = parseCommandLine(argv, NO_TEXT);
  const given = line.kind === 'run' ? line.given : {};
  const defaults = flagDefaults({});
  const rows = FLAGS.map(({ name, kind, field, default: fallback }) => {
    const value =
      given[name] ?? (field === undefined ? fallback : kind === 'thresholds' ? {} : valueAt(defaults, field));
    return [name, NOTHING.has(kind) && isEmpty(value) ? '' : written(value)] as const;
  });
  const all = [...rows, ['help', 'false'] as const, ['version', 'false'] as const];
  return Object.fromEntries(all.toSorted(([one], [other]) => (one < other ? -1 : Number(one > other))));
}

const valueAt = (value: Json | undefined, path: string): Json | undefined =>
  path.split('.').reduce<Json | undefined>((part, key) => (isObject(part) ? part[key] : undefined), value);

/** A value in the format of Go's flags: lists in brackets, maps as pairs. */
function written(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  if (Array.isArray(value)) return `[${value.map(written).join(',')}]`;
  if (typeof value !== 'object') return String(value);
  return Object.entries(value)
    .map(([key, part]) => `${key}=${written(part)}`)
    .toSorted()
    .join(',');
}
