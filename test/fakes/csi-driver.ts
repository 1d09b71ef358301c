/**
 * A plugin of the node, as a sidecar and its driver provide one: real gRPC on real sockets, real mounts, faults on
 * request, and a record of its calls.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { systemCalls } from '../../src/actors/host/kernel/syscall.ts';

const CONTRACT = loadSync(['pluginregistration/v1/api.proto', 'csi/v1/csi.proto'], {
  includeDirs: [fileURLToPath(new URL('../../proto', import.meta.url))],
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
});

/**
 * The result of a call instead of the regular one: an error (after the work, or before), no answer, or a false answer.
 */
export type Fault =
  | { readonly code: grpc.status; readonly details: string; readonly isDone?: boolean }
  | { readonly hangs: true }
  | { readonly lies: true };

export interface HeardCall {
  readonly method: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- requests of every call
  readonly request: any;
}

export interface CsiDriverOptions {
  /** The socket of the registration. */
  readonly socket: string;
  readonly type?: string;
  readonly name?: string;
  /** The socket of the driver; default: that of the registration. */
  readonly endpoint?: string;
  readonly versions?: readonly string[];
  /** The driver's information about the node; an error fails the call instead. */
  readonly capabilities?: readonly string[];
  readonly nodeInfo?: Record<string, unknown> | { readonly code: grpc.status; readonly details: string };
}

export interface CsiDriver {
  /** The kubelet's answers to the registration, in order. */
  readonly statuses: { readonly plugin_registered: boolean; readonly error: string }[];
  /** The calls about volumes, in order. */
  readonly calls: HeardCall[];
  /** The file behind its block devices; `null`: it publishes an empty file instead of a device. */
  disk: string | null;
  /** The condition that it reports for its volumes. */
  condition: { readonly abnormal: boolean; readonly message: string } | null;
  /** Called for each call; returns its fault. */
  fault: (call: HeardCall) => Fault | undefined;
  /** The paths of its mounts, in order. */
  readonly mounts: readonly string[];
  /** Ends both services; their sockets are removed. */
  close(): void;
}

type Handler = grpc.handleUnaryCall<Record<string, unknown>, unknown>;

const NODE_INFO = { node_id: 'id-of-node1', max_volumes_per_node: '7', accessible_topology: null };

export async function startCsiDriver(options: CsiDriverOptions): Promise<CsiDriver> {
  const statuses: CsiDriver['statuses'] = [];
  const { socket, type = 'CSIPlugin', name = 'csi.example.test', endpoint = '', versions = ['1.0.0'] } = options;
  const nodeInfo = options.nodeInfo ?? NODE_INFO;
  const registration: Record<string, Handler> = {
    GetInfo: (_call, reply) => reply(null, { type, name, endpoint, supported_versions: versions }),
    NotifyRegistrationStatus: ({ request }, reply) => {
      statuses.push(request as never);
      reply(null, {});
    },
  };
  const volumes = new Volumes();
  const capabilities = (options.capabilities ?? []).map((each) => ({ rpc: { type: each } }));
  const node: Record<string, Handler> = {
    NodeGetInfo: (_call, reply) => ('code' in nodeInfo ? reply(nodeInfo) : reply(null, nodeInfo)),
    NodeGetCapabilities: (_call, reply) => reply(null, { capabilities }),
    ...volumes.handlers(),
  };
  const servers = [new grpc.Server()];
  if (endpoint !== '' && endpoint !== socket) servers.push(new grpc.Server());
  servers[0]!.addService(CONTRACT['pluginregistration.Registration'] as grpc.ServiceDefinition, registration);
  servers.at(-1)!.addService(CONTRACT['csi.v1.Node'] as grpc.ServiceDefinition, node);
  if (servers.length > 1) await listen(servers[1]!, endpoint);
  await listen(servers[0]!, socket);
  const close = () => {
    for (const server of servers) server.forceShutdown();
    volumes.detach();
  };
  return Object.assign(volumes, { statuses, close });
}

