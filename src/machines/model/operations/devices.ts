/**
 * Operations on device plugins: proto/deviceplugin. Implemented by `src/actors/devices`.
 *
 * Plugins are named by their resource; the port knows the socket of a plugin while its devices are followed.
 */
import { idempotent, once, query, stream } from '../../../kernel/xstate.ts';

export type DevicePluginOptions = {
  /** `PreStartContainer` is called before each start of a container that has its devices. */
  readonly preStart: boolean;
  /** `GetPreferredAllocation` returns the plugin's preferred devices. */
  readonly prefers: boolean;
};

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
  /** NUMA nodes; `null` if the plugin names none. */
  readonly nodes: readonly number[] | null;
}

export type DevicesListed = { readonly type: 'devices.listed'; readonly devices: readonly Device[] };

/** Devices, mounts and variables for a container: from `ContainerAllocateResponse`. */
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

/** The request to choose among the free devices. */
export interface DeviceQuestion {
  readonly resource: string;
  readonly available: readonly string[];
  readonly mustInclude: readonly string[];
  readonly size: number;
}

export interface DeviceEntry {
  readonly podUid: string;
  readonly container: string;
  readonly resource: string;
  /** Ids by NUMA node, `-1` for no node. */
  readonly nodes: Readonly<Record<string, readonly string[]>>;
  readonly response: DeviceResponse;
}

export const deviceOperations = {
  /** Serves registration on a socket, and removes other sockets in its folder. Emits each plugin. */
  'devices.serveRegistration': stream<{ socket: string }, RegistrationItem>(),
  /** Whether the folder of device plugins is missing or empty: no kubelet has run on this disk. */
  'devices.isNewFolder': query<{ folder: string }, { isNew: boolean }>(),
  'devices.getOptions': query<{ endpoint: string }, DevicePluginOptions>(),
  /** Follows the devices of a plugin; ends with the plugin. Emits changes. */
  'devices.listAndWatch': stream<DevicePlugin, DevicesListed>(),
  'devices.getPreferredAllocation': query<DeviceQuestion, { ids: readonly string[] }>(),
  'devices.allocate': once<{ resource: string; ids: readonly string[] }, DeviceResponse>(),
  /** By container, the error of its plugin; absent for none. Plugins without `preStart` are not called. */
  'devices.preStartContainers': idempotent<
    { containers: readonly { name: string; devices: Readonly<Record<string, readonly string[]>> }[] },
    { failed: Readonly<Record<string, string>> }
  >(),
  'devices.writeCheckpoint': idempotent<
    {
      path: string;
      entries: readonly DeviceEntry[];
      registered: Readonly<Record<string, readonly string[]>>;
    },
    null
  >(),
};
