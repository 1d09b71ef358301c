/**
 * A CRI endpoint between an agent and a runtime: forwards every call byte by byte, records requests and answers, and
 * lets a test interfere with calls, streams and connections.
 *
 * Invariants: without an interference, the runtime's answers, errors and cancellations reach the agent unchanged; a
 * record exists from the beginning of its call, so that calls are in the order of their start.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

/** For messages longer than any test has. */
const UNLIMITED = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };
const SERVICES = ['runtime.v1.RuntimeService', 'runtime.v1.ImageService', 'containerd.services.events.v1.Events'];

/** The fields of the contract with their names; a field with its default is absent. */
export type Message = Readonly<Record<string, unknown>>;

export interface RecordedCall {
  readonly method: string;
  readonly request: Message;
  readonly startedAtMs: number;
  /** Absent while the call is under way. */
  endedAtMs?: number;
  /** The status of gRPC: 0 is success. */
  code?: number;
  /** The message of an error. */
  message?: string;
  /** The runtime's answer, even if the agent did not get it. */
  response?: Message;
}

/** Decides the result of one call; `forward` calls the runtime, once for each use. */
export type Interference = (call: RecordedCall, forward: () => Promise<Buffer>) => Promise<Buffer>;
/** Decides what happens to one message of a stream; `send` gives it to the agent, once for each use. */
export type StreamInterference = (method: string, message: Buffer, send: (message: Buffer) => void) => void;

/** An answer that is a gRPC error. */
export class ProxyRefusal extends Error {
  readonly code: grpc.status;
  readonly details: string;
  constructor(code: grpc.status, details: string) {
    super(details);
    this.code = code;
    this.details = details;
  }
}

type Definition = grpc.MethodDefinition<object, object>;
const asIs = (message: Buffer): Buffer => message;

function contract(): Map<string, Definition> {
  const definitions = loadSync(['cri/v1/api.proto', 'containerd/services/events/v1/events.proto'], {
    includeDirs: [fileURLToPath(new URL('../../proto', import.meta.url))],
    keepCase: true,
    longs: String,
    enums: String,
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract is text, read at run time
  return new Map(SERVICES.flatMap((name) => Object.entries(definitions[name] as Record<string, Definition>)));
}

export class CriProxy {
  readonly endpoint: string;
  readonly calls: RecordedCall[] = [];
  interfere: Interference = (_call, forward) => forward();
  interfereWithStream: StreamInterference = (_method, message, send) => send(message);
  readonly #directory: string;
  readonly #runtime: grpc.Client;
  readonly #contract = contract();
  readonly #streams = new Set<grpc.ServerWritableStream<Buffer, Buffer>>();
  #server: grpc.Server | undefined;

  private constructor(directory: string, runtimeEndpoint: string) {
    this.#directory = directory;
    this.endpoint = `unix://${join(directory, 'cri.sock')}`;
    this.#runtime = new grpc.Client(runtimeEndpoint, grpc.credentials.createInsecure(), UNLIMITED);
  }

  /** Starts a proxy for the runtime at `runtimeEndpoint` (`unix:///…`). */
  static async start(runtimeEndpoint: string): Promise<CriProxy> {
    // Not below tmpdir(), because the path of a socket has at most 107 characters.
    const proxy = new CriProxy(await mkdtemp('/tmp/statelet-cri-proxy-'), runtimeEndpoint);
    await proxy.listen();
    return proxy;
  }

  async listen(): Promise<void> {
    const server = new grpc.Server(UNLIMITED);
    const definition: Record<string, grpc.MethodDefinition<Buffer, Buffer>> = {};
    const implementation: grpc.UntypedServiceImplementation = {};
    for (const [name, method] of this.#contract) {
      definition[name] = {
        ...method,
        requestSerialize: asIs,
        requestDeserialize: asIs,
        responseSerialize: asIs,
        responseDeserialize: asIs,
      };
      implementation[name] = method.responseStream ? this.#stream(name, method) : this.#unary(name, method);
    }
    server.addService(definition, implementation);
    await new Promise<void>((resolve, reject) => {
      const credentials = grpc.ServerCredentials.createInsecure();
      server.bindAsync(this.endpoint, credentials, (error) => (error ? reject(error) : resolve()));
    });
    this.#server = server;
  }

  /** As after a crash of the runtime: connections break, the socket refuses; `listen` ends it. */
  stopListening(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
    this.#streams.clear();
  }

  /** Ends every stream with an error; the agent may open new ones. */
  breakStreams(): void {
    for (const stream of this.#streams)
      stream.emit('error', new ProxyRefusal(grpc.status.UNAVAILABLE, 'stream broken'));
    this.#streams.clear();
  }

  /** The calls of these methods, in the order of their start. */
  callsOf(...methods: readonly string[]): readonly RecordedCall[] {
    return this.calls.filter(({ method }) => methods.includes(method));
  }

  async close(): Promise<void> {
    this.stopListening();
    this.#runtime.close();
    await rm(this.#directory, { recursive: true, force: true });
  }

  #unary(name: string, method: Definition): grpc.handleUnaryCall<Buffer, Buffer> {
    return (call, callback) => {
      const record: RecordedCall = {
        method: name,
        request: decoded(method.requestDeserialize(call.request)),
        startedAtMs: Date.now(),
      };
      this.calls.push(record);
      void this.#answer(record, method, call, callback);
    };
  }

  async #answer(
    record: RecordedCall,
    method: Definition,
    call: grpc.ServerUnaryCall<Buffer, Buffer>,
    callback: grpc.sendUnaryData<Buffer>,
  ): Promise<void> {
    let reply: Buffer;
    try {
      reply = await this.interfere(record, () => this.#forward(record, method, call));
    } catch (error) {
      const { code, details } = error as grpc.ServiceError;
      ended(record, code, { message: details });
      return callback({ code, details });
    }
    ended(record, 0, {});
    callback(null, reply);
  }

  /** Forwards with the agent's deadline, and cancels when the agent cancels. */
  #forward(
    record: RecordedCall,
    { path, responseDeserialize }: Definition,
    call: grpc.ServerUnaryCall<Buffer, Buffer>,
  ): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const options = { deadline: call.getDeadline() };
      const forwarded = this.#runtime.makeUnaryRequest(path, asIs, asIs, call.request, options, (error, reply) => {
        if (reply === undefined) return reject(error ?? new Error(`${path} gave neither answer nor error`));
        record.response = decoded(responseDeserialize(reply));
        resolve(reply);
      });
      call.on('cancelled', () => forwarded.cancel());
    });
  }

  #stream(name: string, { path }: Definition): grpc.handleServerStreamingCall<Buffer, Buffer> {
    return (call) => {
      const forwarded = this.#runtime.makeServerStreamRequest(path, asIs, asIs, call.request);
      const send = (message: Buffer) => void call.write(message);
      this.#streams.add(call);
      forwarded.on('data', (message: Buffer) => this.interfereWithStream(name, message, send));
      forwarded.on('end', () => call.end());
      forwarded.on('error', ({ code, details }: grpc.ServiceError) => {
        if (this.#streams.delete(call)) call.emit('error', new ProxyRefusal(code, details));
      });
      call.on('cancelled', () => {
        this.#streams.delete(call);
        forwarded.cancel();
      });
    };
  }
}

const decoded = (message: object): Message => ({ ...message });

function ended(record: RecordedCall, code: number, end: Pick<RecordedCall, 'message'>): void {
  Object.assign(record, { endedAtMs: Date.now(), code, ...end });
}
