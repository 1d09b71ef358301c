/**
 * What the node agent asks of CSI drivers, and keeps on disk about their volumes. Implemented by `src/actors/csi`.
 *
 * Requests are those of proto/csi, with handles where a driver is sent secrets; only the port opens them. Invariants:
 * what is written lies below the pod's folder or below `<root>/plugins`; the record on disk is there before the driver
 * is asked for anything, and as long as the driver may have done it. Upstream: pkg/volume/csi.
 */
import { idempotent, query, type SecretHandle, stream } from '../../../kernel/xstate.ts';
import type { Content, Unshared } from './volume.ts';

/** `vol_data.json`, as every kubelet writes it: what the next agent has to know to take the volume away. */
export type VolumeData = Readonly<Record<string, string>>;

export type VolumeCapability = { readonly access_mode: { readonly mode: string } } & (
  | {
      readonly mount: {
        readonly fs_type: string;
        readonly mount_flags: readonly string[];
        /** Group that the driver hands the volume to; empty: none. */
        readonly volume_mount_group: string;
      };
    }
  | { readonly block: Readonly<Record<string, never>> }
);

interface VolumeRequest {
  readonly volume_id: string;
  readonly publish_context: Readonly<Record<string, string>>;
  readonly staging_target_path: string;
  readonly volume_capability: VolumeCapability;
  readonly secrets: Readonly<Record<string, Content>>;
  readonly volume_context: Readonly<Record<string, string>>;
}

export type NodeStageRequest = VolumeRequest;

export interface NodePublishRequest extends VolumeRequest {
  readonly target_path: string;
  readonly readonly: boolean;
}

export interface NodeExpandRequest {
  readonly volume_id: string;
  readonly volume_path: string;
  readonly capacity_range: { readonly required_bytes: string };
  readonly staging_target_path: string;
  readonly volume_capability: VolumeCapability;
  readonly secrets: Readonly<Record<string, Content>>;
}

/** Of the pod's service account, for one audience. */
export interface IssuedToken {
  readonly token: SecretHandle;
  readonly expirationTimestamp: string;
}

/** A volume of a pod whose record is on disk. */
export interface FoundVolume {
  readonly uid: string;
  /** Folder of the volume below `kubernetes.io~csi`. */
  readonly spec: string;
  readonly driver: string;
  readonly handle: string;
  readonly isEphemeral: boolean;
  readonly isBlock: boolean;
}

/** A volume whose record says that it is, or may be, staged. */
export interface FoundDevice {
  readonly directory: string;
  readonly driver: string;
  readonly handle: string;
  /** Of a block device, the name of its PersistentVolume: its folders have it. */
  readonly block: string | null;
}

/** What a block device has for the whole node; `folder` holds the record and what pods have of it. */
export interface BlockStage {
  readonly staging: string;
  readonly published: string;
  readonly folder: string;
}

/** What a pod has of a block device: what the driver makes, a link to it, and a file that it is bound to. */
export interface BlockMount {
  readonly target: string;
  readonly link: string;
  readonly map: string;
}

export interface CSIInventory {
  readonly volumes: readonly FoundVolume[];
  readonly devices: readonly FoundDevice[];
  /** What could not be read, one sentence each. */
  readonly errors: readonly string[];
}

/** What a driver says of a volume that is in use. */
export type VolumeHealth = { readonly type: 'csi.health'; readonly abnormal: boolean; readonly message: string };

/** The socket of the driver; `null`: it has gone since, and the call fails. */
type Endpoint = string | null;

/** `directory` holds the record; what is mounted lies in it under a fixed name. */
interface Place {
  readonly root: string;
  readonly directory: string;
}

export const csiOperations = {
  /** Names of `NodeServiceCapability.RPC.Type`. */
  'csi.capabilities': query<{ readonly endpoint: Endpoint }, { readonly capabilities: readonly string[] }>(),
  /** Writes the record and stages; a driver that cannot stage (`null`) is not asked. What is mounted already stays. */
  'csi.stage': idempotent<
    Place & {
      readonly endpoint: Endpoint;
      readonly data: VolumeData;
      readonly request: NodeStageRequest | null;
      readonly block: BlockStage | null;
    },
    null
  >(),
  /** Unstages and removes the record; nothing there is fine. */
  'csi.unstage': idempotent<
    Place & {
      readonly endpoint: Endpoint;
      readonly handle: string;
      readonly isStaged: boolean;
      readonly block: BlockStage | null;
    },
    null
  >(),
  /**
   * Writes the record, publishes and hands the files to the group. What is mounted already is published only `again`;
   * a driver that says for sure that it failed leaves nothing behind.
   */
  'csi.publish': idempotent<
    Place & {
      readonly endpoint: Endpoint;
      readonly data: VolumeData;
      readonly again: boolean;
      readonly request: NodePublishRequest;
      readonly block: BlockMount | null;
      /** By audience. */
      readonly tokens: Readonly<Record<string, IssuedToken>>;
      readonly tokensIn: 'secrets' | 'volume_context';
      /** `onlyTop`: files that belong to it already are left as they are. */
      readonly ownership: { readonly groupId: number; readonly onlyTop: boolean } | null;
    },
    Unshared | null
  >(),
  /** Unbinds what containers saw of the pod's volumes, unpublishes this one and removes its record. */
  'csi.unpublish': idempotent<
    Place & {
      readonly podDirectory: string;
      readonly endpoint: Endpoint;
      readonly handle: string;
      readonly block: BlockMount | null;
    },
    null
  >(),
  /** Makes the file system, or the device, of a published volume as large as its volume has become. */
  'csi.expand': idempotent<{ readonly endpoint: Endpoint; readonly request: NodeExpandRequest }, null>(),
  /** Asks at once, and then so often. Emits at the first answer, and when it changed. */
  'csi.followHealth': stream<
    { readonly endpoint: string; readonly handle: string; readonly path: string; readonly periodMs: number },
    VolumeHealth
  >(),
  'csi.inventory': query<{ readonly root: string }, CSIInventory>(),
};
