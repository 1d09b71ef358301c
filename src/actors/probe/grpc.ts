/**
 * A gRPC probe: the standard health service (`grpc.health.v1`) must say SERVING.
 *
 * Invariant: each attempt has its own channel, without TLS, proxy, retries or service configuration.
 */
import * as grpc from '@grpc/grpc-js';
import { Contract } from '../contract.ts';
import { toOperationError } from '../cri/client.ts';
import { hostPort } from '../go-errors.ts';
import { PlainCredentials } from '../grpc-socket.ts';
import { type Attempt, type AttemptOptions, failure, goSeconds, OUTPUT_MAX_BYTES, success } from './attempt.ts';

const CHANNEL_OPTIONS: grpc.ChannelOptions = {
  'grpc.primary_user_agent': 'kube-probe/1.36',
  'grpc.max_receive_message_length': OUTPUT_MAX_BYTES,
  'grpc.enable_retries': 0,
  'grpc.enable_channelz': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  /** Each attempt opens a new connection, so that it reaches the process that listens now. */
  'grpc.use_local_subchannel_pool': 1,
};

type HealthClient = grpc.Client & {
  Check(
    request: { readonly service: string },
    options: grpc.CallOptions,
    callback: (error: grpc.ServiceError | null, reply?: { readonly status: string }) => void,
  ): grpc.ClientUnaryCall;
};
type HealthService = new (
  address: string,
  credentials: grpc.ChannelCredentials,
  options: grpc.ChannelOptions,
) => HealthClient;

let service: HealthService | undefined;

function healthService(): HealthService {
  if (service) return service;
  const definition = new Contract(['grpc/health/v1/health.proto']).service('grpc.health.v1.Health');
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract is text, read at run time
  service = grpc.makeClientConstructor(definition, 'Health') as unknown as HealthService;
  return service;
}

export async function probeGrpc(
  host: string,
  port: number,
  serviceName: string,
  { timeoutSeconds, signal }: AttemptOptions,
): Promise<Attempt> {
  const address = hostPort(host, port);
  const deadline = Date.now() + timeoutSeconds * 1_000;
  const credentials = new PlainCredentials();
  const client = new (service ?? healthService())(address, credentials, CHANNEL_OPTIONS);
  const close = () => {
    client.close();
    credentials.close();
  };
  signal.addEventListener('abort', close, { once: true });
  try {
    return await credentials.owning(async () => {
      if (await isConnected(client, deadline)) return await check(client, serviceName, deadline, timeoutSeconds);
      const reason = 'context deadline exceeded';
      return failure(
        `timeout: failed to connect service ${JSON.stringify(address)} within ${goSeconds(timeoutSeconds)}: ${reason}`,
      );
    });
  } finally {
    signal.removeEventListener('abort', close);
    close();
  }
}

const isConnected = (client: HealthClient, deadline: number): Promise<boolean> =>
  new Promise((resolve) => client.waitForReady(deadline, (error) => resolve(error === undefined)));

function check(client: HealthClient, name: string, deadline: number, timeoutSeconds: number): Promise<Attempt> {
  return new Promise((resolve) => {
    client.Check({ service: name }, { deadline }, (error, reply) => {
      if (error) resolve(failure(errorText(error, timeoutSeconds)));
      else if (reply?.status === 'SERVING') resolve(success('service healthy'));
      else resolve(failure(`service unhealthy (responded with ${JSON.stringify(reply?.status ?? '')})`));
    });
  });
}

function errorText(error: grpc.ServiceError, timeoutSeconds: number): string {
  const { code, details } = error;
  switch (code) {
    case grpc.status.UNIMPLEMENTED:
      return `error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${details}`;
    case grpc.status.DEADLINE_EXCEEDED:
      return `timeout: health rpc did not complete within ${goSeconds(timeoutSeconds)}`;
    default:
      return `error: health rpc probe failed: ${toOperationError(error).message}`;
  }
}
