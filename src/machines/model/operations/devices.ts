/**
 * What the node agent says to device plugins and they to it: proto/deviceplugin. Implemented by `src/actors/plugins`.
 *
 * Plugins are named by their resource; the port knows where one listens while its devices are followed.
 */
import { idempotent, once, query, stream } from '../../../kernel/xstate.ts';

export type DevicePluginOptions = {
  /** `PreStartContainer` is called before each start of a container that has its devices. */
  readonly preStart: boolean;
  /** `GetPreferredAllocation` is asked which devices go well together. */
  readonly prefers: boolean;
};

/** A plugin and its socket. */
export type DevicePlugin = {
  readonly resource: string;
  readonly endpoint: string;
  readonly options: DevicePluginOptions;
};

export type RegistrationItem =
  | { readonly type: 'devices.serving' }
  | ({ readonly type: 'devices.registered' } & DevicePlugin);

export interface Device {
  readonly id: string;
  readonly isHealthy: boolean;
  /** NUMA nodes; `null`: the plugin says nothing of them. */
  readonly nodes: readonly number[] | null;
}

export type DevicesListed = { readonly type: 'devices.listed'; readonly devices: readonly Device[] };

/** What a container needs to have its devices: of `ContainerAllocateResponse`. */
export interface DeviceResponse {
  readonly envs: Readonly<Record<string, string>>;
  readonly mounts: readonly { readonly containerPath: string; readonly hostPath: string; readonly readOnly: boolean }[];
  readonly devices: readonly {
    readonly containerPath: string;
    readonly hostPath: string;
    readonly permissions: string;
  }[];
  readonly annotations: Readonly<Record<string, string>>;
  readonly cdiDevices: readonly string[];
}

/** Which devices to take of those that are free. */
export interface DeviceQuestion {
  readonly resource: string;
  readonly available: readonly string[];
  readonly mustInclude: readonly string[];
  readonly size: number;
}

/** Devices that a container has. */
export interface DeviceEntry {
  readonly podUid: string;
  readonly container: string;
  readonly resource: string;
  /** By NUMA node, `-1` where there is none. */
  readonly nodes: Readonly<Record<string, readonly string[]>>;
  readonly response: DeviceResponse;
}

export const deviceOperations = {
  /** Serves registration on a socket; sockets that were left beside it are removed. Emits for each plugin. */
  'devices.serveRegistration': stream<{ socket: string }, RegistrationItem>(),
  'devices.getOptions': query<{ endpoint: string }, DevicePluginOptions>(),
  /** Follows the devices of a plugin; ends when the plugin does. Emits when something changed. */
  'devices.listAndWatch': stream<DevicePlugin, DevicesListed>(),
  'devices.getPreferredAllocation': query<DeviceQuestion, { ids: readonly string[] }>(),
  'devices.allocate': once<{ resource: string; ids: readonly string[] }, DeviceResponse>(),
  /** For each container what was wrong; absent: nothing. Plugins that do not want to know are not asked. */
  'devices.preStartContainers': idempotent<
    { containers: readonly { name: string; devices: Readonly<Record<string, readonly string[]>> }[] },
    { failed: Readonly<Record<string, string>> }
  >(),
  /** Replaces the checkpoint of the device manager. */
  'devices.writeCheckpoint': idempotent<
    {
      path: string;
      entries: readonly DeviceEntry[];
      registered: Readonly<Record<string, readonly string[]>>;
    },
    null
  >(),
};
