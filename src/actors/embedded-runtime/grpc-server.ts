/**
 * The gRPC server of the embedded runtime on its private unix socket, and the place where faults are injected.
 *
 * Owns the socket. Invariants: only the folder's owner has access (0700, socket 0600); a socket served by another
 * process is never taken over; an error of one call never ends the process.
 */

import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import { type ServerWritableStream, status } from '@grpc/grpc-js';
import { messageOf } from '../../kernel/thrown.ts';
import type { ContainerEventResponse } from '../../machines/model/api/cri.ts';
import { Contract } from '../contract.ts';
import { CriError } from './errors.ts';
import type { Faults } from './faults.ts';
import type { Methods } from './service.ts';

/** Bytes of one message: the limit of the Go kubelet and containerd. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
/** Bytes of a unix socket's path (sun_path without the final zero). */
const MAX_SOCKET_PATH = 107;
const OTHERS = 0o077;

export interface GrpcServerOptions {
  readonly socket: string;
  readonly runtimeMethods: Methods;
  readonly imageMethods: Methods;
  readonly events: Events;
  readonly faults: Faults;
}

export interface GrpcServer {
  close(): Promise<void>;
}

export async function serve(options: GrpcServerOptions): Promise<GrpcServer> {
  await prepareSocket(options.socket);
  const closing = new AbortController();
  const server = new grpc.Server({
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  });
  const wrap = (methods: Methods) =>
    Object.fromEntries(
      Object.entries(methods).map(([name, method]) => [name, unary(name, method, options.faults, closing.signal)]),
    );
  const contract = new Contract(['cri/v1/api.proto'], { bytes: String });
  server.addService(contract.service('runtime.v1.RuntimeService'), {
    ...wrap(options.runtimeMethods),
    GetContainerEvents: (stream: EventStream) => void listen(stream, options, closing.signal),
  });
  server.addService(contract.service('runtime.v1.ImageService'), wrap(options.imageMethods));
  await bind(server, options.socket);
  return {
    close: async () => {
      closing.abort();
      options.events.close();
      server.forceShutdown();
      rmSync(options.socket, { force: true });
    },
  };
}

type Method = Methods[string];
type Call = grpc.ServerUnaryCall<unknown, unknown>;

function unary(name: string, method: Method, faults: Faults, closing: AbortSignal) {
  const work = async (call: Call): Promise<unknown> => {
    const gone = new AbortController();
    call.once('cancelled', () => gone.abort());
    const signal = AbortSignal.any([gone.signal, closing]);
    const fault = faults.next(name);
    if (fault && !fault.afterSuccess) await applyFault(fault, signal);
    const response = await method(call.request, signal);
    if (fault?.afterSuccess) await applyFault(fault, signal);
    return response;
  };
  return async (call: Call, callback: grpc.sendUnaryData<unknown>): Promise<void> => {
    let response: unknown;
    try {
      response = await work(call);
    } catch (thrown) {
      callback(serviceError(thrown));
      return;
    }
    callback(null, response);
  };
}

async function listen(stream: EventStream, { events, faults }: GrpcServerOptions, closing: AbortSignal): Promise<void> {
  try {
    const fault = faults.next('GetContainerEvents');
    if (fault) await applyFault(fault, closing);
    events.add(stream);
  } catch (thrown) {
    stream.emit('error', serviceError(thrown));
  }
}

async function applyFault(
  { delayMs, error }: NonNullable<ReturnType<Faults['next']>>,
  signal: AbortSignal,
): Promise<void> {
  if (delayMs > 0) await sleep(delayMs, undefined, { signal });
  if (error) throw new CriError(error.code, error.message);
}

function serviceError(thrown: unknown): Partial<grpc.StatusObject> {
  const code = thrown instanceof CriError ? thrown.code : grpc.status.UNKNOWN;
  return { code, details: messageOf(thrown) };
}

async function prepareSocket(socket: string): Promise<void> {
  if (Buffer.byteLength(socket) > MAX_SOCKET_PATH) {
    throw new Error(`socket path ${socket} is longer than ${MAX_SOCKET_PATH} bytes: choose a shorter one`);
  }
  const directory = dirname(socket);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const mode = lstatSync(directory).mode & 0o777;
  if (mode & OTHERS) {
    throw new Error(
      `the folder ${directory} of the runtime's socket is open to others (mode ${mode.toString(8)}): ` +
        'give the socket a folder of its own with mode 700',
    );
  }
  if (await isServed(socket))
    throw new Error(`another runtime already serves ${socket}: stop it or choose another socket`);
  rmSync(socket, { force: true });
}

function isServed(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = createConnection(socket);
    connection.once('connect', () => {
      connection.destroy();
      resolve(true);
    });
    connection.once('error', () => resolve(false));
  });
}

function bind(server: grpc.Server, socket: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.bindAsync(`unix://${socket}`, grpc.ServerCredentials.createInsecure(), (thrown) => {
      if (thrown) {
        reject(new Error(`cannot listen on ${socket}: ${thrown.message}`));
        return;
      }
      chmodSync(socket, 0o600);
      resolve();
    });
  });
}

type EventStream = ServerWritableStream<unknown, ContainerEventResponse>;

/** Events queued for one slow listener; containerd's limit. */
const MAX_WAITING = 1000;
/** Listeners: the node agent, and a few observers. */
const MAX_LISTENERS = 64;

/**
 * The stream of container events, to all subscribers.
 *
 * Invariant: a listener that does not read uses bounded memory: beyond the limit its stream ends with an error and it
 * must list again.
 */
export class Events {
  readonly #streams = new Set<EventStream>();

  add(stream: EventStream): void {
    if (this.#streams.size >= MAX_LISTENERS) {
      fail(stream, `${MAX_LISTENERS} listeners already follow the container events`);
      return;
    }
    this.#streams.add(stream);
    stream.once('cancelled', () => this.#streams.delete(stream));
    stream.once('error', () => this.#streams.delete(stream));
    // Sends the headers now, so that the listener knows that it is connected before the first event.
    stream.sendMetadata(stream.metadata.clone());
  }

  send(event: ContainerEventResponse): void {
    for (const stream of this.#streams) {
      if (stream.writableLength < MAX_WAITING) {
        stream.write(event);
      } else {
        this.#streams.delete(stream);
        fail(stream, `${MAX_WAITING} container events wait unread: list again and listen anew`);
      }
    }
  }

  close(): void {
    for (const stream of this.#streams) stream.end();
    this.#streams.clear();
  }
}

function fail(stream: EventStream, details: string): void {
  stream.emit('error', { code: status.RESOURCE_EXHAUSTED, details });
}
