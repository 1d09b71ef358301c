/** An embedded runtime in a folder of its own, and a client that calls it over the real socket. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import { loadSync, type MethodDefinition } from '@grpc/proto-loader';
import { type EmbeddedRuntime, startEmbeddedRuntime } from '../../../src/actors/embedded-runtime/embedded-runtime.ts';
import type * as cri from '../../../src/machines/model/api/cri.ts';

const PROTO = new URL('../../../proto/cri/v1/api.proto', import.meta.url).pathname;
const CONTRACT = loadSync(PROTO, {
  keepCase: true,
  longs: String,
  enums: String,
  bytes: String,
  defaults: true,
});

class Client {
  readonly #client: grpc.Client;

  constructor(endpoint: string) {
    this.#client = new grpc.Client(endpoint, grpc.credentials.createInsecure(), {
      'grpc.max_receive_message_length': 16 * 1024 * 1024,
    });
  }

  call<Response = unknown>(method: string, request: object = {}, deadlineMs = 60_000): Promise<Response> {
    return new Promise((resolve, reject) => {
      const answered: grpc.requestCallback<object> = (error, response) =>
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract decodes what the method names
        error ? reject(error) : resolve(response as Response);
      const { path, requestSerialize, responseDeserialize } = methodOf(method);
      const metadata = new grpc.Metadata();
      const options = { deadline: Date.now() + deadlineMs };
      this.#client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, metadata, options, answered);
    });
  }

  /** Resolves when the runtime has accepted the listener. */
  async events(onEvent: (event: cri.ContainerEventResponse) => void): Promise<grpc.ClientReadableStream<unknown>> {
    const { path, requestSerialize, responseDeserialize } = methodOf('GetContainerEvents');
    const stream = this.#client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, {});
    stream.on('data', onEvent);
    stream.on('error', () => {});
    await new Promise((resolve) => stream.once('metadata', resolve));
    return stream;
  }

  close(): void {
    this.#client.close();
  }
}

function methodOf(name: string): MethodDefinition<object, object> {
  for (const service of ['RuntimeService', 'ImageService']) {
    const definition = CONTRACT[`runtime.v1.${service}`];
    const method = definition && !('format' in definition) ? definition[name] : undefined;
    if (method) return method;
  }
  throw new Error(`CRI has no method ${name}`);
}

/** A node's folder with a runtime in it, and the steps of its tests. */
export class Node {
  readonly directory = mkdtempSync(join(tmpdir(), 'statelet-runtime-'));
  readonly socket = join(this.directory, 'run', 'cri.sock');
  readonly root = join(this.directory, 'root');
  readonly logs = join(this.directory, 'logs');
  readonly faultsFile = join(this.directory, 'faults.json');
  readonly logged: { text: string; fields: Readonly<Record<string, unknown>> }[] = [];
  readonly client = new Client(`unix://${this.socket}`);
  #runtime: EmbeddedRuntime | undefined;
  #pods = 0;

  async start(): Promise<this> {
    this.#runtime = await startEmbeddedRuntime({
      socket: this.socket,
      rootDir: this.root,
      faultsFile: this.faultsFile,
      log: (_level, text, fields = {}) => void this.logged.push({ text, fields }),
    });
    return this;
  }

  async stop(options?: { stopContainers: boolean }): Promise<void> {
    await this.#runtime?.close(options);
    this.#runtime = undefined;
  }

  /** Removes all sandboxes of every runtime in the folder, then the folder. */
  async destroy(): Promise<void> {
    rmSync(this.faultsFile, { force: true });
    if (!this.#runtime) await this.start();
    const { items } = await this.client.call<cri.ListPodSandboxResponse>('ListPodSandbox');
    await Promise.all(items.map(({ id }) => this.client.call('RemovePodSandbox', { pod_sandbox_id: id })));
    await this.stop();
    this.client.close();
    rmSync(this.directory, { recursive: true, force: true });
  }

  sandboxConfig(name = `pod-${++this.#pods}`): cri.PodSandboxConfig {
    return { metadata: { name, uid: `uid-${name}`, namespace: 'default' }, log_directory: join(this.logs, name) };
  }

  async pod(config = this.sandboxConfig()): Promise<string> {
    const { pod_sandbox_id } = await this.client.call<cri.RunPodSandboxResponse>('RunPodSandbox', { config });
    return pod_sandbox_id;
  }

  async create(pod_sandbox_id: string, config: Partial<cri.ContainerConfig>): Promise<string> {
    const { container_id } = await this.client.call<cri.CreateContainerResponse>('CreateContainer', {
      pod_sandbox_id,
      config: {
        metadata: { name: 'app' },
        image: { image: 'statelet.local/host:latest' },
        log_path: 'app.log',
        ...config,
      },
    });
    return container_id;
  }

  /** A started container that runs this shell script. */
  async run(script: string, config: Partial<cri.ContainerConfig> = {}): Promise<string> {
    const id = await this.create(await this.pod(), { command: ['/bin/sh', '-c', script], ...config });
    await this.client.call('StartContainer', { container_id: id });
    return id;
  }

  async status(container_id: string): Promise<cri.ContainerStatus> {
    const { status } = await this.client.call<cri.ContainerStatusResponse>('ContainerStatus', { container_id });
    if (!status) throw new Error(`no status of ${container_id}`);
    return status;
  }

  async pid(container_id: string): Promise<number> {
    const { info } = await this.client.call<cri.ContainerStatusResponse>('ContainerStatus', {
      container_id,
      verbose: true,
    });
    const details: { pid: number } = JSON.parse(info['info'] ?? '{}');
    return details.pid;
  }

  exited(id: string): Promise<cri.ContainerStatus> {
    return eventually(`container ${id} exits`, async () => {
      const status = await this.status(id);
      return status.state === 'CONTAINER_EXITED' ? status : undefined;
    });
  }

  async logLines(id: string): Promise<readonly { stream: string; tag: string; text: string; time: string }[]> {
    const { log_path } = await this.status(id);
    return readFileSync(log_path, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => {
        const [time = '', stream = '', tag = '', ...text] = line.split(' ');
        return { time, stream, tag, text: text.join(' ') };
      });
  }
}

/** Far longer than a busy machine needs, in milliseconds. */
const PATIENCE_MS = 60_000;

/** Polls until there is an answer; an error names what did not happen. */
export async function eventually<T>(what: string, ask: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (const until = Date.now() + PATIENCE_MS; Date.now() < until; await sleep(10)) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
  }
  throw new Error(`waited ${PATIENCE_MS} ms in vain until ${what}`);
}

export function isProcess(pid: number): boolean {
  try {
    return !/^\S+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}
