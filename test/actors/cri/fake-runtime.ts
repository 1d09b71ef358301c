/**
 * A CRI runtime whose answers are decided by a test: the real protocol on a real socket, without containers.
 *
 * Calls without a handler answer UNIMPLEMENTED, like those of an older runtime.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type {
  ContainerEventResponse,
  ContainerStatus,
  ImageServiceCalls,
  RuntimeServiceCalls,
} from '../../../src/machines/model/api/cri.ts';

type Calls = RuntimeServiceCalls & ImageServiceCalls;
/** An answer may omit fields, and may contain what only another runtime would send: only the encoder checks it. */
export type Handlers = {
  -readonly [Name in keyof Calls]?: (request: Calls[Name][0]) => object | Promise<object>;
};

/** An answer that is a gRPC error. */
export class Refusal extends Error {
  readonly code: grpc.status;
  constructor(code: grpc.status, message: string) {
    super(message);
    this.code = code;
  }
}

/** An answer that never comes. */
export const never = (): Promise<never> => new Promise(() => {});

export const labelsOf = (uid: string) => ({
  'io.kubernetes.pod.uid': uid,
  'io.kubernetes.pod.name': `name-of-${uid}`,
  'io.kubernetes.pod.namespace': 'default',
});

type Identified = {
  readonly id: string;
  readonly state: string;
  readonly created_at: string;
  readonly labels: Readonly<Record<string, string>>;
};
interface FakePod {
  readonly sandbox: Identified;
  readonly containers: readonly Identified[];
}

/** A pod with one ready sandbox and one container. */
export function fakePod(uid: string, state: ContainerStatus['state'] = 'CONTAINER_RUNNING'): FakePod {
  const common = { labels: labelsOf(uid) };
  return {
    sandbox: { id: `sandbox-${uid}`, state: 'SANDBOX_READY', ...common, created_at: '1' },
    containers: [{ id: `container-${uid}`, state, ...common, created_at: '2' }],
  };
}

type Selected = { readonly filter?: { readonly label_selector?: Readonly<Record<string, string>> } };

async function answer(handle: () => Promise<object>, callback: grpc.sendUnaryData<object>): Promise<void> {
  let reply: object;
  try {
    reply = await handle();
  } catch (error) {
    return callback(error instanceof Error ? error : { details: String(error) });
  }
  callback(null, reply);
}

export class FakeRuntime {
  /** By uid: the content of lists and statuses, unless a handler overrides it. */
  readonly pods = new Map<string, FakePod>();
  handlers: Handlers;
  /** By call, the header of the span that it belongs to. */
  readonly traceparents: (string | null)[] = [];
  readonly calls: string[] = [];
  readonly endpoint: string;
  readonly #directory: string;
  #server: grpc.Server | undefined;
  readonly #eventStreams = new Set<grpc.ServerWritableStream<object, object>>();
  #streamsEvents = true;

  private constructor(directory: string, handlers: Handlers) {
    this.#directory = directory;
    this.endpoint = `unix://${join(directory, 'cri.sock')}`;
    this.handlers = handlers;
  }

  static async start(handlers: Handlers = {}, options: { streamsEvents?: boolean } = {}): Promise<FakeRuntime> {
    // Not below tmpdir(), because the path of a socket has at most 107 characters.
    const fake = new FakeRuntime(await mkdtemp('/tmp/statelet-fake-cri-'), handlers);
    fake.#streamsEvents = options.streamsEvents ?? true;
    await fake.listen();
    return fake;
  }

  async listen(): Promise<void> {
    const definitions = loadSync('cri/v1/api.proto', {
      includeDirs: [fileURLToPath(new URL('../../../proto', import.meta.url))],
      keepCase: true,
      longs: String,
      enums: String,
    });
    const server = new grpc.Server({ 'grpc.max_send_message_length': -1 });
    for (const name of ['runtime.v1.RuntimeService', 'runtime.v1.ImageService']) {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract is text, read at run time
      const service = definitions[name] as grpc.ServiceDefinition;
      server.addService(service, this.#implementation(service));
    }
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(this.endpoint, grpc.ServerCredentials.createInsecure(), (error) =>
        error ? reject(error) : resolve(),
      );
    });
    this.#server = server;
  }

  /** As after a crash: connections break, the socket refuses. */
  stopListening(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
    this.#eventStreams.clear();
  }

  async close(): Promise<void> {
    this.stopListening();
    await rm(this.#directory, { recursive: true, force: true });
  }

  get listeners(): number {
    return this.#eventStreams.size;
  }

  /** Sends one event to all listeners. */
  emit(event: Partial<ContainerEventResponse>): void {
    for (const stream of this.#eventStreams) stream.write(event);
  }

  breakEventStreams(): void {
    for (const stream of this.#eventStreams)
      stream.emit('error', new Refusal(grpc.status.UNAVAILABLE, 'stream broken'));
    this.#eventStreams.clear();
  }

  count(name: keyof Calls): number {
    return this.calls.filter((call) => call === name).length;
  }

  #implementation(service: grpc.ServiceDefinition): grpc.UntypedServiceImplementation {
    const implementation: grpc.UntypedServiceImplementation = {};
    for (const [name, { responseStream }] of Object.entries(service)) {
      implementation[name] = responseStream ? this.#stream(name) : this.#unary(name);
    }
    return implementation;
  }

  #unary(name: string): grpc.handleUnaryCall<object, object> {
    return (call, callback) => {
      this.calls.push(name);
      this.traceparents.push(call.metadata.get('traceparent')[0]?.toString() ?? null);
      const handlers = { ...this.#standard(), ...this.handlers };
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the server decoded the request of this very call
      const handler = handlers[name as keyof Calls] as ((request: object) => object | Promise<object>) | undefined;
      if (!handler) return callback({ code: grpc.status.UNIMPLEMENTED, details: `method ${name} not implemented` });
      void answer(async () => handler(call.request), callback);
    };
  }

  #stream(name: string): grpc.handleServerStreamingCall<object, object> {
    return (call) => {
      if (name !== 'GetContainerEvents' || !this.#streamsEvents) {
        call.emit('error', new Refusal(grpc.status.UNIMPLEMENTED, `method ${name} not implemented`));
        return;
      }
      this.#eventStreams.add(call);
      call.on('cancelled', () => this.#eventStreams.delete(call));
    };
  }

  #standard(): Handlers {
    const wanted = (request: Selected) => {
      const uid = request.filter?.label_selector?.['io.kubernetes.pod.uid'];
      return [...this.pods].filter(([id]) => uid === undefined || id === uid).map(([, pod]) => pod);
    };
    const all = () => [...this.pods.values()];
    const found = <Value>(value: Value | undefined): { status: Value } => {
      if (value === undefined) throw new Refusal(grpc.status.NOT_FOUND, 'not found');
      return { status: value };
    };
    return {
      ListPodSandbox: (request) => ({ items: wanted(request).map(({ sandbox }) => sandbox) }),
      ListContainers: (request) => ({
        containers: wanted(request).flatMap(({ containers }) => containers),
      }),
      PodSandboxStatus: ({ pod_sandbox_id: id }) => found(all().find(({ sandbox }) => sandbox.id === id)?.sandbox),
      ContainerStatus: ({ container_id: id }) =>
        found(
          all()
            .flatMap(({ containers }) => containers)
            .find((container) => container.id === id),
        ),
    };
  }
}
