/**
 * Composition of the daemon: one kernel with its journal, its ports, and its observers (log, visualizer, banner).
 *
 * Owns: the order of the shutdown. The root machine ends; then the journal and the runtime's connection are closed, and
 * only then does the process exit.
 */
import { randomInt } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { certificatePorts } from '../actors/certificate/certificates.ts';
import { cgroupPorts } from '../actors/cgroup/index.ts';
import { csiPorts } from '../actors/csi/index.ts';
import { diskPorts } from '../actors/disk/index.ts';
import { hostPorts } from '../actors/host/index.ts';
import { credentialPorts } from '../actors/image/index.ts';
import { ServiceAccounts } from '../actors/image/service-accounts.ts';
import { connectKube } from '../actors/kube/index.ts';
import type { OnTransport } from '../actors/kube/transport.ts';
import { logPorts, logRecords, printLine } from '../actors/log/logger.ts';
import { logindPorts } from '../actors/logind/logind.ts';
import { containerLogPorts } from '../actors/logs/container-logs.ts';
import { PACKAGE_DIRECTORY } from '../actors/package-directory.ts';
import { performerOf } from '../actors/performer.ts';
import { pluginPorts } from '../actors/plugins/index.ts';
import { readablePod } from '../actors/pod-values.ts';
import { probePorts } from '../actors/probe/index.ts';
import { connectRuntime } from '../actors/runtime/index.ts';
import { type NodeServer, nodeServer } from '../actors/server/node-server.ts';
import { KernelFeed } from '../actors/server/visualizer/feed.ts';
import { keptToken, type ServedPage } from '../actors/server/visualizer/served-page.ts';
import { StatsReader, statsPorts } from '../actors/stats/index.ts';
import { nodeTracer, type Tracer } from '../actors/tracing/index.ts';
import { userNamespacePorts } from '../actors/users/user-namespaces.ts';
import { volumePorts } from '../actors/volume/index.ts';
import { buildInfo } from '../kernel/build-info.ts';
import { hostTime } from '../kernel/clock.ts';
import { openJournal } from '../kernel/journal/open.ts';
import { openVault, type Vault } from '../kernel/journal/secrets.ts';
import type { PlainError } from '../kernel/json.ts';
import { Kernel } from '../kernel/kernel.ts';
import { FORMAT_VERSION, type HeaderRecord, type KernelRecord, type LogLevel } from '../kernel/records.ts';
import { messageOf } from '../kernel/thrown.ts';
import { commandFailed } from '../machines/configuration/resolve.ts';
import { NEWEST_BEHAVIOR } from '../machines/model/settings/behaviors.ts';
import type { KubeletContext } from '../machines/startup/context/types.ts';
import { kubeletMachine } from '../machines/startup/kubelet.ts';
import { maskedArguments } from './effective-configuration.ts';
import { printLines } from './prepared-run.ts';
import { onFault, onNpmEnded, outlive } from './process-end.ts';
import { KUBELET_VERSION, NODE_VERSION, STATELET_VERSION } from './version.ts';

/** Seeds fit the generator's 32 bits. */
const SEED_MAX = 2 ** 32 - 1;
/** Upstream's mode of the root directory; the journal inside is for the owner alone. */
const ROOT_DIRECTORY_MODE = 0o750;
/** Below the root directory: the key of the handles that stand for secrets in the journal. */
const SECRETS_KEY = 'pki/journal-secrets.key';
/** Below the root directory: the token that clients of the visualizer present. */
const TOKEN = 'visualizer.token';
const SERVER_THREAD = `${PACKAGE_DIRECTORY}/src/bin/server-thread.js`;

export interface DaemonOptions {
  /** Arguments of the kubelet, without Statelet's own. Their credentials are hidden before anything is written. */
  readonly argv: readonly string[];
  readonly rootDir: string;
  readonly dataDir: string | null;
  readonly journalDir: string;
  readonly journalPlain: boolean;
  /** See `--remember-pods`. */
  readonly rememberPods: boolean;
  readonly visualizerPort: number | 'off';
  readonly nodeName: string;
  readonly logFormat: 'text' | 'json';
  readonly verbosity: number;
  /** Run the pods once and end; see `statelet run-once`. */
  readonly runOnce?: { readonly retries: number };
  /** Receives the output of the root machine after everything was written and closed. */
  readonly ended?: (output: unknown) => void;
}

/** Opens the places on disk without which nothing can be recorded. */
function openPlaces({ rootDir, journalDir, journalPlain }: DaemonOptions) {
  try {
    makeFolder(rootDir);
    const report = (level: LogLevel, sentence: string) => printLine(level, 'journal', sentence);
    const vault = openVault(join(rootDir, SECRETS_KEY), { isPlain: journalPlain });
    return { journal: openJournal({ directory: journalDir, report }), vault };
  } catch (error) {
    return { error: messageOf(error) };
  }
}

