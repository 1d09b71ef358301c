/** The daemon as a user starts it: a separate process with folders of its own, observed from outside. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemCalls } from '../../src/actors/host/kernel/syscall.ts';
import { mountsBelow } from '../../src/actors/volume/mounter.ts';
import { cgroupV1Available, makeCgroupRoot, removeCgroupRoot } from './cgroups.ts';
import { isEmulated, patient } from './patience.ts';
import { freePort } from './ports.ts';

const ROOT = join(import.meta.dirname, '../..');
/** The command that Node runs. */
export const STATELET = join(ROOT, 'src/bin/statelet.js');

export interface DaemonOptions {
  /** Without an endpoint, the embedded runtime is used: the default endpoint does not exist. */
  readonly endpoint?: string;
  /** Further lines of the configuration file. */
  readonly configuration?: string;
  readonly flags?: readonly string[];
  /** A command that starts the daemon, followed by the daemon's own command line. */
  readonly within?: readonly string[];
}

interface OnceOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly podLogs?: string;
}

/** The time limit of a command that ends by itself. */
const ONCE_TIMEOUT_MS = patient(180_000);

/** The limit for the output of a command: a replay with a difference prints whole records. */
const OUTPUT_MAX_BYTES = 64 * 1024 * 1024;

/** A start takes a second; sixty of them on two busy cores have taken half a minute. */
const STARTING_LIMIT_MS = 120_000;
/** What takes a second has taken half a minute beside other tests. */
const PATIENCE_MS = 60_000;
/** Containers that still run may write a last line of their logs meanwhile. */
const REMOVED = { recursive: true, force: true, maxRetries: 10, retryDelay: 100 } as const;
/** An end takes a second or two, and five more for containers that do not stop; a minute is a hang. */
const ENDING_LIMIT_MS = 45_000;
/** The port of a node that serves nothing, which requires a number nevertheless. */
const UNUSED_PORT = 10_250;
/**
 * The time limit of a request to the runtime. An emulated machine needs minutes to start a container with a hundredth
 * of a CPU, or twenty at once.
 */
const SLOW_RUNTIME = isEmulated ? 'runtimeRequestTimeout: 20m' : '';
/** The name and address of every test node. */
const NAMES = ['--hostname-override=node1', '--node-ip=127.0.0.1'];

/** The pause between two polls is a share of the time that has passed, so that a long wait uses little CPU. */
const [POLL_SHARE, POLL_MIN_MS, POLL_MAX_MS] = [0.15, 20, 250];

/** Polls until `probe` returns a value; after the time limit it fails with `what`. */
export async function eventually<T>(
  what: string,
  probe: () => T | Promise<T>,
  timeoutMs = PATIENCE_MS,
): Promise<NonNullable<T>> {
  const began = Date.now();
  const limitMs = patient(timeoutMs);
  const end = began + limitMs;
  let last: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value) return value;
    } catch (thrown) {
      last = thrown;
    }
    if (Date.now() > end)
      throw new Error(`${what}: not within ${limitMs} ms${last instanceof Error ? ` (${last.message})` : ''}`);
    const pauseMs = Math.min(POLL_MAX_MS, Math.max(POLL_MIN_MS, (Date.now() - began) * POLL_SHARE));
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/**
 * Every agent of this machine leaves links to logs here. When a node is removed, the links of its remaining pods are
 * dangling.
 */
const LOG_LINKS = '/var/log/containers';

function removeLinksInto(folder: string): void {
  const entries = existsSync(LOG_LINKS) ? readdirSync(LOG_LINKS, { withFileTypes: true }) : [];
  const links = entries.filter((entry) => entry.isSymbolicLink()).map(({ name }) => join(LOG_LINKS, name));
  for (const link of links) if (leadsInto(link, folder)) rmSync(link, { force: true });
}

/** A link of another node may disappear meanwhile. */
function leadsInto(link: string, folder: string): boolean {
  try {
    return readlinkSync(link).startsWith(`${folder}/`);
  } catch {
    return false;
  }
}

