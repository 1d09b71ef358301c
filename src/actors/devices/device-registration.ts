/**
 * `devices.serveRegistration`: the socket where device plugins register, as the kubelet serves it.
 *
 * Decides by {@link registrationProblem}. A registration is confirmed once the plugin has answered a call at its own
 * socket. Other sockets found at the start belong to plugins of an earlier start: removing them tells these plugins to
 * register again. Upstream: plugin/v1beta1/server.go.
 */

import { chmod, mkdir, readdir, rm } from 'node:fs/promises';
import { dirname, isAbsolute, join, normalize } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import { OperationError } from '../../kernel/json.ts';
import type { Port, PortCall } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { registrationProblem } from '../../machines/model/allocation/device-policy.ts';
import type {
  DevicePluginOptions,
  deviceOperations,
  RegistrationItem,
} from '../../machines/model/operations/devices.ts';
import { Contract } from '../contract.ts';
import { serveSocket } from '../grpc-socket.ts';
import { ignoring } from '../host/root-folder.ts';
import { aborted } from '../pause.ts';
import { connected, methodOf, unary } from '../plugins/connection.ts';
import { TokenBucket } from '../token-bucket.ts';

/** How long a plugin may take to return its options. */
const OPTIONS_TIMEOUT_MS = 10_000;

/** The messages between device plugins and the node: proto/deviceplugin. */
export const DEVICE_PLUGIN = 'v1beta1.DevicePlugin';

export interface AllocateReply {
  readonly container_responses: readonly {
    readonly envs: Readonly<Record<string, string>>;
    readonly mounts: readonly {
      readonly container_path: string;
      readonly host_path: string;
      readonly read_only: boolean;
    }[];
    readonly devices: readonly {
      readonly container_path: string;
      readonly host_path: string;
      readonly permissions: string;
    }[];
    readonly annotations: Readonly<Record<string, string>>;
    readonly cdi_devices: readonly { readonly name: string }[];
  }[];
}

interface OptionsReply {
  readonly pre_start_required: boolean;
  readonly get_preferred_allocation_available: boolean;
}

/** Requests the options of a plugin that is not followed yet, at its socket. */
export function optionsAt(endpoint: string, signal: AbortSignal): Promise<DevicePluginOptions> {
  return connected(endpoint, signal, async (client) => {
    const method = methodOf<object, OptionsReply>(DEVICE_PLUGIN, 'GetDevicePluginOptions');
    const reply = await unary(client, method, {}, OPTIONS_TIMEOUT_MS);
    return { preStart: reply.pre_start_required, prefers: reply.get_preferred_allocation_available };
  });
}

/** Registrations accepted at once, as when all plugins of a node start, and then per second. */
const [REGISTRATIONS_BURST, REGISTRATIONS_PER_SECOND] = [32, 2];
/** Registrations that wait for the rate limit, or for their plugin's answer; a rejected plugin tries again. */
const UNDER_WAY_MAX = 64;
/** The size limit of a registration, which contains a few names. */
const REQUEST_MAX_BYTES = 16 * 1024;

const FOLDER_MODE = 0o750;
const SOCKET_MODE = 0o600;

interface RegisterRequest {
  readonly version: string;
  readonly endpoint: string;
  readonly resource_name: string;
}

type Call = PortCall<{ socket: string }, RegistrationItem>;

export const serveRegistration: Port<(typeof deviceOperations)['devices.serveRegistration']> = async (call) => {
  const { socket } = call.input;
  const folder = dirname(socket);
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
  await removeSockets(folder);
  const server = new grpc.Server({
    'grpc.max_receive_message_length': REQUEST_MAX_BYTES,
    'grpc.max_concurrent_streams': UNDER_WAY_MAX,
  });
  server.addService(service(), { Register: register(call, folder) });
  const close = await serveSocket(server, socket);
  await chmod(socket, SOCKET_MODE);
  call.emit({ type: 'devices.serving' });
  try {
    await aborted(call.signal);
  } finally {
    close();
    await rm(socket, { force: true });
  }
  return null;
};

/** The names of files that are being written begin with a dot. */
const isOfKubelet = (name: string): boolean => !name.startsWith('.');

/** What a kubelet leaves in the folder, its checkpoint or a socket, stays there when it ends. */
export const isNewFolder: Port<(typeof deviceOperations)['devices.isNewFolder']> = async ({ input: { folder } }) => {
  const names = await readdir(folder).catch(ignoring('ENOENT'));
  return { isNew: names === null || !names.some(isOfKubelet) };
};

async function removeSockets(folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true });
  for (const entry of entries) if (entry.isSocket()) await rm(join(folder, entry.name), { force: true });
}

const service = (): grpc.ServiceDefinition =>
  new Contract(['deviceplugin/v1beta1/api.proto']).service('v1beta1.Registration');

type Done = grpc.sendUnaryData<object>;

/** A plugin that registers endlessly is delayed, and finally rejected; the lists of others are still processed. */
function register(call: Call, folder: string): grpc.handleUnaryCall<RegisterRequest, object> {
  const bucket = new TokenBucket(REGISTRATIONS_PER_SECOND, REGISTRATIONS_BURST);
  let underWay = 0;
  const answer = async (request: RegisterRequest, done: Done): Promise<void> => {
    if (underWay >= UNDER_WAY_MAX) return done({ code: grpc.status.RESOURCE_EXHAUSTED, details: TOO_MANY });
    underWay += 1;
    try {
      await registered(call, folder, request, bucket);
      done(null, {});
    } catch (error) {
      done({ code: grpc.status.UNKNOWN, details: messageOf(error) });
    } finally {
      underWay -= 1;
    }
  };
  return ({ request }, done) => void answer(request, done);
}

const TOO_MANY = `${UNDER_WAY_MAX} registrations are under way: try again later`;

async function registered(call: Call, folder: string, request: RegisterRequest, bucket: TokenBucket): Promise<void> {
  const { version, endpoint: name, resource_name: resource } = request;
  const problem = registrationProblem(version, resource);
  if (problem !== '') throw new OperationError(problem);
  const endpoint = normalize(join(folder, name));
  if (isAbsolute(name) || dirname(endpoint) !== normalize(folder)) {
    throw new OperationError(`the endpoint ${JSON.stringify(name)} is not a socket beside the one of the kubelet`);
  }
  const options = await optionsAt(endpoint, call.signal).catch((error: Error) => {
    throw new OperationError(`failed to get device plugin options: ${error.message}`);
  });
  await bucket.take(call.signal);
  call.emit({ type: 'devices.registered', resource, endpoint, options });
}
