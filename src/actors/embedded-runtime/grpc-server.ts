/**
 * The gRPC server of the embedded runtime on its private unix socket, with injected faults for tests.
 *
 * Owns: the socket. Invariants: only the folder's owner has access (0700, socket 0600); a socket served by another
 * process is never taken over; an error of one call never ends the process.
 *
 * A file defines which calls are slow, fail, or succeed and then fail (the reply is lost):
 *
 *     { "<Method>": [{ "delayMs": 100, "error": { "code": "UNAVAILABLE", "message": "…" },
 *                      "times": 2, "afterSuccess": true }] }
 *
 * The first entry with remaining `times` applies (without `times`: always). With `afterSuccess`, delay and error come
 * after the work. The file is read again when it changes, and counters are reset; an invalid file changes nothing, and
 * is reported.
 */
import { chmodSync, lstatSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createConnection } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import { type ServerWritableStream, status } from '@grpc/grpc-js';
import { isObject } from '../../kernel/json.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { ContainerEventResponse } from '../../machines/model/api/cri.ts';
import { mapValues } from '../../machines/model/values/tables.ts';
import { Contract } from '../contract.ts';
import { CriError } from './errors.ts';
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
    mapValues(methods, (method, name) => unary(name, method, options.faults, closing.signal));
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

/** Milliseconds: longer than any deadline that a node agent sets. */
const MAX_DELAY_MS = 3_600_000;

export interface Fault {
  readonly delayMs: number;
  readonly error: { readonly code: status; readonly message: string } | undefined;
  readonly afterSuccess: boolean;
}

interface Entry extends Fault {
  timesLeft: number;
}

export class Faults {
  readonly #file: string | undefined;
  readonly #report: (text: string) => void;
  #entries = new Map<string, Entry[]>();
  #readVersion = '';

  constructor(file: string | undefined, report: (text: string) => void) {
    this.#file = file;
    this.#report = report;
  }

  /** The fault of the next call of this method; consumes one use. */
  next(method: string): Fault | undefined {
    this.#refresh();
    const entry = this.#entries.get(method)?.find(({ timesLeft }) => timesLeft > 0);
    if (entry) entry.timesLeft -= 1;
    return entry;
  }

  #refresh(): void {
    if (this.#file === undefined) return;
    const found = statSync(this.#file, { bigint: true, throwIfNoEntry: false });
    const stamp = found ? `${found.ino} ${found.size} ${found.mtimeNs}` : '';
    if (stamp === this.#readVersion) return;
    this.#readVersion = stamp;
    try {
      this.#entries = found ? parseFaults(readFileSync(this.#file, 'utf8')) : new Map();
    } catch (thrown) {
      this.#report(`faults file ${this.#file} is ignored until it changes: ${messageOf(thrown)}`);
    }
  }
}

function parseFaults(text: string): Map<string, Entry[]> {
  const parsed: unknown = JSON.parse(text);
  if (!isObject(parsed)) throw new Error('it must be an object of lists by method');
  return new Map(
    Object.entries(parsed).map(([method, list]) => {
      if (!Array.isArray(list)) throw new Error(`${method} must be a list`);
      return [method, list.map((one, index) => parseEntry(one, `${method}[${index}]`))];
    }),
  );
}

function parseEntry(value: unknown, where: string): Entry {
  if (!isObject(value)) throw new Error(`${where} must be an object`);
  const { delayMs = 0, error, times = Number.POSITIVE_INFINITY, afterSuccess = false, ...rest } = value;
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) throw new Error(`${where} has an unknown field "${unknown}"`);
  if (typeof delayMs !== 'number' || delayMs < 0) throw new Error(`${where}.delayMs must be a number of milliseconds`);
  if (typeof times !== 'number' || times < 0) throw new Error(`${where}.times must be a count`);
  if (typeof afterSuccess !== 'boolean') throw new Error(`${where}.afterSuccess must be true or false`);
  return {
    delayMs: Math.min(delayMs, MAX_DELAY_MS),
    error: error === undefined ? undefined : parseError(error, `${where}.error`),
    timesLeft: times,
    afterSuccess,
  };
}

function parseError(value: unknown, where: string): Fault['error'] {
  if (!isObject(value)) throw new Error(`${where} must be an object with code and message`);
  const { code, message = 'injected fault' } = value;
  const number = ERROR_CODES.get(code);
  if (number === undefined) throw new Error(`${where}.code must be the name or number of a gRPC error`);
  return { code: number, message: String(message) };
}

/** gRPC codes by name and by number. */
const ERROR_CODES = new Map<unknown, status>(
  Object.values(status)
    .filter((code) => typeof code === 'number' && code !== status.OK)
    .flatMap((code) => [[code, code] as const, [status[code], code] as const]),
);