/** Creates the folders one by one: with `recursive`, Node never returns for a path below /proc. */
function makeFolder(path: string): void {
  if (existsSync(path) && statSync(path).isDirectory()) return;
  if (dirname(path) !== path) makeFolder(dirname(path));
  mkdirSync(path, { mode: ROOT_DIRECTORY_MODE });
}

type End = { readonly output: unknown } | { readonly error: PlainError };

/** Runs until the root machine ends; resolves with the exit code. */
export async function runDaemon(options: DaemonOptions): Promise<number> {
  // The journal has the lines of the log. What a single run prints on its standard output is its result.
  outlive(process.stderr, ...(options.runOnce ? [] : [process.stdout]));
  const places = openPlaces(options);
  if ('error' in places) {
    printLines('error', commandFailed(`failed to run Kubelet: ${places.error}`).lines);
    return 1;
  }
  const { journal, vault } = places;
  const parts = openParts(options, vault, nodeTracer(KUBELET_VERSION));
  const argv = maskedArguments(options.argv, (value) => vault.seal(value).$secret);
  const announce = announceOnce(() => {
    const visualizer = pageAddress(parts.page?.url ?? null, tokenFile(options), process.stderr.isTTY);
    return { journal: options.journalDir, visualizer };
  });
  let interrupted = false;
  const end = await new Promise<End>((resolve) => {
    const kernel = new Kernel({
      machine: kubeletMachine,
      header: header({ ...options, argv }, journal.incarnation),
      sink: journal,
      time: hostTime(),
      performer: parts.performer,
      onTurn: (records, running, tookMs) => {
        parts.log(records);
        parts.server.onTurn(records, running, tookMs);
        parts.tracer.onTurn(records, running);
        parts.onTurn(records, running, tookMs);
        announce(records, running);
      },
      onStopped: resolve,
    });
    onSignals((signal) => {
      interrupted ||= signal === 'SIGINT';
      kernel.dispatch(kubeletMachine.id, { type: 'signal.received', signal }, 'process');
    });
    onFault((fault) => kernel.dispatch(kubeletMachine.id, fault, 'process'));
    kernel.boot();
    if (parts.page) openPage(parts.page);
  });
  await journal.close();
  parts.page?.close();
  await parts.server.close();
  await parts.tracer.close();
  await parts.kube.close();
  parts.cgroups.close();
  await parts.runtime.close({ stopContainers: interrupted });
  if ('output' in end) options.ended?.(end.output);
  return exitCode(end);
}

const printOfRuntime: Parameters<typeof connectRuntime>[0] = (level, text, fields) =>
  printLine(level, 'runtime', text, fields);

const VERSIONS = { version: KUBELET_VERSION, nodeVersion: NODE_VERSION };

/** Creates the ports and the observers. They are used only after the kernel has booted. */
function openParts(options: DaemonOptions, vault: Vault, tracer: Tracer) {
  const runtime = connectRuntime(printOfRuntime, vault, (seen) => server.onRuntime(seen));
  const cgroups = cgroupPorts();
  const onTransport: OnTransport = (seen) => server.onTransport(seen);
  const kube = connectKube({ vault, onTransport, onRequest: (seen) => server.onRequest(seen) });
  const feed = new KernelFeed();
  const log = logRecords({ verbosity: options.verbosity, ...(options.logFormat === 'json' ? { format: 'json' } : {}) });
  const stats = new StatsReader({ call: runtime.call, onVolume: (...measured) => server.onVolume(...measured) });
  const server = nodeServer({
    call: runtime.call,
    review: kube.review,
    stats,
    argv: options.argv,
    ...VERSIONS,
    journalDir: options.journalDir,
    openedPod: (pod) => readablePod(pod, vault),
    setVerbosity: (verbosity) => log.setVerbosity(verbosity),
    warn: (sentence) => printLine('warn', 'server', sentence),
    feed,
    thread: { entry: SERVER_THREAD, isBundled: extname(import.meta.filename) === '.cjs' },
  });
  if (!options.runOnce) server.start();
  const { close: _close, ...groups } = cgroups;
  const ports = {
    ...groups,
    ...hostPorts({ vault }),
    ...logPorts(log),
    ...storagePorts(vault),
    ...containerLogPorts(),
    ...userNamespacePorts(),
    ...credentialPorts({
      vault,
      accounts: new ServiceAccounts(kube),
      onRun: (run) => server.onCredentialPlugin(run),
      warn: (message) => printLine('warn', 'credentials', message),
    }),
    ...certificatePorts({ vault }),
    ...kube.ports,
    ...runtime.ports,
    ...pluginPorts(),
    ...probePorts(runtime.ports, server.onAttempt, vault),
    ...logindPorts(),
    ...statsPorts(stats),
    ...server.ports,
  };
  const page = pageOf(options, server);
  const onTurn: typeof feed.onTurn = page ? feed.onTurn : () => {};
  return { runtime, cgroups, kube, page, onTurn, log, server, tracer, performer: performerOf(ports, tracer.around) };
}

