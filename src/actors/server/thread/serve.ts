/**
 * The server thread: all code that reads external input runs here, and may fail here. Every read of the
 * node and every call to it is a request to the main thread.
 *
 * Owns the ports and local sockets that the main thread opens, until it closes them or this thread ends. Keeps no state
 * that a new thread would need, and no secret except the key of the serving certificate.
 */
import { Readable } from 'node:stream';
import { Registry } from 'prom-client';
import type { JsonEvent } from '../../../kernel/json.ts';
import type { LocalSocket, ServedPort } from '../../../machines/model/operations/server.ts';
import { aborted } from '../../pause.ts';
import { healthzPort } from '../endpoints/health.ts';
import type { Insight } from '../http/inspector.ts';
import { RequestMetrics } from '../metrics/calls/request-metrics.ts';
import { type Family, familiesOf } from '../metrics/instruments.ts';
import type { NodeMetrics } from '../metrics/node-metrics.ts';
import type { ApiView } from '../node-pods.ts';
import { type ServerOptions, serveLocal, servePort } from '../node-port.ts';
import type { Feed } from '../visualizer/feed.ts';
import { JournalFiles } from '../visualizer/journal-files.ts';
import type { PageInput } from '../visualizer/served-page.ts';
import { Visualizer } from '../visualizer/visualizer.ts';
import { Channel, type MessageEnd, type ReceivedCall } from './channel.ts';
import { KnownPods } from './known-pods.ts';
import { type Ask, asks, type ThreadFacts } from './questions.ts';

const WAIT_MS = 200;
/**
 * How long the main thread may be silent: longer than any turn or start takes on a loaded machine; probers have their
 * own timeouts.
 */
const STALLED_MS = 10_000;

type Problems = Readonly<Record<string, string | null>>;

/**
 * Whether the main thread is alive, for health checks answered in another thread.
 *
 * Invariants: L1 a check is answered within {@link WAIT_MS}, whatever the main thread does. L2 the main thread may be
 * busy for {@link STALLED_MS} before it counts as stuck: its last answer is used until then.
 */
export class MainThreadHealth {
  readonly #ask: () => Promise<Problems>;
  readonly #now: () => number;
  #problems: Problems = {};
  #asking: { readonly sinceMs: number; readonly answer: Promise<unknown> } | undefined;

  /** @param now milliseconds of a clock that never goes back */
  constructor(ask: () => Promise<Problems>, now: () => number = () => performance.now()) {
    this.#ask = ask;
    this.#now = now;
  }

  /** Why the check of this name fails, or `null`. */
  async problem(name: string): Promise<string | null> {
    const asking = (this.#asking ??= this.#begin());
    await within(asking.answer);
    const silentMs = this.#asking === asking ? this.#now() - asking.sinceMs : 0;
    if (silentMs < STALLED_MS) return this.#problems[name] ?? null;
    return `the kernel has not answered for ${Math.floor(silentMs / 1_000)} s`;
  }

  #begin() {
    return { sinceMs: this.#now(), answer: this.#hear() };
  }

  async #hear(): Promise<void> {
    try {
      this.#problems = await this.#ask();
      this.#asking = undefined;
    } catch {
      // Sending fails only if the channel has ended, and this thread ends with it.
    }
  }
}

/** Resolves with the answer, or at the timeout. */
const within = (answer: Promise<unknown>): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, WAIT_MS);
    void answer.finally(() => {
      clearTimeout(timer);
      resolve();
    });
  });

export function remoteNode(ask: Ask, { flags, program, logDirectory, checks }: ThreadFacts): ServerOptions {
  const registry = new Registry();
  const requests = new RequestMetrics(registry);
  return {
    view: remoteView(ask, checks),
    metrics: remoteMetrics(ask, registry, requests),
    requests,
    stats: remoteStats(ask),
    execSync: async (request, signal) => {
      const { exitCode, stdout, stderr } = await ask('execSync', request, { signal });
      return { exitCode, stdout: Buffer.from(stdout), stderr: Buffer.from(stderr) };
    },
    streams: {
      exec: (request) => ask('exec', request),
      attach: (request) => ask('attach', request),
      portForward: (request) => ask('portForward', request),
    },
    checkpoint: async (request, signal) => void (await ask('checkpoint', request, { signal })),
    create: ({ client: _client, ...request }, signal) => ask('review', request, { signal }),
    setVerbosity: (level) => void ask('setVerbosity', level),
    insight: remoteInsight(ask),
    flags: () => flags,
    program,
    logDirectory,
    warn: (sentence) => void ask('warn', sentence),
  };
}

