/**
 * Calls to a plugin of the node, over gRPC at its own socket.
 *
 * Invariants: one connection per use, closed at its end; every call ends by answer, deadline or abort.
 */
import { channel } from 'node:diagnostics_channel';
import * as grpc from '@grpc/grpc-js';
import { OperationError } from '../../kernel/json.ts';
import { Contract } from '../contract.ts';
import { goCodeName, toOperationError } from '../cri/client.ts';
import { PlainCredentials } from '../grpc-socket.ts';

/** Upstream's timeout. */
const DIAL_TIMEOUT_MS = 10_000;
/** The limit of a reply, which contains a few names: longer replies would fill the journal. */
const REPLY_MAX_BYTES = 64 * 1024;

const CHANNEL_OPTIONS: grpc.ChannelOptions = {
  'grpc.max_receive_message_length': REPLY_MAX_BYTES,
  'grpc.enable_retries': 0,
  'grpc.enable_channelz': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  /** The same path may belong to another plugin now. */
  'grpc.use_local_subchannel_pool': 1,
};

export interface PluginCall {
  /** `/csi.v1.Node/NodePublishVolume` */
  readonly method: string;
  /** `unix://` and its path. */
  readonly target: string;
  /** As spelled by Go: `OK`, `NotFound`. */
  readonly code: string;
  readonly durationMs: number;
}

/** Metrics subscribe here, so that ports need no callbacks. Messages are {@link PluginCall}. */
export const pluginCalls = channel('statelet:plugin-call');

const contract = new Contract([
  'pluginregistration/v1/api.proto',
  'csi/v1/csi.proto',
  'deviceplugin/v1beta1/api.proto',
  'dra/v1/api.proto',
  'dra/v1beta1/api.proto',
  'dra/health/v1alpha1/api.proto',
]);

/** A call of a service of `proto/pluginregistration`, `proto/csi`, `proto/deviceplugin` or `proto/dra`. */
export function methodOf<Request, Reply>(service: string, name: string): grpc.MethodDefinition<Request, Reply> {
  return contract.method<Request, Reply>(service, name)!;
}

/** Opens a connection to a socket during `use`, and waits until a server listens there. */
export const connected = <Answer>(
  socket: string,
  signal: AbortSignal,
  use: (client: grpc.Client) => Promise<Answer>,
  options: grpc.ChannelOptions = {},
): Promise<Answer> =>
  withClient(
    socket,
    signal,
    async (client) => {
      await dialled(client, socket);
      return await use(client);
    },
    options,
  );

/** As {@link connected}; a call to a socket without a listener fails at once. */
export async function withClient<Answer>(
  socket: string,
  signal: AbortSignal,
  use: (client: grpc.Client) => Promise<Answer>,
  options: grpc.ChannelOptions = {},
): Promise<Answer> {
  const channel = { ...CHANNEL_OPTIONS, ...options };
  const credentials = new PlainCredentials();
  const client = new grpc.Client(`unix://${socket}`, credentials, channel);
  const close = () => {
    client.close();
    credentials.close();
  };
  signal.addEventListener('abort', close, { once: true });
  try {
    return await use(client);
  } finally {
    signal.removeEventListener('abort', close);
    close();
  }
}

interface CallOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly channel?: grpc.ChannelOptions;
}

/**
 * One call over its own connection, with Go's gRPC text for each failure.
 *
 * Invariant: a socket without a listener costs no wait: as upstream, the call fails at once.
 */
export function called<Request, Reply>(
  socket: string,
  method: grpc.MethodDefinition<Request, Reply>,
  request: Request,
  { timeoutMs, signal, channel }: CallOptions,
): Promise<Reply> {
  return withClient(socket, signal, (client) => unary(client, method, request, timeoutMs, signal), channel);
}

function dialled(client: grpc.Client, socket: string): Promise<void> {
  return new Promise((resolve, reject) => {
    client.waitForReady(Date.now() + DIAL_TIMEOUT_MS, (error) => {
      const message = `failed to dial socket ${socket}, err: context deadline exceeded`;
      if (error) reject(new OperationError(message, { code: 'UNAVAILABLE', retriable: true }));
      else resolve();
    });
  });
}

export function unary<Request, Reply>(
  client: grpc.Client,
  { path, requestSerialize, responseDeserialize }: grpc.MethodDefinition<Request, Reply>,
  request: Request,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<Reply> {
  const deadline = Date.now() + timeoutMs;
  const beganMs = performance.now();
  const answer = (code: grpc.status) => {
    const target = client.getChannel().getTarget();
    const call: PluginCall = { method: path, target, code: goCodeName(code), durationMs: performance.now() - beganMs };
    pluginCalls.publish(call);
  };
  return new Promise((resolve, reject) => {
    const cancel = () => call.cancel();
    const done: grpc.requestCallback<Reply> = (error, reply) => {
      signal?.removeEventListener('abort', cancel);
      answer(error?.code ?? grpc.status.OK);
      if (reply === undefined) reject(toOperationError(error));
      else resolve(reply);
    };
    const call = client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, { deadline }, done);
    signal?.addEventListener('abort', cancel, { once: true });
  });
}

/** The messages that a plugin streams, until the signal or the end of the iteration. */
export async function* messagesOf<Reply>(
  client: grpc.Client,
  { path, requestSerialize, responseDeserialize }: grpc.MethodDefinition<object, Reply>,
  signal: AbortSignal,
): AsyncGenerator<Reply> {
  const stream = client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, {});
  const cancel = () => stream.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    yield* stream as AsyncIterable<Reply>;
  } finally {
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}
