/**
 * The endpoints of each port of the node: the kubelet's port, the same without debugging handlers, and the read-only
 * port. One table, so that no endpoint is exposed on the wrong port.
 */
import type { ApiSettings } from '../../machines/model/operations/server.ts';
import { millisecondsOf } from '../../machines/model/values/time.ts';
import { containerLogsEndpoints } from './endpoints/container-logs.ts';
import { debugEndpoints } from './endpoints/debug.ts';
import { healthEndpoints } from './endpoints/health.ts';
import { metricsEndpoints, type NodeStats, statsEndpoints } from './endpoints/metrics.ts';
import { nodeLogEndpoints } from './endpoints/node-logs.ts';
import type { CheckpointContainer } from './endpoints/pods.ts';
import { checkpointEndpoints, configzEndpoint, podsEndpoint, runningPodsEndpoint } from './endpoints/pods.ts';
import { flagzEndpoint, type Program, statuszEndpoint } from './endpoints/z-pages.ts';
import { type Endpoint, pageNotFound, refusal } from './http/endpoint.ts';
import type { Insight } from './http/inspector.ts';
import type { RequestMetrics } from './metrics/calls/request-metrics.ts';
import type { NodeMetrics } from './metrics/node-metrics.ts';
import type { ApiView } from './node-pods.ts';
import { type ExecSync, runEndpoints, type StreamUrls, streamingEndpoints } from './streaming/endpoints.ts';

/** Sources and calls used by the endpoints. */
export interface ApiDependencies {
  readonly view: ApiView;
  readonly metrics: NodeMetrics;
  readonly requests: RequestMetrics;
  readonly stats: NodeStats;
  readonly execSync: ExecSync;
  readonly streams: StreamUrls;
  readonly checkpoint: CheckpointContainer;
  readonly setVerbosity: (level: number) => void;
  readonly insight: Insight;
  readonly flags: () => Readonly<Record<string, string>>;
  readonly program: Program;
  /** `/var/log`. */
  readonly logDirectory: string;
}

export interface Api {
  readonly endpoints: readonly Endpoint[];
  /** Paths that exist only with a trailing slash. */
  readonly slashed: ReadonlySet<string>;
}

/** Everything below these is rejected if debugging handlers are disabled. */
const DEBUG_PREFIXES = [
  '/run',
  '/exec',
  '/attach',
  '/portForward',
  '/containerLogs',
  '/runningpods',
  '/logs',
  '/debug/pprof',
];

export function kubeletApi(settings: ApiSettings, dependencies: ApiDependencies): Api {
  const shared = sharedEndpoints(dependencies);
  if (!settings.debuggingHandlers) return withoutDebugging(shared);
  const slashed = ['/runningpods', '/stats', '/logs', '/debug/pprof'];
  if (!settings.without?.includes('checkpoint')) slashed.push('/checkpoint');
  return { endpoints: [...shared, ...debuggingEndpoints(settings, dependencies)], slashed: new Set(slashed) };
}

export const readOnlyApi = (dependencies: ApiDependencies): Api => withoutDebugging(sharedEndpoints(dependencies));

function sharedEndpoints({ view, metrics, stats, requests }: ApiDependencies): Endpoint[] {
  return [
    ...healthEndpoints(view.checks, requests.healthchecks.checked),
    podsEndpoint(view),
    { path: '/pods/*', methods: 'any', subresources: ['pods', 'proxy'], answer: pageNotFound },
    ...statsEndpoints(stats),
    ...metricsEndpoints(metrics, () => requests.healthchecks.reset()),
  ];
}

function debuggingEndpoints(settings: ApiSettings, dependencies: ApiDependencies): Endpoint[] {
  const { view, requests, execSync, streams, checkpoint, flags, program, insight, setVerbosity, logDirectory } =
    dependencies;
  const { rootDir, podLogsDir, without = [] } = settings;
  const lacks = (name: (typeof without)[number]) => without.includes(name);
  const logs = settings.systemLogHandler
    ? nodeLogEndpoints({ directory: logDirectory, podLogsDir, isQueryEnabled: settings.systemLogQuery })
    : refused(['/logs'], 'logs endpoint is disabled.');
  return [
    runningPodsEndpoint(view),
    { path: '/runningpods/*', methods: 'any', subresources: ['pods', 'proxy'], answer: pageNotFound },
    configzEndpoint(view),
    ...containerLogsEndpoints(view, settings.splitStreams),
    ...logs,
    ...runEndpoints(view, execSync),
    ...streamingEndpoints(view, streams, {
      onWebSocket: requests.streamed,
      idleMs: async () => millisecondsOf((await view.configuration()).streamingConnectionIdleTimeout),
    }),
    ...(lacks('checkpoint') ? [] : checkpointEndpoints({ view, rootDir, checkpoint })),
    ...debugEndpoints({
      setVerbosity,
      insight,
      isProfilingEnabled: settings.profilingHandler,
      isFlagsEnabled: settings.debugFlagsHandler,
    }),
    ...(lacks('flagz') ? [] : [flagzEndpoint(flags)]),
    ...(lacks('statusz') ? [] : [statuszEndpoint(program)]),
  ];
}

function withoutDebugging(shared: readonly Endpoint[]): Api {
  const disabled = refused(DEBUG_PREFIXES, 'Debug endpoints are disabled.');
  return { endpoints: [...shared, ...disabled], slashed: new Set(['/stats', ...DEBUG_PREFIXES]) };
}

const RIGHTS: Readonly<Record<string, Endpoint['subresources']>> = {
  '/runningpods': ['pods', 'proxy'],
  '/logs': ['log'],
};

/** The same answer for every path below these prefixes. */
const refused = (prefixes: readonly string[], why: string): Endpoint[] =>
  prefixes.flatMap((prefix) =>
    [prefix, `${prefix}/*`].map((path) => ({
      path,
      methods: 'any' as const,
      subresources: RIGHTS[prefix] ?? (['proxy'] as const),
      answer: () => refusal(405, why),
    })),
  );
