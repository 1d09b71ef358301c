/** A test node that is observed by a CRI client beside the daemon, and by the daemon's own reports about its pods. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { connectRuntime, type RuntimeClient } from '../../src/actors/cri/client.ts';
import { BUILT_IN_IMAGE } from '../../src/actors/embedded-runtime/store/images.ts';
import { exitCodes } from '../../src/bin/exit-codes.ts';
import { readJournal } from '../../src/kernel/journal/reader.ts';
import { OperationError } from '../../src/kernel/json.ts';
import type { ContainerStatus, PodSandbox } from '../../src/machines/model/api/cri.ts';
import type { PodStatus } from '../../src/machines/model/api/pod.ts';
import { type Containerd, containerdAvailable, startContainerd } from './containerd.ts';
import { type DaemonOptions, eventually, readText, TestNode } from './daemon.ts';
import { patient } from './patience.ts';

const CALL = { timeoutMs: patient(120_000) };
const POD_NAME_LABEL = 'io.kubernetes.pod.name';

export interface RuntimeChoice {
  readonly name: string;
  readonly unavailable: string | null;
  start(): Promise<RuntimeInUse>;
}

export interface RuntimeInUse {
  /** Absent: the embedded runtime. */
  readonly endpoint?: string;
  readonly image: string;
  close(): Promise<void>;
}

/** The runtimes on which every test of a node runs. */
export const runtimes: readonly RuntimeChoice[] = [
  {
    name: 'the embedded runtime',
    unavailable: null,
    start: () => Promise.resolve({ image: BUILT_IN_IMAGE, close: () => Promise.resolve() }),
  },
  {
    name: 'containerd',
    unavailable: containerdAvailable(),
    start: async () => {
      const containerd: Containerd = await startContainerd();
      return { endpoint: containerd.endpoint, image: containerd.image, close: () => containerd.close() };
    },
  },
];

/** A container as the runtime reports it; it stays equal while the container is not touched. */
export interface Instance {
  readonly id: string;
  readonly state: string;
  readonly startedAt: string;
  readonly attempt: number;
  readonly exitCode: number;
}

const instance = ({ id, state, started_at, metadata, exit_code }: ContainerStatus): Instance => ({
  id,
  state,
  startedAt: started_at,
  attempt: metadata?.attempt ?? 0,
  exitCode: exit_code,
});

export class ObservedNode extends TestNode {
  readonly image: string;
  readonly #endpoint: string;
  readonly #isEmbedded: boolean;
  #ownRuntime: RuntimeInUse | undefined;
  #client: RuntimeClient | undefined;

  /** A node that is not started yet, on a runtime of its own, which ends with it. */
  static async on(choice: RuntimeChoice): Promise<ObservedNode> {
    const runtime = await choice.start();
    const node = new ObservedNode(runtime);
    node.#ownRuntime = runtime;
    return node;
  }

  constructor(runtime: RuntimeInUse, options: DaemonOptions = {}) {
    super({
      ...(runtime.endpoint === undefined ? {} : { endpoint: runtime.endpoint }),
      ...options,
    });
    this.image = runtime.image;
    this.#isEmbedded = runtime.endpoint === undefined;
    this.#endpoint = runtime.endpoint ?? `unix://${this.rootDir}/embedded/cri.sock`;
  }

  get client(): RuntimeClient {
    this.#client ??= connectRuntime({ endpoint: this.#endpoint });
    return this.#client;
  }

