/** What device plugins and the node say to each other: of proto/deviceplugin. */
import type { DevicePluginOptions } from '../../machines/model/operations/devices.ts';
import { connected, methodOf, unary } from '../plugins/connection.ts';

/** How long a plugin may take to say how it wants to be asked. */
const OPTIONS_TIMEOUT_MS = 10_000;

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

/** Asked at the socket of a plugin that is not followed yet. */
export function optionsAt(endpoint: string, signal: AbortSignal): Promise<DevicePluginOptions> {
  return connected(endpoint, signal, async (client) => {
    const method = methodOf<object, OptionsReply>(DEVICE_PLUGIN, 'GetDevicePluginOptions');
    const reply = await unary(client, method, {}, OPTIONS_TIMEOUT_MS);
    return { preStart: reply.pre_start_required, prefers: reply.get_preferred_allocation_available };
  });
}
