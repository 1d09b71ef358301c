/**
 * The connection to a container runtime: gRPC over its Unix socket, with typed calls and one form of errors.
 *
 * Invariants: every unary call ends, by answer, deadline or abort (`null` for no deadline); nothing is retried here;
 * only API v1 is supported. The protobuf contract is loaded once, at the first connection.
 */
import { constants as system } from 'node:os';
import { getSystemErrorMap } from 'node:util';
import * as grpc from '@grpc/grpc-js';
import { OperationError } from '../../kernel/json.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type {
  ExecSyncRequest,
  ImageServiceCalls,
  RuntimeServiceCalls,
  RuntimeServiceStreams,
} from '../../machines/model/api/cri.ts';
import { Contract } from '../contract.ts';
import { traceparent } from '../tracing/propagation.ts';
import { type ExecOutput, execOutput, withoutOthers } from './message-fields.ts';

/** The largest reply: the limit of the Go kubelet, enough for about 20,000 containers. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
/** Fields of a reply: a container in a list has about seventy, so that 20,000 have fewer. */
const FIELDS_MAX = 1_500_000;
/** First wait before a lost connection is tried again; a runtime's restart takes tenths of a second. */
const MIN_RECONNECT_MS = 100;
/** Longest wait between two attempts to connect, as in the Go kubelet. */
const MAX_RECONNECT_MS = 3_000;

const CHANNEL_OPTIONS: grpc.ChannelOptions = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  'grpc.initial_reconnect_backoff_ms': MIN_RECONNECT_MS,
  'grpc.min_reconnect_backoff_ms': MIN_RECONNECT_MS,
  'grpc.max_reconnect_backoff_ms': MAX_RECONNECT_MS,
  'grpc.enable_retries': 0,
  'grpc.enable_channelz': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
};

const RETRIABLE: ReadonlySet<grpc.status> = new Set([
  grpc.status.UNAVAILABLE,
  grpc.status.DEADLINE_EXCEEDED,
  grpc.status.RESOURCE_EXHAUSTED,
]);

type Calls = Omit<RuntimeServiceCalls, 'ExecSync'> &
  ImageServiceCalls & { readonly ExecSync: [ExecSyncRequest, ExecOutput] };
export type CallName = keyof Calls;

/** An event of containerd's event service; `value` is the base64 of the message that `type_url` names. */
export interface Envelope {
  readonly topic: string;
  readonly namespace: string;
  readonly event?: { readonly type_url: string; readonly value: string } | null;
}

interface Streams extends RuntimeServiceStreams {
  readonly Subscribe: [{ readonly filters: readonly string[] }, Envelope];
}
export type StreamName = 'GetContainerEvents' | 'Subscribe';

export interface CallOptions {
  /** `null`: no limit. */
  readonly timeoutMs: number | null;
  readonly signal?: AbortSignal;
}

export interface RuntimeClient {
  call<Name extends CallName>(name: Name, request: Calls[Name][0], options: CallOptions): Promise<Calls[Name][1]>;
  /**
   * Delivers every message until the runtime or the signal ends the stream. A container event carries only the status
   * of its own container, not those of the rest of the pod.
   */
  stream<Name extends StreamName>(
    name: Name,
    request: Streams[Name][0],
    onMessage: (message: Streams[Name][1]) => void,
    signal: AbortSignal,
  ): Promise<void>;
  close(): void;
}

const contract = new Contract(
  ['cri/v1/api.proto', 'containerd/services/events/v1/events.proto', 'containerd/events/events.proto'],
  { bytes: String, fieldsMax: FIELDS_MAX },
);

type Method<Request, Response> = grpc.MethodDefinition<Request, Response>;

const RUNTIME = 'runtime.v1.RuntimeService';
const IMAGES = 'runtime.v1.ImageService';
const EVENTS = 'containerd.services.events.v1.Events';

