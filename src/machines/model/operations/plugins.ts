/** Operations on plugins with a socket in `plugins_registry`. Implemented by `src/actors/plugins`. */
import { idempotent, query, stream } from '../../../kernel/xstate.ts';

export type PluginSocket = {
  readonly path: string;
  /** Changes when the plugin removes its socket and recreates it under the same name. */
  readonly identity: string;
};

/** The plugin's information about itself: `PluginInfo` of proto/pluginregistration. */
export interface PluginInfo {
  /** `CSIPlugin`, `DevicePlugin`, `DRAPlugin`, or any other text. */
  readonly type: string;
  readonly name: string;
  /** The socket of its service; empty for the one where it registers. */
  readonly endpoint: string;
  readonly versions: readonly string[];
}

export const endpointOf = ({ endpoint }: PluginInfo, socket: string): string => endpoint || socket;

/** A CSI driver's information about this node: `NodeGetInfoResponse` of proto/csi. */
export interface CSINodeInfo {
  readonly nodeID: string;
  /** An int64 in decimal; `0` for no limit. */
  readonly maxVolumes: string;
  /** Ascending. */
  readonly topologyKeys: readonly string[];
  /** The values of these keys; absent in journals of nodes without `driversOnNode`. */
  readonly topology?: Readonly<Record<string, string>>;
}

export type PluginsChanged = {
  readonly type: 'plugins.changed';
  /** All sockets, sorted by path. */
  readonly sockets: readonly PluginSocket[];
  /** Why parts of the folder could not be read, one sentence each. */
  readonly errors: readonly string[];
};

export type NodeInfoChanged = {
  readonly type: 'plugin.nodeInfo';
  /** `null`: the driver did not answer. */
  readonly info: CSINodeInfo | null;
  /** Why the driver did not answer; empty if it did. */
  readonly error: string;
};

export const pluginOperations = {
  /** Sockets below a folder, at any depth that the port reads. Emits at once, and when the set changed. */
  'plugins.watch': stream<{ path: string }, PluginsChanged>(),
  /** Fails with upstream's text if nothing listens on the socket, or if the listener is not a plugin. */
  'plugins.getInfo': query<{ socket: string }, PluginInfo>(),
  /** Notifies a plugin of its registration; `error` is empty when it succeeded. */
  'plugins.notifyRegistrationStatus': idempotent<{ socket: string; registered: boolean; error: string }, null>(),
  'plugins.csiNodeGetInfo': query<{ endpoint: string }, CSINodeInfo>(),
  /** Asks a driver each period, first after one period. Emits the first answer and changes. */
  'plugins.followNodeInfo': stream<{ endpoint: string; periodMs: number }, NodeInfoChanged>(),
};