/** One node: folders that outlive its daemons. */
export class TestNode {
  readonly directory = mkdtempSync(join(tmpdir(), 'statelet-node-'));
  readonly manifests = join(this.directory, 'manifests');
  readonly rootDir = join(this.directory, 'root');
  readonly journal = join(this.rootDir, 'journal');
  readonly logs = join(this.directory, 'logs');
  /** Only for this node, so that everything left below it is the node's. */
  readonly cgroupRoot: string;
  healthzPort = 0;
  /** The port of the node's own API. */
  port = 0;
  visualizerPort = 0;
  private daemon: ChildProcess | undefined;
  private output = '';
  /** The output of the daemons before this one. */
  private earlier = '';
  private readonly options: DaemonOptions;

  constructor(options: DaemonOptions = {}) {
    this.options = options;
    this.cgroupRoot = options.endpoint && cgroupV1Available() === null ? makeCgroupRoot() : '/';
    mkdirSync(this.manifests);
  }

  /** Starts a daemon; resolves when /healthz answers, with the milliseconds from exec to the answer. */
  async start(extra: readonly string[] = [], environment: Readonly<Record<string, string>> = {}): Promise<number> {
    this.healthzPort = await freePort();
    this.port = await freePort();
    this.visualizerPort = await freePort();
    const config = join(this.directory, 'config.yaml');
    writeFileSync(config, this.configuration());
    this.earlier += this.output;
    this.output = '';
    const before = performance.now();
    const argv = [STATELET, 'run', `--config=${config}`, ...this.folders(), ...this.flags(), ...extra];
    const [program = process.execPath, ...words] = [...(this.options.within ?? []), process.execPath, ...argv];
    const daemon = spawn(program, words, {
      env: { ...process.env, ...environment },
      cwd: this.directory,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.daemon = daemon;
    for (const stream of [daemon.stdout, daemon.stderr]) stream.on('data', (chunk) => (this.output += String(chunk)));
    const exited = new Promise<never>((_, reject) => {
      daemon.once('exit', (code, signal) =>
        reject(new Error(`the daemon ended with ${code ?? signal}\n${this.output}`)),
      );
    });
    exited.catch(() => {});
    const healthy = eventually('healthz', () => this.healthz(), STARTING_LIMIT_MS).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.output}`, { cause: error });
    });
    healthy.catch(() => {});
    await Promise.race([exited, healthy]);
    return performance.now() - before;
  }

  /** Runs `statelet <verb>` with this node's configuration until it ends by itself. */
  async once(
    verb: string,
    extra: readonly string[] = [],
    { environment = {}, podLogs = this.logs }: OnceOptions = {},
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    const config = join(this.directory, 'config.yaml');
    writeFileSync(config, this.configuration().replace(`podLogsDir: ${this.logs}`, `podLogsDir: ${podLogs}`));
    const argv = [STATELET, verb, `--config=${config}`, ...this.folders(), ...NAMES, ...extra];
    const child = spawn(process.execPath, argv, {
      cwd: this.directory,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...environment },
      timeout: ONCE_TIMEOUT_MS,
    });
    const output = { stdout: '', stderr: '' };
    child.stdout.on('data', (chunk) => (output.stdout += String(chunk)));
    child.stderr.on('data', (chunk) => (output.stderr += String(chunk)));
    const code = await new Promise<number>((ended) => child.once('close', (status) => ended(status ?? -1)));
    return { code, ...output };
  }

  private configuration(): string {
    const { endpoint, configuration = '' } = this.options;
    return `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: ${this.manifests}
podLogsDir: ${this.logs}
authentication: { webhook: { enabled: false } }
authorization: { mode: AlwaysAllow }
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
cgroupRoot: ${this.cgroupRoot}
healthzPort: ${this.healthzPort}
address: 127.0.0.1
port: ${this.port || UNUSED_PORT}
${endpoint ? `containerRuntimeEndpoint: ${endpoint}` : ''}
${configuration.includes('runtimeRequestTimeout:') ? '' : SLOW_RUNTIME}
${configuration}
`;
  }

  private folders(): string[] {
    return [`--root-dir=${this.rootDir}`, `--cert-dir=${join(this.directory, 'pki')}`];
  }

  private flags(): string[] {
    const own = [`--visualizer-port=${this.visualizerPort}`, ...NAMES];
    return [...own, ...(this.options.flags ?? [])];
  }

  async healthz(): Promise<boolean> {
    const response = await fetch(`http://127.0.0.1:${this.healthzPort}/healthz`);
    return response.ok && (await response.text()) === 'ok';
  }

  /** The socket of `v1.PodResourcesLister`. */
  get podResources(): string {
    return join(this.rootDir, 'pod-resources/kubelet.sock');
  }

  get pid(): number {
    return this.daemon!.pid!;
  }

  get isRunning(): boolean {
    return this.daemon !== undefined && this.daemon.exitCode === null && this.daemon.signalCode === null;
  }

  get log(): string {
    return this.output;
  }

  /** Resolves with the exit code, or the name of the signal. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | string> {
    const daemon = this.daemon;
    if (!daemon || !this.isRunning) return daemon?.exitCode ?? 'none';
    const ended = new Promise<number | string>((resolve) =>
      daemon.once('exit', (code, name) => resolve(code ?? name!)),
    );
    daemon.kill(signal);
    return ended;
  }

  /** Writes a manifest by an atomic rename. */
  write(name: string, content: string | object): void {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    const hidden = join(this.manifests, `.${name}`);
    writeFileSync(hidden, text);
    renameSync(hidden, join(this.manifests, name));
  }

  remove(name: string): void {
    rmSync(join(this.manifests, name));
  }

  /** The context of an actor, by the visualizer's API; null if there is no such actor. */
  async context(address: string): Promise<Record<string, unknown> | null> {
    const url = `http://127.0.0.1:${this.visualizerPort}/api/actor?address=${encodeURIComponent(address)}`;
    const token = readFileSync(join(this.rootDir, 'visualizer.token'), 'utf8').trim();
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    if (!response.ok) return null;
    const { context } = (await response.json()) as { context?: string };
    return context === undefined ? null : (JSON.parse(context) as Record<string, unknown>);
  }

  /** Runs `statelet <verb> <journal> …` as a process. */
  statelet(...argv: string[]): { code: number; stdout: string; stderr: string } {
    const { status, stdout, stderr } = spawnSync(process.execPath, [STATELET, ...argv], {
      encoding: 'utf8',
      maxBuffer: OUTPUT_MAX_BYTES,
    });
    return { code: status ?? -1, stdout, stderr };
  }

  /** Reads the file in this process: a command would take CPU time of a node in a race. */
  containerLog(pod: string, container: string): string {
    const files = globSync(join(this.logs, `*_${pod}-node1_*`, container, '*.log'));
    return files.toSorted().map(textIfThere).join('');
  }

  /** The mounts below the root directory, which is a mount itself, the last one first. */
  async mounts(): Promise<readonly string[]> {
    return (await mountsBelow(this.rootDir)).filter((point) => point !== this.rootDir);
  }

  /** The daemon of the embedded runtime ends its containers only on SIGINT. */
  async close(): Promise<void> {
    await this.end(this.options.endpoint ? 'SIGKILL' : 'SIGINT');
    if ((await mountsBelow(this.rootDir)).includes(this.rootDir)) systemCalls()!.unmount(this.rootDir);
    if (this.cgroupRoot !== '/') removeCgroupRoot(this.cgroupRoot);
    if (process.env['STATELET_KEEP']) this.keep();
    else rmSync(this.directory, REMOVED);
    removeLinksInto(this.logs);
  }

  private keep(): void {
    writeFileSync(join(this.directory, 'daemon.log'), this.earlier + this.output);
    console.log(`kept ${this.directory}`);
  }

  /** If the daemon does not end, the test fails instead of waiting for ever. */
  private async end(signal: NodeJS.Signals): Promise<void> {
    let hasEnded = false;
    const ended = this.stop(signal).finally(() => (hasEnded = true));
    await eventually(`the end by ${signal}`, () => hasEnded, ENDING_LIMIT_MS).catch(async (error: Error) => {
      this.daemon?.kill('SIGKILL');
      await ended;
      throw new Error(`${error.message}\n${this.output}`, { cause: error });
    });
  }
}

/** A pod with one container that runs `script` in a shell. */
export const shellPod = (name: string, image: string, script: string, spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'c', image, imagePullPolicy: 'IfNotPresent', command: ['sh', '-c', script] }],
    ...spec,
  },
});

/** Sleeps until the stop signal, and then ends at once. */
export const SLEEP = "trap 'exit 0' TERM; sleep 3600 & wait";

export const readText = (path: string): string => readFileSync(path, 'utf8');

/** Empty for a file that is removed meanwhile. */
function textIfThere(path: string): string {
  try {
    return readText(path);
  } catch {
    return '';
  }
}