/** The socket of an endpoint such as `unix:///run/containerd/containerd.sock`. */
export function socketTarget(endpoint: string): string {
  const path = endpoint.startsWith('unix://') ? endpoint.slice('unix://'.length) : endpoint;
  if (!path.startsWith('/')) {
    throw new OperationError(
      `runtime endpoint ${JSON.stringify(endpoint)}: only support unix socket endpoint; ` +
        'write it as unix:///path/to/runtime.sock',
      { code: 'INVALID_ARGUMENT' },
    );
  }
  return `unix://${path}`;
}

/** The name of a code; a server may answer with a number that has none, or with none at all. */
const codeName = (code: number): string => (grpc.status as Readonly<Record<number, string>>)[code] ?? 'UNKNOWN';

/** `NOT_FOUND` as Go spells it: `NotFound`. A number without a name is unknown. */
export function goCodeName(code: number): string {
  const name = codeName(code);
  if (name === 'OK' || name === 'CANCELLED') return name === 'OK' ? 'OK' : 'Canceled';
  return name
    .split('_')
    .map((word) => word.charAt(0) + word.slice(1).toLowerCase())
    .join('');
}

/** What each call tells the runtime beside its request: the span that it belongs to. */
function metadataOfCall(): grpc.Metadata {
  const metadata = new grpc.Metadata();
  const header = traceparent();
  if (header !== undefined) metadata.set('traceparent', header);
  return metadata;
}

function isServiceError(thrown: unknown): thrown is grpc.ServiceError {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'number';
}

/** The library's text for a socket without a listener; its address is that of the socket. */
const NOT_CONNECTED = /^No connection established\. Last error: (?:Error: )?connect (E[A-Z]+) (.+)\. Resolution note: /;
const IS_LATE = /^Deadline exceeded after \d/;
/** The other side's own error can be longer. */
const NOT_CONNECTED_MAX_CHARS = 1_024;

/**
 * Go's text for a connection that cannot be opened, or is lost, and for a call that this side ends; other errors have
 * that of the other side.
 */
function goDetails({ code, details }: grpc.ServiceError): string {
  if (code === grpc.status.DEADLINE_EXCEEDED && IS_LATE.test(details)) return 'context deadline exceeded';
  if (code === grpc.status.CANCELLED && details === 'Cancelled on client') return 'context canceled';
  if (code !== grpc.status.UNAVAILABLE) return details;
  if (details === 'Connection dropped') return 'error reading from server: EOF';
  const [, name = '', address = ''] = NOT_CONNECTED.exec(details.slice(0, NOT_CONNECTED_MAX_CHARS)) ?? [];
  const number = (system.errno as Readonly<Record<string, number>>)[name];
  if (number === undefined) return details;
  const network = address.startsWith('/') ? 'unix' : 'tcp';
  const what = getSystemErrorMap().get(-number)?.[1] ?? name;
  const reason = `transport: Error while dialing: dial ${network} ${address}: connect: ${what}`;
  return `connection error: desc = ${JSON.stringify(reason)}`;
}

/** An error of gRPC with the text that the Go kubelet puts into events and statuses. */
export function toOperationError(thrown: unknown): OperationError {
  if (!isServiceError(thrown)) return new OperationError(messageOf(thrown));
  const { code } = thrown;
  const name = code in grpc.status || Number.isNaN(code) ? goCodeName(code) : `Code(${code})`;
  return new OperationError(`rpc error: code = ${name} desc = ${goDetails(thrown)}`, {
    name: 'RuntimeError',
    code: codeName(code),
    retriable: RETRIABLE.has(code),
  });
}

function unary<Request, Response>(
  client: grpc.Client,
  method: Method<Request, Response>,
  request: Request,
  { timeoutMs, signal }: CallOptions,
): Promise<Response> {
  const { path, requestSerialize, responseDeserialize } = method;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new OperationError(`${path} was cancelled`, { code: 'CANCELLED' }));
    const deadline = timeoutMs === null ? {} : { deadline: Date.now() + timeoutMs };
    const cancel = () => call.cancel();
    const call = client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      metadataOfCall(),
      deadline,
      (error, reply) => {
        signal?.removeEventListener('abort', cancel);
        if (reply === undefined) reject(toOperationError(error));
        else resolve(reply);
      },
    );
    signal?.addEventListener('abort', cancel, { once: true });
  });
}

