/**
 * A resource driver as its kubelet plugin provides one: real gRPC on real sockets, with registration, faults on
 * request, and a record of its calls.
 */
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const FILES = ['pluginregistration/v1/api.proto', 'dra/v1/api.proto', 'dra/v1beta1/api.proto'];
const CONTRACT = loadSync([...FILES, 'dra/health/v1alpha1/api.proto'], {
  includeDirs: [fileURLToPath(new URL('../../proto', import.meta.url))],
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
});
const PACKAGE = 'k8s.io.kubelet.pkg.apis.dra';

export interface DraDriverOptions {
  readonly name?: string;
  /** The socket of the driver. */
  readonly endpoint: string;
  /** The socket of its registration; absent: it does not register. */
  readonly registration?: string;
  readonly service?: 'v1' | 'v1beta1';
  /** It reports the health of its devices. */
  readonly hasHealth?: boolean;
}

interface Claim {
  readonly namespace: string;
  readonly uid: string;
  readonly name: string;
}

type Answer = Readonly<Record<string, unknown>> | null;

export interface DraDriver {
  /** The kubelet's answers to the registration, in order. */
  readonly statuses: { readonly plugin_registered: boolean; readonly error: string }[];
  /** `prepare default/gpu`, in order. */
  readonly calls: string[];
  /** The answer for a claim; `undefined` omits the claim. */
  answer: (verb: 'prepare' | 'unprepare', claim: Claim) => Answer | undefined;
  /** No call is answered. */
  hangs: boolean;
  /** Reports devices to all current and later streams. */
  report(devices: readonly object[]): void;
  close(): void;
}

type Handler = grpc.handleUnaryCall<{ readonly claims: readonly Claim[] }, unknown>;
type Stream = grpc.ServerWritableStream<object, object>;

export async function startDraDriver(options: DraDriverOptions): Promise<DraDriver> {
  const { name = 'gpu.example.test', endpoint, registration, service = 'v1', hasHealth = false } = options;
  const listeners = new Set<Stream>();
  let last: readonly object[] | null = null;
  const servers: grpc.Server[] = [];
  const driver: DraDriver = {
    statuses: [],
    calls: [],
    hangs: false,
    answer: (verb, claim) => (verb === 'prepare' ? { devices: [deviceOf(name, claim)] } : {}),
    report: (devices) => {
      last = devices;
      for (const stream of listeners) stream.write({ devices });
    },
    close: () => {
      for (const server of servers) server.forceShutdown();
    },
  };
  const call =
    (verb: 'prepare' | 'unprepare'): Handler =>
    ({ request }, reply) => {
      for (const claim of request.claims) driver.calls.push(`${verb} ${claim.namespace}/${claim.name}`);
      if (driver.hangs) return;
      const answers = request.claims.flatMap((claim) => {
        const answer = driver.answer(verb, claim);
        return answer === undefined ? [] : [[claim.uid, answer] as const];
      });
      reply(null, { claims: Object.fromEntries(answers) });
    };
  const plugin = new grpc.Server();
  servers.push(plugin);
  plugin.addService(CONTRACT[`${PACKAGE}.${service}.DRAPlugin`] as grpc.ServiceDefinition, {
    NodePrepareResources: call('prepare'),
    NodeUnprepareResources: call('unprepare'),
  });
  if (hasHealth) {
    plugin.addService(CONTRACT['v1alpha1.DRAResourceHealth'] as grpc.ServiceDefinition, {
      NodeWatchResources: (stream: Stream) => {
        listeners.add(stream);
        stream.on('cancelled', () => listeners.delete(stream));
        if (last !== null) stream.write({ devices: last });
      },
    });
  }
  await listen(plugin, endpoint);
  if (registration !== undefined) {
    const registering = new grpc.Server();
    servers.push(registering);
    registering.addService(CONTRACT['pluginregistration.Registration'] as grpc.ServiceDefinition, {
      GetInfo: (_call: unknown, reply: grpc.sendUnaryData<object>) =>
        reply(null, { type: 'DRAPlugin', name, endpoint, supported_versions: [`${service}.DRAPlugin`] }),
      NotifyRegistrationStatus: (
        { request }: grpc.ServerUnaryCall<DraDriver['statuses'][number], object>,
        reply: grpc.sendUnaryData<object>,
      ) => {
        driver.statuses.push(request);
        reply(null, {});
      },
    });
    await listen(registering, registration);
  }
  return driver;
}

/** By default each claim has one device, whose CDI name has the name of the claim. */
const deviceOf = (driver: string, { name }: Pick<Claim, 'name'>) => ({
  request_names: ['gpu'],
  pool_name: 'node1',
  device_name: `${name}-device`,
  cdi_device_ids: [`${driver}/gpu=${name}`],
});

const listen = (server: grpc.Server, socket: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const done = (error: Error | null, port: number) => (error ? reject(error) : resolve(port));
    server.bindAsync(`unix://${socket}`, grpc.ServerCredentials.createInsecure(), done);
  });
