/** A device plugin as vendors write one: real gRPC on real sockets, and a record of its calls. */
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const CONTRACT = loadSync(['pluginregistration/v1/api.proto', 'deviceplugin/v1beta1/api.proto'], {
  includeDirs: [fileURLToPath(new URL('../../proto', import.meta.url))],
  keepCase: true,
  longs: String,
  defaults: true,
});

export interface FakeDevice {
  readonly ID: string;
  readonly health?: 'Healthy' | 'Unhealthy';
  /** The NUMA nodes; absent: it does not report them. */
  readonly nodes?: readonly number[];
}

interface Failure {
  readonly code: grpc.status;
  readonly details: string;
}

export interface DevicePluginBehaviour {
  readonly devices: readonly FakeDevice[];
  readonly options?: { readonly pre_start_required?: boolean; readonly get_preferred_allocation_available?: boolean };
  /** The response for a container with these devices. */
  readonly allocate?: (ids: readonly string[]) => Record<string, unknown> | Failure;
  readonly prefer?: (available: readonly string[], size: number) => readonly string[] | Failure;
  readonly preStart?: (ids: readonly string[]) => Failure | null;
  /** Also announces itself in the folder of plugins, with this resource. */
  readonly announces?: string;
}

type Handler = grpc.handleUnaryCall<Record<string, unknown>, unknown>;

const answer = (done: (error: Failure | null, reply?: unknown) => void, reply: unknown): void => {
  if (typeof reply === 'object' && reply !== null && 'details' in reply) done(reply as Failure);
  else done(null, reply);
};

export class FakeDevicePlugin {
  /** Its calls in order: `Allocate a,b`. */
  readonly asked: string[] = [];
  readonly statuses: { readonly plugin_registered: boolean; readonly error: string }[] = [];
  private readonly server = new grpc.Server();
  private readonly streams = new Set<grpc.ServerWritableStream<unknown, unknown>>();
  private readonly socket: string;
  private behaviour: DevicePluginBehaviour;

  private constructor(socket: string, behaviour: DevicePluginBehaviour) {
    this.socket = socket;
    this.behaviour = behaviour;
  }

  static async start(socket: string, behaviour: DevicePluginBehaviour): Promise<FakeDevicePlugin> {
    const plugin = new FakeDevicePlugin(socket, behaviour);
    plugin.server.addService(CONTRACT['v1beta1.DevicePlugin'] as grpc.ServiceDefinition, plugin.handlers());
    if (behaviour.announces !== undefined) {
      const service = CONTRACT['pluginregistration.Registration'] as grpc.ServiceDefinition;
      plugin.server.addService(service, plugin.registration(behaviour.announces));
    }
    await new Promise<void>((resolve, reject) => {
      const done = (error: Error | null) => (error ? reject(error) : resolve());
      plugin.server.bindAsync(`unix://${socket}`, grpc.ServerCredentials.createInsecure(), done);
    });
    return plugin;
  }

  /** Registers at a kubelet, as a plugin does that finds the kubelet's socket. */
  register(kubelet: string, resource: string, change: { version?: string; endpoint?: string } = {}): Promise<void> {
    const Client = grpc.makeGenericClientConstructor(
      CONTRACT['v1beta1.Registration'] as grpc.ServiceDefinition,
      'Registration',
    );
    // A separate connection, because plugins are separate processes.
    const own = { 'grpc.use_local_subchannel_pool': 1 };
    const client = new Client(`unix://${kubelet}`, grpc.credentials.createInsecure(), own);
    const endpoint = this.socket.slice(this.socket.lastIndexOf('/') + 1);
    const request = { version: 'v1beta1', endpoint, resource_name: resource, ...change };
    return new Promise((resolve, reject) => {
      (client['Register'] as (...args: unknown[]) => void).call(client, request, (error: Error | null) => {
        client.close();
        if (error) reject(error);
        else resolve();
      });
    });
  }

  /** Reports new devices from now on. */
  send(devices: readonly FakeDevice[]): void {
    this.behaviour = { ...this.behaviour, devices };
    for (const stream of this.streams) stream.write(this.list());
  }

  /** Ends at once; its socket is removed. */
  close(): void {
    this.server.forceShutdown();
  }

  private list() {
    const devices = this.behaviour.devices.map(({ ID, health = 'Healthy', nodes }) => ({
      ID,
      health,
      topology: nodes === undefined ? null : { nodes: nodes.map((id) => ({ ID: id })) },
    }));
    return { devices };
  }

  private registration(name: string): Record<string, Handler> {
    return {
      GetInfo: (_call, done) =>
        done(null, { type: 'DevicePlugin', name, endpoint: '', supported_versions: ['v1beta1'] }),
      NotifyRegistrationStatus: ({ request }, done) => {
        this.statuses.push(request as never);
        done(null, {});
      },
    };
  }

  private handlers(): grpc.UntypedServiceImplementation {
    const note = (method: string, ids: readonly string[]): number => this.asked.push(`${method} ${ids.join()}`);
    const unary: Record<string, Handler> = {
      GetDevicePluginOptions: (_call, done) => done(null, this.behaviour.options ?? {}),
      GetPreferredAllocation: ({ request }, done) => {
        const [asked] = request['container_requests'] as [{ available_deviceIDs: string[]; allocation_size: number }];
        note('GetPreferredAllocation', asked.available_deviceIDs);
        const ids = this.behaviour.prefer?.(asked.available_deviceIDs, asked.allocation_size) ?? [];
        answer(done, 'details' in ids ? ids : { container_responses: [{ deviceIDs: ids }] });
      },
      Allocate: ({ request }, done) => {
        const [asked] = request['container_requests'] as [{ devices_ids: string[] }];
        note('Allocate', asked.devices_ids);
        const reply = this.behaviour.allocate?.(asked.devices_ids) ?? {};
        answer(done, 'details' in reply ? reply : { container_responses: [reply] });
      },
      PreStartContainer: ({ request }, done) => {
        const ids = request['devices_ids'] as string[];
        note('PreStartContainer', ids);
        answer(done, this.behaviour.preStart?.(ids) ?? {});
      },
    };
    return {
      ...unary,
      ListAndWatch: (stream: grpc.ServerWritableStream<unknown, unknown>) => {
        this.streams.add(stream);
        stream.on('cancelled', () => this.streams.delete(stream));
        stream.write(this.list());
      },
    };
  }
}