function serverStream<Request, Message>(
  client: grpc.Client,
  method: Method<Request, Message>,
  request: Request,
  onMessage: (message: Message) => void,
  signal: AbortSignal,
): Promise<void> {
  const { path, requestSerialize, responseDeserialize } = method;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return resolve();
    const call = client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request);
    const cancel = () => call.cancel();
    const settle = (error?: Error) => {
      signal.removeEventListener('abort', cancel);
      if (error && !signal.aborted) reject(toOperationError(error));
      else resolve();
    };
    /** A message that cannot be handled ends its stream, not the agent. */
    const take = (message: Message) => {
      try {
        onMessage(message);
      } catch (error) {
        settle(new OperationError(messageOf(error)));
        cancel();
      }
    };
    signal.addEventListener('abort', cancel, { once: true });
    call.on('data', take).on('error', settle).on('end', settle);
  });
}

export interface Endpoints {
  readonly endpoint: string;
  /** The socket of the image service, if it is not the runtime's. */
  readonly imageEndpoint?: string;
}

/** ExecSync with the output of the command as bytes. */
const asBytes = <Request, Reply>(method: Method<Request, Reply>): Method<Request, Reply> => ({
  ...method,
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the caller names the call
  responseDeserialize: execOutput as unknown as Method<Request, Reply>['responseDeserialize'],
});

/** Creates a client. The first call opens the socket. */
export function connectRuntime({ endpoint, imageEndpoint }: Endpoints): RuntimeClient {
  const open = (at: string) => new grpc.Client(socketTarget(at), grpc.credentials.createInsecure(), CHANNEL_OPTIONS);
  const runtime = open(endpoint);
  const images = imageEndpoint === undefined || imageEndpoint === endpoint ? runtime : open(imageEndpoint);
  return {
    call: <Name extends CallName>(name: Name, request: Calls[Name][0], options: CallOptions) => {
      const ofRuntime = contract.method<Calls[Name][0], Calls[Name][1]>(RUNTIME, name);
      if (ofRuntime) return unary(runtime, name === 'ExecSync' ? asBytes(ofRuntime) : ofRuntime, request, options);
      const ofImages = contract.method<Calls[Name][0], Calls[Name][1]>(IMAGES, name);
      if (ofImages) return unary(images, ofImages, request, options);
      throw new Error(`proto/cri/v1/api.proto has no call ${name}`);
    },
    stream: <Name extends StreamName>(
      name: Name,
      request: Streams[Name][0],
      onMessage: (message: Streams[Name][1]) => void,
      signal: AbortSignal,
    ) => {
      const method = contract.method<Streams[Name][0], Streams[Name][1]>(name === 'Subscribe' ? EVENTS : RUNTIME, name);
      if (!method) throw new Error(`proto/ has no stream ${name}`);
      const { responseDeserialize } = method;
      const reducedMethod =
        name === 'Subscribe'
          ? method
          : { ...method, responseDeserialize: (bytes: Buffer) => responseDeserialize(withoutOthers(bytes)) };
      return serverStream(runtime, reducedMethod, request, onMessage, signal);
    },
    close: () => {
      runtime.close();
      if (images !== runtime) images.close();
    },
  };
}

/**
 * Decodes a message of package `containerd.events`; `null` if the contract lacks it.
 *
 * @throws OperationError if the bytes are no such message
 */
export function decodeEvent(typeUrl: string, value: string): Readonly<Record<string, unknown>> | null {
  const type = typeUrl.slice(typeUrl.lastIndexOf('/') + 1);
  try {
    return contract.decode(type, Buffer.from(value, 'base64')) ?? null;
  } catch (error) {
    throw new OperationError(`cannot decode an event ${type}: ${messageOf(error)}`, { code: 'MALFORMED' });
  }
}
