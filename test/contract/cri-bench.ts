/**
 * A runtime for the contract tests: it is started, called through the ports that the machines use, and cleared after
 * each case. `client` is for what a port would hide: raw calls, filters, errors.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectRuntime, type RuntimeClient } from '../../src/actors/cri/client.ts';
import { type CriPorts, criPorts } from '../../src/actors/cri/ports.ts';
import type { InputOf, OutputOf, PortCall } from '../../src/kernel/operation.ts';
import type { ContainerStatus, PodSandboxConfig } from '../../src/machines/model/api/cri.ts';
import type { criOperations, WatchPodsItem } from '../../src/machines/model/operations/cri.ts';

export interface RuntimeUnderTest {
  readonly name: string;
  start(): Promise<{
    readonly endpoint: string;
    /** An existing image with `sh` and the usual small tools. */
    readonly image: string;
    readonly cgroupParent?: string;
    close(): Promise<void>;
  }>;
  /** Whether containers have namespaces of their own. */
  readonly isolates: boolean;
}

type Table = typeof criOperations;
type Call = Partial<Omit<PortCall<unknown>, 'emit'>> & { emit?: (item: WatchPodsItem) => void };

/**
 * The limit for a stop that does not have to wait: below every grace period that an implementation could use instead.
 */
export const SOON_MS = 9_000;
/** What takes a moment has taken half a minute beside other tests. */
export const PATIENT = { timeoutMs: 120_000 };

export class Bench {
  readonly runtime: RuntimeUnderTest;
  #started: Awaited<ReturnType<RuntimeUnderTest['start']>> | undefined;
  #cri: CriPorts | undefined;
  #client: RuntimeClient | undefined;
  logs = '';
  #pods = 0;
  #doors = 0;

  constructor(runtime: RuntimeUnderTest) {
    this.runtime = runtime;
  }

  get client(): RuntimeClient {
    if (!this.#client) throw new Error('the runtime is not started');
    return this.#client;
  }

  get image(): string {
    return this.#started?.image ?? '';
  }

  async start(): Promise<void> {
    this.#started = await this.runtime.start();
    this.#cri = criPorts({ endpoint: this.#started.endpoint });
    this.#client = connectRuntime({ endpoint: this.#started.endpoint });
    this.logs = await mkdtemp(join(tmpdir(), 'statelet-contract-'));
  }

  async close(): Promise<void> {
    this.#cri?.close();
    this.#client?.close();
    await this.#started?.close();
    await rm(this.logs, { recursive: true, force: true });
  }

  /** Performs one operation as the kernel does. */
  ask<Name extends keyof Table>(
    name: Name,
    input: InputOf<Table[Name]>,
    over: Call = {},
  ): Promise<OutputOf<Table[Name]>> {
    if (!this.#cri) throw new Error('the runtime is not started');
    const call = { id: 1, resume: false, signal: new AbortController().signal, emit: () => {}, ...over, input };
    const port = this.#cri.ports[name] as (call: object) => Promise<OutputOf<Table[Name]>>;
    return port(call);
  }

  /** The configuration of a pod that no other test has. */
  pod(): PodSandboxConfig {
    this.#pods += 1;
    const [name, uid] = [`pod-${this.#pods}`, `uid-${process.pid}-${this.#pods}`];
    return {
      metadata: { name, uid, namespace: 'contract', attempt: 0 },
      labels: {
        'io.kubernetes.pod.name': name,
        'io.kubernetes.pod.namespace': 'contract',
        'io.kubernetes.pod.uid': uid,
      },
      log_directory: join(this.logs, name),
      linux: this.#started?.cgroupParent ? { cgroup_parent: this.#started.cgroupParent } : {},
    };
  }

  async sandbox(config = this.pod()) {
    const { podSandboxId, status } = await this.ask('cri.runPodSandbox', { config, runtimeHandler: '' });
    return { config, podSandboxId, uid: config.metadata?.uid ?? '', sandboxShown: status };
  }

  /** A created container that runs `script`. */
  async container(sandbox: { config: PodSandboxConfig; podSandboxId: string }, script: string, name = 'app') {
    const { containerId } = await this.ask('cri.createContainer', {
      podSandboxId: sandbox.podSandboxId,
      sandboxConfig: sandbox.config,
      config: this.containerConfig(sandbox.config, script, name),
    });
    return containerId;
  }

  containerConfig(sandboxConfig: PodSandboxConfig, script: string, name = 'app') {
    return {
      metadata: { name, attempt: 0 },
      image: { image: this.image },
      command: ['sh', '-c', script],
      envs: [{ key: 'GREETING', value: 'hello' }],
      labels: { ...sandboxConfig.labels, 'io.kubernetes.container.name': name },
      log_path: `${name}.log`,
      linux: { security_context: { namespace_options: { pid: 'CONTAINER' as const } } },
    };
  }

  async started(script: string) {
    const sandbox = await this.sandbox();
    const containerId = await this.container(sandbox, script);
    const { status } = await this.ask('cri.startContainer', { containerId });
    return { ...sandbox, containerId, shown: status };
  }

  /** As `started`, but the script waits until it is released, so that the container is seen running before. */
  async held(script: string) {
    const door = join(this.logs, `door-${++this.#doors}`);
    const started = await this.started(`until [ -e ${door} ]; do sleep 0.05; done; ${script}`);
    const command = ['sh', '-c', `mkdir -p ${this.logs}; touch ${door}`];
    const release = async () => {
      // The container may end earlier than the command that releases it.
      await this.ask('cri.execSync', { containerId: started.containerId, command, timeoutSeconds: 0 }).catch(() => {});
    };
    return { ...started, release };
  }

  async status(containerId: string): Promise<ContainerStatus> {
    const { status } = await this.client.call('ContainerStatus', { container_id: containerId }, PATIENT);
    if (!status) throw new Error(`no status of ${containerId}`);
    return status;
  }

  /** The status of the container after its end. */
  exit(containerId: string): Promise<ContainerStatus> {
    return eventually(async () => {
      const status = await this.status(containerId);
      return status.state === 'CONTAINER_EXITED' ? status : undefined;
    });
  }

  async log({ config }: { config: PodSandboxConfig }, name = 'app'): Promise<string[]> {
    const text = await readFile(join(config.log_directory ?? '', `${name}.log`), 'utf8');
    return text.split('\n').slice(0, -1);
  }

  async removeAll(): Promise<void> {
    const { items } = await this.client.call('ListPodSandbox', {}, PATIENT);
    await Promise.all(
      items.map(async ({ id }) => {
        await this.client.call('StopPodSandbox', { pod_sandbox_id: id }, PATIENT);
        await this.client.call('RemovePodSandbox', { pod_sandbox_id: id }, PATIENT);
      }),
    );
  }
}

/** The first result of `read` that is not empty. */
export async function eventually<Value>(read: () => Promise<Value | undefined> | Value | undefined): Promise<Value> {
  const deadline = performance.now() + PATIENT.timeoutMs;
  for (;;) {
    const seen = await read();
    if (seen !== undefined) return seen;
    if (performance.now() > deadline) throw new Error(`not seen within ${PATIENT.timeoutMs} ms`);
    await sleep(10);
  }
}

/** The container of this pod if it has this state in the item of a watch. */
export function containerIn(item: WatchPodsItem, uid: string, state: string): ContainerStatus | undefined {
  if (item.type === 'runtime.containerChanged')
    return item.uid === uid && item.status.state === state ? item.status : undefined;
  if (item.type !== 'runtime.podChanged' || item.status.uid !== uid) return undefined;
  return item.status.containers.find((container) => container.state === state);
}
