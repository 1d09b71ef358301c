/**
 * Operations on the volumes of pods. Implemented by `src/actors/volume`.
 *
 * Invariants: every path is below the pod's folder, except those of `hostPath`; a value of a Secret is a handle that
 * only the port resolves; an operation that is repeated has no further effect.
 */
import { idempotent, query, type SecretHandle } from '../../../kernel/xstate.ts';
import type { PersistentVolumeSpec } from '../api/storage.ts';

/** One value of a ConfigMap or Secret: text, or bytes as base64. For a Secret only the handle is known. */
export type Content = { readonly text: string | SecretHandle } | { readonly base64: string | SecretHandle };

/**
 * A ConfigMap or Secret as the machines hold it; or another object that a pod uses by name: the handler of a
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
  /** Empty or absent for one from a file. */
  readonly uid?: string;
  /** The type of a Secret: `kubernetes.io/dockerconfigjson`. */
  readonly type?: string;
  /** Changes with the content of the object. */
  readonly version: string;
  readonly data: Readonly<Record<string, Content>>;
  /** The volume of a claim. */
  readonly bound?: BoundVolume;
}

/** The PersistentVolume that is bound to a claim. */
export interface BoundVolume {
  readonly name: string;
  /** The specification without its claim, which a node does not need. */
  readonly spec: PersistentVolumeSpec;
  /** Sizes in the status of the claim. */
  readonly size: {
    readonly claim: { readonly namespace: string; readonly name: string; readonly uid: string };
    /** The capacity in the status; empty: none yet. */
    readonly had: string;
    /** `allocatedResourceStatuses.storage`; empty: none. */
    readonly status: string;
  };
  /** The uid of the pod that the claim was made for; empty: none. */
  readonly owner: string;
  /** The group whose members may use the volume, from the annotation `pv.beta.kubernetes.io/gid`; absent: none. */
  readonly groupId?: number;
  /** Why the volume cannot be reached from this node, in upstream's words; empty when it can. */
  readonly nodeMismatch: string;
}

/** A file of a volume; `path` is relative to it. */
export interface VolumeFile {
  readonly path: string;
  readonly mode: number;
  /** The owner of the file; absent: the agent. */
  readonly userId?: number;
  /** `joined`: texts that follow each other. */
  readonly content: Content | { readonly joined: readonly (string | SecretHandle)[] };
}

/** A file system of its own for a volume. */
export interface VolumeMount {
  readonly type: 'tmpfs' | 'hugetlbfs';
  readonly options: readonly string[];
  /** Where the agent may not mount, a folder on disk is used instead. */
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
  /** A folder into which containers write. */
  | {
      readonly kind: 'folder';
      readonly name: string;
      readonly path: string;
      readonly mount: VolumeMount | null;
      readonly groupId: number | null;
      /** The file system measures the folder's usage, where it has project quotas. */
      readonly isCounted?: true;
    }
  /** Files that change all at once. */
  | {
      readonly kind: 'files';
      readonly name: string;
      readonly path: string;
      readonly mount: VolumeMount | null;
      readonly groupId: number | null;
      readonly files: readonly VolumeFile[];
    }
  /**
   * A path of the host that must exist, or is created. `spec`: the name of the PersistentVolume; absent: there is none.
   */
  | {
      readonly kind: 'host';
      readonly name: string;
      readonly spec?: string;
      readonly path: string;
      readonly type: HostPathType;
    }
  /**
   * A folder of the host that is bound into the pod's folder; where `source` is a block device, the file system on it.
   */
  | {
      readonly kind: 'local';
      readonly name: string;
      /** The name of the PersistentVolume. */
      readonly spec: string;
      readonly source: string;
      readonly path: string;
      /**
       * The group that gets the volume, unless another pod has it; `onlyTop`: only where the top folder does not belong
       * to the group already.
       */
      readonly ownership: { readonly groupId: number; readonly onlyTop: boolean } | null;
      /** For a device: the file system that a blank one is formatted with, and its mount options. */
      readonly filesystem: { readonly type: string; readonly options: readonly string[]; readonly readOnly: boolean };
    }
  /** A block device of the host: `link` in the pod's folder points to it, and it is bound to the file `map`. */
  | {
      readonly kind: 'device';
      readonly name: string;
      /** The name of the PersistentVolume. */
      readonly spec: string;
      readonly device: string;
      readonly link: string;
      readonly map: string;
    };

/** A sub-path of a volume for one container: bound to `target`, where nothing in the volume can move it. */
export interface SubPath {
  readonly container: string;
  readonly volume: string;
  readonly volumePath: string;
  readonly subPath: string;
  readonly target: string;
}

/** A variable whose value is in a file of a volume: `env` is its index in the list of the container. */
export interface FileVariable {
  readonly container: string;
  readonly env: number;
  readonly volumePath: string;
  /** The path of the file within the volume. */
  readonly path: string;
  readonly key: string;
  readonly optional: boolean;
}

/** By index in the container's list; `null`: the file has no value under an optional key. */
export type FileValues = Readonly<Record<string, SecretHandle | null>>;

/** A preparation for a container that failed: the public message, and the cause. */
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
  /** The step that failed, in upstream's words; absent: `MountVolume.SetUp`. */
  readonly step?: string;
  /** Nothing was tried: the volume of its claim is not known, or not for this pod. */
  readonly isUnprocessed?: boolean;
}

/** A volume that keeps the group that another pod gave it. `spec`: the name of the PersistentVolume. */
export interface KeptGroup {
  readonly spec: string;
  readonly wanted: number;
  readonly has: number;
}

/** The first file of a volume that could not be given to its group, and how many `more` there are. */
export interface Unshared {
  readonly text: 'Lchown failed' | 'chmod failed';
  readonly path: string;
  readonly err: string;
  readonly more: number;
}

/** A volume whose files are being given to a group: how many were given, and since when. */
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
  /** Both are by container. A value may be a secret, and so is a handle. */
  'volume.readVariables': query<
    Place & { variables: readonly FileVariable[] },
    { values: Readonly<Record<string, FileValues>>; failed: Readonly<Record<string, Unprepared>> }
  >(),
  /** The volumes below a folder whose files are being given to a group now. */
  'volume.sharings': query<{ directory: string }, readonly Sharing[]>(),
  /** The uids of all pods that have a folder below `root`. */
  'volume.podFolders': query<{ root: string }, { uids: readonly string[] }>(),
  /** Unmounts everything below the pod's folder, then removes its volumes. */
  'volume.tearDown': idempotent<Place, null>(),
};
