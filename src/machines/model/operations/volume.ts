/**
 * Operations on the volumes of pods. Implemented by `src/actors/volume`.
 *
 * Invariants: every path is below the pod's folder, except those of `hostPath`; a value of a Secret is a handle that
 * only the port resolves; a repeated operation has no further effect.
 */
import { idempotent, query, type SecretHandle } from '../../../kernel/xstate.ts';
import type { PersistentVolumeSpec } from '../api/pod.ts';

/**
 * One value of a ConfigMap or Secret: text, or bytes as base64. For a Secret only the handle is known. `variable`: the
 * handle of the same bytes for variables of containers; absent for a ConfigMap, whose bytes are not used there.
 */
export type Content =
  | { readonly text: string | SecretHandle }
  | { readonly base64: string | SecretHandle; readonly variable?: SecretHandle };

/**
 * A ConfigMap or Secret in the machines' form; or another object that a pod uses by name: the handler of a
 * RuntimeClass, the volume of a claim, the variables of services, trust anchors, a token of its service account, a
 * certificate with its key.
 */
export interface ConfigObject {
  readonly kind:
    | 'ConfigMap'
    | 'Secret'
    | 'PersistentVolumeClaim'
    | 'RuntimeClass'
    | 'Services'
    | 'ClusterTrustBundle'
    | 'Token'
    | 'PodCertificate';
  readonly namespace: string;
  readonly name: string;
  /** Empty or absent for an object from a file. */
  readonly uid?: string;
  /** The type of a Secret: `kubernetes.io/dockerconfigjson`. */
  readonly type?: string;
  /** Changes with the content of the object. */
  readonly version: string;
  readonly data: Readonly<Record<string, Content>>;
  readonly bound?: BoundVolume;
}

export interface BoundVolume {
  readonly name: string;
  /** The specification without its claim, which a node does not need. */
  readonly spec: PersistentVolumeSpec;
  /** Sizes in the status of the claim. */
  readonly size: {
    readonly claim: { readonly namespace: string; readonly name: string; readonly uid: string };
    /** The capacity in the status; empty if there is none yet. */
    readonly had: string;
    /** `allocatedResourceStatuses.storage`; empty for none. */
    readonly status: string;
  };
  /** The uid of the pod that the claim was created for; empty for none. */
  readonly owner: string;
  /** The group whose members may use the volume, from the annotation `pv.beta.kubernetes.io/gid`; absent for none. */
  readonly groupId?: number;
  /** Upstream's text why the volume cannot be reached from this node; empty if it can. */
  readonly nodeMismatch: string;
}

/** A file of a volume; `path` is relative to it. */
export interface VolumeFile {
  readonly path: string;
  readonly mode: number;
  /** The owner of the file; absent: the agent. */
  readonly userId?: number;
  /** `joined`: concatenated texts. */
  readonly content: Content | { readonly joined: readonly (string | SecretHandle)[] };
}

/** A separate file system for a volume. */
export interface VolumeMount {
  readonly type: 'tmpfs' | 'hugetlbfs';
  readonly options: readonly string[];
  /** If the agent may not mount, a folder on disk is used instead. */
  readonly optional: boolean;
}

export type HostPathType =
  | 'DirectoryOrCreate'
  | 'Directory'
  | 'FileOrCreate'
  | 'File'
  | 'Socket'
  | 'CharDevice'
  | 'BlockDevice';

export type VolumeSetUp =
  /** A folder that containers write to. */
  | {
      readonly kind: 'folder';
      readonly name: string;
      readonly path: string;
      readonly mount: VolumeMount | null;
      readonly groupId: number | null;
      /** The file system measures the folder's usage, if it has project quotas. */
      readonly isCounted?: true;
    }
  /** Files that change atomically. */
  | {
      readonly kind: 'files';
      readonly name: string;
      readonly path: string;
      readonly mount: VolumeMount | null;
      readonly groupId: number | null;
      readonly files: readonly VolumeFile[];
      /** Folders on which containers mount other volumes; absent: none. */
      readonly folders?: readonly string[];
    }
  /**
   * A path of the host that must exist, or is created. `spec`: the name of the PersistentVolume; absent without one.
   */
  | {
      readonly kind: 'host';
      readonly name: string;
      readonly spec?: string;
      readonly path: string;
      readonly type: HostPathType;
    }
  /**
   * A folder of the host that is bind-mounted into the pod's folder; if `source` is a block device, the file system on
   * it.
   */
  | {
      readonly kind: 'local';
      readonly name: string;
      /** The name of the PersistentVolume. */
      readonly spec: string;
      readonly source: string;
      readonly path: string;
      /**
       * The group of the volume, unless another pod uses it; `onlyTop`: skipped if the top folder already belongs to
       * the group.
       */
      readonly ownership: { readonly groupId: number; readonly onlyTop: boolean } | null;
      /** For a device: the file system for formatting a blank one, and its mount options. */
      readonly filesystem: { readonly type: string; readonly options: readonly string[]; readonly readOnly: boolean };
    }
  /** An export of an NFS server. `spec`: the name of the PersistentVolume; absent without one. */
  | {
      readonly kind: 'nfs';
      readonly name: string;
      readonly spec?: string;
      /** `server:/path`, as mount(8) takes it. */
      readonly source: string;
      readonly path: string;
      /** The options of mount(8). */
      readonly options: readonly string[];
    }
  /** A block device of the host: `link` in the pod's folder points to it, and it is bind-mounted on the file `map`. */
  | {
      readonly kind: 'device';
      readonly name: string;
      /** The name of the PersistentVolume. */
      readonly spec: string;
      readonly device: string;
      readonly link: string;
      readonly map: string;
    };

