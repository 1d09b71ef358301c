/**
 * Operations on CSI drivers, and on the records of their volumes on disk. Implemented by `src/actors/csi`.
 *
 * Requests have the fields of proto/csi, with handles for the secrets of a driver; only the port opens them.
 * Invariants: everything is written below the pod's folder or below `<root>/plugins`; the record is on disk before the
 * driver is called, and as long as the call may have had an effect. Upstream: pkg/volume/csi.
 */
import { idempotent, query, type SecretHandle, stream } from '../../../kernel/xstate.ts';
import type { Content, Unshared } from './volume.ts';

/** `vol_data.json` in the kubelet's format: needed by the next agent to unpublish the volume. */
export type VolumeData = Readonly<Record<string, string>>;

export type VolumeCapability = { readonly access_mode: { readonly mode: string } } & (
  | {
      readonly mount: {
        readonly fs_type: string;
        readonly mount_flags: readonly string[];
        /** The group that the driver assigns to the volume; empty for none. */
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

/** A token of the pod's service account, for one audience. */
export interface IssuedToken {
  readonly token: SecretHandle;
  readonly expirationTimestamp: string;
}

/** A volume of a pod whose record is on disk. */
export interface FoundVolume {
  readonly uid: string;
  /** The name of the volume's folder below `kubernetes.io~csi`. */
  readonly spec: string;
  readonly driver: string;
  readonly handle: string;
  readonly isEphemeral: boolean;
  readonly isBlock: boolean;
  /** Of a disk of a storage network: its folder below `<root>/plugins`. */
  readonly folder?: string;
}

/** A volume that is staged, or may be, according to its record. */
export interface FoundDevice {
  readonly directory: string;
  readonly driver: string;
  readonly handle: string;
  /** The name of the PersistentVolume of a block device, which is part of its paths; `null` for none. */
  readonly block: string | null;
  /** The SELinux label that it was staged with; absent: none. */
  readonly label?: string;
  /** Of a disk of a storage network: `directory` below `<root>/plugins`. */
  readonly folder?: string;
}

/** The node-wide paths of a block device; `folder` has the record and the paths of pods. */
export interface BlockStage {
  readonly staging: string;
  readonly published: string;
  readonly folder: string;
}

/** The paths of a block device for one pod: the driver's, a link to it, and a file with a bind mount of it. */
export interface BlockMount {
  readonly target: string;
  readonly link: string;
  readonly map: string;
}

export interface CSIInventory {
  readonly volumes: readonly FoundVolume[];
  readonly devices: readonly FoundDevice[];
  /** Errors of reading, one sentence each. */
  readonly errors: readonly string[];
}

/** The health that a driver reports of a volume in use. */
export type VolumeHealth = { readonly type: 'csi.health'; readonly abnormal: boolean; readonly message: string };

/** The socket of the driver; `null`: it has gone, and the call fails. */
type Endpoint = string | null;

/** `directory` has the record; the mount is below it under a fixed name. */
interface Place {
  readonly root: string;
  readonly directory: string;
}

export const csiOperations = {
  /** Names of `NodeServiceCapability.RPC.Type`. */
  'csi.capabilities': query<{ readonly endpoint: Endpoint }, { readonly capabilities: readonly string[] }>(),
  /**
   * Writes the record and stages; without the capability (`null`) the driver is not called. An existing mount stays.
   */
  'csi.stage': idempotent<
    Place & {
      readonly endpoint: Endpoint;
      readonly data: VolumeData;
      readonly request: NodeStageRequest | null;
      readonly block: BlockStage | null;
    },
    null
  >(),
  /** Unstages and removes the record; a missing record is ignored. */
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
   * Writes the record, publishes and changes the files' group. A definite failure of the driver leaves nothing behind,
   * except if the volume was mounted before, or with `again`.
   */
  'csi.publish': idempotent<
    Place & {
      readonly endpoint: Endpoint;
      readonly data: VolumeData;
      readonly again: boolean;
      readonly request: NodePublishRequest;
      readonly block: BlockMount | null;
      readonly tokens: Readonly<Record<string, IssuedToken>>;
      readonly tokensIn: 'secrets' | 'volume_context';
      /** `onlyTop`: skipped if the top folder already belongs to the group. */
      readonly ownership: { readonly groupId: number; readonly onlyTop: boolean } | null;
    },
    Unshared | null
  >(),
  /** Unbinds the paths of containers, unpublishes the volume and removes its record. */
  'csi.unpublish': idempotent<
    Place & {
      readonly podDirectory: string;
      readonly endpoint: Endpoint;
      readonly handle: string;
      readonly block: BlockMount | null;
    },
    null
  >(),
  /** Expands the file system, or the device, of a published volume to the size of the volume. */
  'csi.expand': idempotent<{ readonly endpoint: Endpoint; readonly request: NodeExpandRequest }, null>(),
  /** Asks at once, and then each period. Emits the first answer and changes. */
  'csi.followHealth': stream<
    { readonly endpoint: string; readonly handle: string; readonly path: string; readonly periodMs: number },
    VolumeHealth
  >(),
  'csi.inventory': query<{ readonly root: string }, CSIInventory>(),
};