/** The ports of every kind of volume. */
const storagePorts = (vault: Vault) => ({ ...volumePorts({ vault }), ...csiPorts({ vault }), ...diskPorts({ vault }) });

const tokenFile = ({ rootDir }: DaemonOptions): string => join(rootDir, TOKEN);

/** A token that cannot be stored (a full disk) disables the page, not the node. */
function pageOf(options: DaemonOptions, server: NodeServer): ServedPage | null {
  const { visualizerPort, journalDir, journalPlain } = options;
  if (visualizerPort === 'off') return null;
  try {
    const token = keptToken(tokenFile(options));
    return server.page({ port: visualizerPort, token, journal: journalPlain ? null : journalDir });
  } catch (error) {
    noPage(`its token cannot be kept: ${messageOf(error)}`, '--visualizer-port=off');
    return null;
  }
}

const noPage = (reason: string, advice: string): void =>
  void process.stderr.write(`statelet: no visualizer: ${reason}; try ${advice}\n`);

function header(options: DaemonOptions, incarnation: string): Omit<HeaderRecord, 'n' | 'k' | 't'> {
  const { argv, dataDir, journalDir, nodeName, rememberPods, runOnce } = options;
  const given = { argv, dataDir, journalDir, rememberPods, ...(runOnce ? { runOnce } : {}) };
  return {
    version: FORMAT_VERSION,
    incarnation,
    seed: randomInt(1, SEED_MAX),
    node: nodeName,
    bootId: bootId(),
    build: buildInfo(kubeletMachine, STATELET_VERSION),
    input: { ...given, behavior: NEWEST_BEHAVIOR, version: NODE_VERSION },
  };
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return 'unknown';
  }
}

/** The page opens after the first turn: nothing waits for it, and a port in use disables the page, not the node. */
const openPage = (page: ServedPage): void =>
  void page.serve().catch((error: Error) => noPage(error.message, '--visualizer-port=0'));

/** The first signal requests the end of the machines, a second one ends the process. SIGHUP requests a reload. */
function onSignals(received: (signal: string) => void): void {
  let signals = 0;
  onNpmEnded(() => received('SIGTERM'));
  process.on('SIGHUP', received);
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (++signals > 1) process.exit(1);
      received(signal);
    });
  }
}

function exitCode(end: End): number {
  if ('error' in end) {
    process.stderr.write(`statelet: the supervisor failed: ${end.error.message}\n`);
    return 1;
  }
  return (end.output as { exitCode: number }).exitCode;
}

/**
 * The address of the page, as it is printed. Its token opens every record of the node: it is for the user at a
 * terminal, and a log, which others may read, says only which file has it.
 */
export function pageAddress(url: string | null, tokenPath: string, toTerminal: boolean): string | null {
  if (url === null || toTerminal) return url;
  return `${new URL('/', url).href} (needs ?token= and the content of ${tokenPath})`;
}

interface Places {
  readonly journal: string;
  readonly visualizer: string | null;
}

/** The observer that prints the places of the node for a user at a terminal, once, when the start is complete. */
function announceOnce(places: () => Places): (records: readonly KernelRecord[], kernel: Kernel) => void {
  let healthz: string | null = null;
  let announced = false;
  return (records, kernel) => {
    if (announced) return;
    healthz ??= healthzIn(records);
    const root = kernel.snapshotOf(kubeletMachine.id) as Snapshot | undefined;
    if (!root?.matches({ alive: { startup: { startKubelet: { serving: 'blocked' } } } })) return;
    if ((root.context.config?.healthzPort ?? 0) > 0 && !healthz) return;
    announced = true;
    process.stderr.write(banner(root.context, { ...places(), healthz }));
  };
}

interface Snapshot {
  readonly context: KubeletContext;
  matches(value: unknown): boolean;
}

function healthzIn(records: readonly KernelRecord[]): string | null {
  for (const record of records) {
    if (record.k !== 'message' || record.event.type !== 'healthz.serving') continue;
    const [address, port] = [String(record.event['address']), Number(record.event['port'])];
    return `http://${address.includes(':') ? `[${address}]` : address}:${port}/healthz`;
  }
  return null;
}

function banner(
  { input, runtime, settings, config }: KubeletContext,
  places: Places & { readonly healthz: string | null },
): string {
  const runtimeText = runtime?.embedded ? 'embedded: plain host processes, no isolation' : runtime?.endpoint;
  const rows = [
    ['visualizer', places.visualizer ?? 'off'],
    ['healthz', places.healthz ?? 'off'],
    ['journal', places.journal],
    ['runtime', `${runtime?.name} ${runtime?.version} (${runtimeText})`],
    ['pods', config?.staticPodPath || 'none: set staticPodPath or --pod-manifest-path'],
  ] as const;
  const lines = rows.map(([name, value]) => `  ${name.padEnd(11)} ${value}\n`).join('');
  return `\nstatelet ${input.version} runs as node ${settings?.nodeName}\n${lines}\n`;
}