/** A sub-path of a volume for one container: bind-mounted at `target`, where processes in the volume cannot move it. */
export interface SubPath {
  readonly container: string;
  readonly volume: string;
  readonly volumePath: string;
  readonly subPath: string;
  readonly target: string;
}

/** A variable whose value is in a file of a volume: `env` is its index in the container's list. */
export interface FileVariable {
  readonly container: string;
  readonly env: number;
  readonly volumePath: string;
  /** The path of the file within the volume. */
  readonly path: string;
  readonly key: string;
  readonly optional: boolean;
}

/** By index in the container's list; `null` if the file has no value under an optional key. */
export type FileValues = Readonly<Record<string, SecretHandle | null>>;

/** A failed preparation for a container: the public message, and the cause. */
export interface Unprepared {
  readonly message: string;
  /** Upstream hides the cause from the author of the pod, as it could reveal files of the node. */
  readonly why: string;
}

export interface VolumeFailure {
  readonly name: string;
  readonly message: string;
  /** The PersistentVolume for events; absent: they name the volume of the pod. */
  readonly spec?: string;
  /** The failed step, with upstream's wording; absent: `MountVolume.SetUp`. */
  readonly step?: string;
  /** Nothing was tried: the volume of its claim is unknown, or not for this pod. */
  readonly isUnprocessed?: boolean;
}

/** A volume that keeps the group set for another pod. `spec`: the name of the PersistentVolume. */
export interface KeptGroup {
  readonly spec: string;
  readonly wanted: number;
  readonly has: number;
}

/** The first file of a volume whose group could not be changed, and the number of others. */
export interface Unshared {
  readonly text: 'Lchown failed' | 'chmod failed';
  readonly path: string;
  readonly err: string;
  readonly more: number;
}

/** A volume whose files are changing their group: the number done, and the start time. */
export interface Sharing {
  readonly path: string;
  readonly files: number;
  readonly forMs: number;
}

/** `root` is `--root-dir`, `podDirectory` the pod's folder below it. */
interface Place {
  readonly root: string;
  readonly podDirectory: string;
}

export interface VolumesSetUp {
  readonly failed: readonly VolumeFailure[];
  readonly kept?: readonly KeptGroup[];
  readonly unshared?: readonly Unshared[];
}

export const volumeOperations = {
  /** Sets up every volume that can be set up, and returns the failures, with texts for the pod's events. */
  'volume.setUp': idempotent<Place & { volumes: readonly VolumeSetUp[] }, VolumesSetUp>(),
  /** `failed` is by container. */
  'volume.bindSubPaths': idempotent<
    Place & { subPaths: readonly SubPath[] },
    { failed: Readonly<Record<string, Unprepared>> }
  >(),
  /** Both are by container. A value may be a secret, so it is a handle. */
  'volume.readVariables': query<
    Place & { variables: readonly FileVariable[] },
    { values: Readonly<Record<string, FileValues>>; failed: Readonly<Record<string, Unprepared>> }
  >(),
  /** The volumes below a folder whose files are changing their group. */
  'volume.sharings': query<{ directory: string }, readonly Sharing[]>(),
  /** The uids of all pods that have a folder below `root`. */
  'volume.podFolders': query<{ root: string }, { uids: readonly string[] }>(),
  /** Unmounts everything below the pod's folder, then removes its volumes. */
  'volume.tearDown': idempotent<Place, null>(),
};