  /** The containers of a pod, the oldest first. */
  async instances(pod: string): Promise<Instance[]> {
    const filter = { label_selector: { [POD_NAME_LABEL]: `${pod}-node1` } };
    const { containers } = await this.client.call('ListContainers', { filter }, CALL);
    const statuses = await Promise.all(containers.map(({ id }) => this.#statusOf(id)));
    return statuses
      .flatMap((status) => (status ? [instance(status)] : []))
      .sort((a, b) => a.attempt - b.attempt || Number(BigInt(a.startedAt) - BigInt(b.startedAt)));
  }

  /** Null for a container that was removed after it was listed, as can happen to old instances at any time. */
  async #statusOf(id: string): Promise<ContainerStatus | null> {
    try {
      return (await this.client.call('ContainerStatus', { container_id: id }, CALL)).status ?? null;
    } catch (error) {
      if (error instanceof OperationError && error.code === 'NOT_FOUND') return null;
      throw error;
    }
  }

  /** The running instance. */
  async running(pod: string): Promise<Instance> {
    return eventually(`a container of ${pod} runs`, async () => {
      const found = await this.instances(pod);
      return found.find(({ state }) => state === 'CONTAINER_RUNNING');
    });
  }

  async sandboxes(pod: string): Promise<number> {
    return (await this.#listSandboxes(pod)).length;
  }

  /** Without replaced sandboxes that wait for the garbage collection. */
  async readySandboxes(pod: string): Promise<number> {
    return (await this.#listSandboxes(pod)).filter(({ state }) => state === 'SANDBOX_READY').length;
  }

  async #listSandboxes(pod: string): Promise<readonly PodSandbox[]> {
    const filter = { label_selector: { [POD_NAME_LABEL]: `${pod}-node1` } };
    return (await this.client.call('ListPodSandbox', { filter }, CALL)).items;
  }

  async gone(pod: string): Promise<void> {
    await eventually(`nothing is left of ${pod}`, async () => (await this.sandboxes(pod)) === 0);
  }

  /** The status that the daemon would publish for the newest pod with this name; null before there is one. */
  async status(pod: string): Promise<PodStatus | null> {
    const known = await this.context('kubelet/status');
    const pods = Object.values((known?.['pods'] ?? {}) as Record<string, { uid: string; name: string }>);
    const found = pods.filter(({ name }) => name === `${pod}-node1`).at(-1);
    if (!found) return null;
    const actor = await this.context(`kubelet/pods/pod-${found.uid}`);
    return (actor?.['status'] as PodStatus | undefined) ?? null;
  }

  async untilPhase(pod: string, phase: string): Promise<PodStatus> {
    return eventually(`${pod} is ${phase}`, async () => {
      const status = await this.status(pod);
      return status?.phase === phase ? status : null;
    });
  }

  /** The incarnations in the journal, oldest first. */
  incarnations(): string[] {
    const names = readdirSync(this.journal).flatMap((file) => /^j-(\w+)-\d+\.ndjson/.exec(file)?.[1] ?? []);
    return [...new Set(names)].sort();
  }

  /** The records of all uncompressed segments, complete, one per line. */
  journalText(): string {
    const segments = readdirSync(this.journal).filter((file) => file.endsWith('.ndjson'));
    const begun = segments.map((file) => join(this.journal, file)).filter((file) => readText(file).includes('\n'));
    return begun.flatMap((file) => [...readJournal(file).records].map((record) => JSON.stringify(record))).join('\n');
  }

  /** The faults of the journal; empty if it verifies and these incarnations replay to the same decisions. */
  journalFaults(incarnations = this.incarnations()): string[] {
    const verified = this.statelet('verify', this.journal);
    const faults = verified.code === 0 ? [] : [`verify ended with ${verified.code}: ${verified.stdout}`];
    return incarnations.length === 0 ? faults : [...faults, ...this.#replayFaults(incarnations)];
  }

  /** Replays all in one process, because starting a process takes longer than most replays. */
  #replayFaults(incarnations: readonly string[]): string[] {
    const logOf = (incarnation: string): string => `${this.journal}@${incarnation}`;
    const { stdout, stderr } = this.statelet('replay', '--output=json', ...incarnations.map(logOf));
    if (!stdout.startsWith('{')) return [`replay of ${incarnations.join(', ')} wrote no report: ${stderr}`];
    const { logs } = JSON.parse(stdout) as { logs: readonly { log: string; code: number }[] };
    return incarnations.flatMap((incarnation) => {
      const report = logs.find(({ log }) => log === logOf(incarnation));
      // The agent was killed before its first line was complete: the replay must report that there is nothing.
      const expected = this.#hasBegun(incarnation) ? exitCodes.same : exitCodes.noLog;
      if (report?.code === expected) return [];
      return [`replay of ${incarnation} did not end with ${expected}: ${JSON.stringify(report ?? stderr)}`];
    });
  }

  #hasBegun(incarnation: string): boolean {
    const segments = readdirSync(this.journal).filter((file) => file.startsWith(`j-${incarnation}-`));
    return segments.some((file) => file.endsWith('.zst') || readText(join(this.journal, file)).includes('\n'));
  }

  /** Leaves no container behind. The daemon of the embedded runtime ends its containers on SIGINT. */
  override async close(): Promise<void> {
    this.#client?.close();
    if (this.#isEmbedded) {
      for (const name of readdirSync(this.manifests)) this.remove(name);
      if (!this.isRunning) await this.start();
      await this.stop('SIGINT');
    }
    await super.close();
    await this.#ownRuntime?.close();
  }

  file(name: string): string {
    return join(this.directory, name);
  }
}