/** A volume is a tmpfs, staged or mounted separately; when it is published, it is bound to its target. */
class Volumes {
  readonly calls: HeardCall[] = [];
  readonly mounts: string[] = [];
  private readonly devices = new Map<string, string>();
  disk: CsiDriver['disk'] = null;
  condition: CsiDriver['condition'] = null;
  fault: CsiDriver['fault'] = () => undefined;

  handlers(): Record<string, Handler> {
    const of = (method: string, work: (request: HeardCall['request']) => unknown): Handler => {
      return ({ request }, reply) => {
        const call = { method, request };
        this.calls.push(call);
        const fault = this.fault(call);
        if (fault && 'hangs' in fault) return;
        const answer = !fault || ('code' in fault && fault.isDone) ? work(request) : {};
        if (fault && 'code' in fault) reply(fault);
        else reply(null, answer ?? {});
      };
    };
    return {
      NodeStageVolume: of('NodeStageVolume', ({ staging_target_path: path, volume_capability: { block } }) => {
        if (!block) this.mount(path);
      }),
      NodeUnstageVolume: of('NodeUnstageVolume', ({ staging_target_path: path }) => this.unmount(path)),
      NodePublishVolume: of('NodePublishVolume', ({ volume_capability: { block }, ...request }) => {
        const { staging_target_path: staged, target_path: target } = request;
        if (this.mounts.includes(target)) return;
        if (block) return this.publishDevice(target);
        mkdirSync(target, { recursive: true });
        this.mount(target, staged);
      }),
      NodeGetVolumeStats: of('NodeGetVolumeStats', ({ volume_path: path }) => this.stats(path)),
      NodeExpandVolume: of('NodeExpandVolume', ({ volume_path: path, capacity_range: { required_bytes: bytes } }) => {
        execFileSync('mount', ['-o', `remount,size=${bytes}`, path]);
      }),
      NodeUnpublishVolume: of('NodeUnpublishVolume', ({ target_path: target }) => {
        this.unmount(target);
        rmSync(target, { recursive: true, force: true });
      }),
    };
  }

  /** Releases its loop devices; bound ones work until they are unbound. */
  detach(): void {
    for (const device of this.devices.values()) execFileSync('losetup', ['-d', device]);
    this.devices.clear();
  }

  private mount(target: string, source = ''): void {
    if (this.mounts.includes(target)) return;
    if (source === '') systemCalls()!.mount('tmpfs', target, 'size=65536');
    else systemCalls()!.bindMount(source, target);
    this.mounts.push(target);
  }

  private stats(path: string): object {
    const { bsize, blocks, bfree, bavail, files, ffree } = statfsSync(path);
    const amount = (unit: string, total: number, free: number, available: number) => ({
      unit,
      total: String(total),
      used: String(total - free),
      available: String(available),
    });
    const usage = [
      amount('BYTES', blocks * bsize, bfree * bsize, bavail * bsize),
      amount('INODES', files, ffree, ffree),
    ];
    return { usage, volume_condition: this.condition };
  }

  /** Binds a loop device of a file to the target. */
  private publishDevice(target: string): void {
    writeFileSync(target, '');
    if (this.disk === null) return;
    const device = execFileSync('losetup', ['-f', '--show', this.disk], { encoding: 'utf8' }).trim();
    this.devices.set(target, device);
    systemCalls()!.bindMount(device, target);
    this.mounts.push(target);
  }

  private unmount(target: string): void {
    if (!this.mounts.includes(target)) return;
    systemCalls()!.unmount(target);
    this.mounts.splice(this.mounts.indexOf(target), 1);
    const device = this.devices.get(target);
    if (device !== undefined) execFileSync('losetup', ['-d', device]);
    this.devices.delete(target);
  }
}

const listen = (server: grpc.Server, socket: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const done = (error: Error | null, port: number) => (error ? reject(error) : resolve(port));
    server.bindAsync(`unix://${socket}`, grpc.ServerCredentials.createInsecure(), done);
  });