const remoteFeed = (ask: Ask): Feed => ({
  tree: () => ask('tree', null),
  phases: () => ask('phases', null),
  podList: () => ask('podList', null),
  actor: (asked) => ask('actor', asked),
  records: (asked) => ask('records', asked),
  health: () => ask('health', null),
  follow: (asked, { signal, emit }) => ask('follow', asked, { signal, onItem: emit }),
});

function remoteView(ask: Ask, names: readonly string[]): ApiView {
  const pods = new KnownPods((since) => ask('pods', { since }));
  const life = new MainThreadHealth(() => ask('checks', null));
  return {
    pods: () => pods.all(),
    configuration: shared(() => ask('configuration', null)),
    checks: Object.fromEntries(names.map((name) => [name, () => life.problem(name)])),
  };
}

/** Concurrent callers share one request. */
function shared<Output>(ask: () => Promise<Output>): () => Promise<Output> {
  let underWay: Promise<Output> | undefined;
  return () => {
    underWay ??= ask().finally(() => (underWay = undefined));
    return underWay;
  };
}

function remoteStats(ask: Ask): ServerOptions['stats'] {
  const summary = (onlyCpuAndMemory: boolean) => shared(() => ask('summary', { onlyCpuAndMemory }));
  const [all, some] = [summary(false), summary(true)];
  return { summary: ({ onlyCpuAndMemory }) => (onlyCpuAndMemory ? some() : all()) };
}

function remoteMetrics(ask: Ask, registry: Registry, { healthchecks }: RequestMetrics): NodeMetrics {
  const collected = (
    endpoint: keyof NodeMetrics,
    own: () => Promise<readonly Family[]> = async () => [],
  ): (() => Promise<readonly Family[]>) => shared(async () => await ask('metrics', { endpoint, further: await own() }));
  return {
    node: collected('node', () => familiesOf(registry)),
    cadvisor: collected('cadvisor'),
    resource: collected('resource'),
    probes: collected('probes'),
    slis: collected('slis', () => healthchecks.families()),
  };
}

function remoteInsight(ask: Ask): Insight {
  return {
    facts: () => ask('facts', null),
    profile: (kind, seconds, signal) => ask('profile', { kind, seconds }, { signal }),
    heap: () => {
      const gone = new AbortController();
      let more: () => void = () => {};
      const body = new Readable({
        read: () => more(),
        destroy: (error, done) => {
          gone.abort();
          more();
          done(error);
        },
      });
      const onItem = (piece: string): Promise<void> | undefined =>
        body.push(piece) ? undefined : new Promise((resolve) => (more = resolve));
      ask('heap', null, { signal: gone.signal, onItem }).then(
        () => body.push(null),
        (error: Error) => body.destroy(error),
      );
      return body;
    },
  };
}

/** The arguments of a service, which runs until the signal. */
interface Service<Input> {
  readonly input: Input;
  readonly signal: AbortSignal;
  readonly emit: (item: JsonEvent) => void;
}

/** Sources that services read. */
interface Parts {
  readonly ask: Ask;
  readonly node: ServerOptions;
}

async function servePage({ input, signal, emit }: Service<PageInput>, { ask }: Parts): Promise<null> {
  const { journal, ...page } = input;
  const files = journal === null ? {} : { journal: new JournalFiles(journal) };
  const served = new Visualizer({ ...page, feed: remoteFeed(ask), ...files });
  const { href, port } = await served.listen();
  emit({ type: 'page.listening', href, port: Number(port) });
  await aborted(signal);
  await served.close();
  return null;
}

/** The services that the main thread can open, by name. */
const SERVICES = {
  port: (call: Service<ServedPort>, { node }: Parts) => servePort(call, node),
  localSocket: (call: Service<LocalSocket>, { node }: Parts) => serveLocal(call, node),
  healthz: (call: Service<{ readonly address: string; readonly port: number }>, { node }: Parts) =>
    healthzPort(call, { ping: node.view.checks['ping']! }, node.requests.healthchecks.checked),
  page: servePage,
};

export type ServiceName = keyof typeof SERVICES;

/** Starts to answer requests at `end`. */
export function serve(end: MessageEnd, facts: ThreadFacts): void {
  const opens = Object.entries(SERVICES).map(([name, open]) => {
    const opened = (input: never, { signal, emit }: ReceivedCall) =>
      open({ input, signal, emit: (item) => void emit(item) }, parts);
    return [name, opened] as const;
  });
  const channel: Channel = new Channel(end, { ...Object.fromEntries(opens), alive: () => null });
  const ask = asks(channel);
  const parts: Parts = { ask, node: remoteNode(ask, facts) };
  // Loaded ahead to speed up the first request.
  void import('fastify');
}
