/**
 * What the node agent asks for the volumes of pods. Implemented by `src/actors/volume`.
 *
 * Invariants: every path lies below the pod's folder, but for those of `hostPath`; a value of a Secret is a handle that
 * only the port opens; doing one of these twice is doing it once.
 */
import { idempotent, query, type SecretHandle } from '../../../kernel/xstate.ts';
import type { PersistentVolumeSpec } from '../api/storage.ts';

/** One value of a ConfigMap or Secret: text, or bytes as base64. Of a Secret only the handle is known. */
export type Content = { readonly text: string | SecretHandle } | { readonly base64: string | SecretHandle };

/**
 * A ConfigMap or Secret as the machines hold it; or what else a pod takes from the API server by name: the handler of a
 * RuntimeClass, the place of a claim's volume, the variables of services, trust anchors, a token of its service
 * account, a certificate with its key.
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
  /** Of a Secret that says so: `kubernetes.io/dockerconfigjson`. */
  readonly type?: string;
  /** Changes with the content. */
  readonly version: string;
  readonly data: Readonly<Record<string, Content>>;
  /** Of a claim. */
  readonly bound?: BoundVolume;
}

/** The PersistentVolume that is bound to a claim. */
export interface BoundVolume {
  readonly name: string;
  /** Without what is of no use to a node: who claims it. */
  readonly spec: PersistentVolumeSpec;
  /** What the claim says of its size. */
  readonly size: {
    readonly claim: { readonly namespace: string; readonly name: string; readonly uid: string };
    /** The quantity that its users have; empty: nothing yet. */
    readonly had: string;
    /** `allocatedResourceStatuses.storage`; empty: none. */
    readonly status: string;
  };
  /** The uid of the pod that the claim was made for; empty: of none. */
  readonly owner: string;
  /** The group whose members may use it, by the annotation `pv.beta.kubernetes.io/gid`; absent: none is named. */
  readonly groupId?: number;
  /** Why it cannot be reached from this node, in upstream's words; empty when it can. */
  readonly nodeMismatch: string;
}

/** A file of a volume; `path` is relative to it. */
export interface VolumeFile {
  readonly path: string;
  readonly mode: number;
  /** Whose it is; absent: the agent's. */
  readonly userId?: number;
  /** `joined`: texts one after the other. */
  readonly content: Content | { readonly joined: readonly (string | SecretHandle)[] };
}

/** A file system of its own for a volume. */
export interface VolumeMount {
  readonly type: 'tmpfs' | 'hugetlbfs';
  readonly options: readonly string[];
  /** Without the right to mount, a folder on disk will do. */
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
  /** A folder in which containers write. */
  | {
      readonly kind: 'folder';
      readonly name: string;
      readonly path: string;
      readonly mount: VolumeMount | null;
      readonly groupId: number | null;
      /** The file system counts what it holds, if it counts by project. */
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
  /** Something of the host that must be there, or is made. `spec`: of the PersistentVolume; absent: there is none. */
  | {
      readonly kind: 'host';
      readonly name: string;
      readonly spec?: string;
      readonly path: string;
      readonly type: HostPathType;
    }
  /** A folder of the host, bound to one of the pod; where `source` is a block device, what is on it. */
  | {
      readonly kind: 'local';
      readonly name: string;
      /** Of the PersistentVolume. */
      readonly spec: string;
      readonly source: string;
      readonly path: string;
      /**
       * The group that it is given to, unless another pod has it; `onlyTop`: not where its top belongs to the group.
       */
      readonly ownership: { readonly groupId: number; readonly onlyTop: boolean } | null;
      /** For a device: what it is formatted with when it is blank, and how it is mounted. */
      readonly filesystem: { readonly type: string; readonly options: readonly string[]; readonly readOnly: boolean };
    }
  /** A block device of the host: `link` in the pod's folder leads to it, and it is bound to the file `map`. */
  | {
      readonly kind: 'device';
      readonly name: string;
      /** Of the PersistentVolume. */
      readonly spec: string;
      readonly device: string;
      readonly link: string;
      readonly map: string;
    };

/** A part of a volume that one container sees: bound to `target`, where nothing in the volume can move it. */
export interface SubPath {
  readonly container: string;
  readonly volume: string;
  readonly volumePath: string;
  readonly subPath: string;
  readonly target: string;
}

/** The value of a variable that a file of a volume has: `env` is its place in the list of the container. */
export interface FileVariable {
  readonly container: string;
  readonly env: number;
  readonly volumePath: string;
  /** Of the file, within the volume. */
  readonly path: string;
  readonly key: string;
  readonly optional: boolean;
}

/** By place in the container's list; `null`: the file has no value under an optional key. */
export type FileValues = Readonly<Record<string, SecretHandle | null>>;

/** What could not be prepared for a container: the public message, and the cause. */
export interface Unprepared {
  readonly message: string;
  /** Upstream keeps it from the pod's author, as it could reveal files of the node. */
  readonly why: string;
}

export interface VolumeFailure {
  readonly name: string;
  readonly message: string;
  /** The PersistentVolume that events name; absent: they name the volume of the pod. */
  readonly spec?: string;
  /** What failed, in upstream's words; absent: `MountVolume.SetUp`. */
  readonly step?: string;
  /** Nothing was tried: what lies behind its claim is not known, or not for this pod. */
  readonly isUnprocessed?: boolean;
}

/** A volume that another pod uses with another group, which it keeps. `spec`: of the PersistentVolume. */
export interface KeptGroup {
  readonly spec: string;
  readonly wanted: number;
  readonly has: number;
}

/** The first thing in a volume that could not be given to its group, and how many `more` there are. */
export interface Unshared {
  readonly text: 'Lchown failed' | 'chmod failed';
  readonly path: string;
  readonly err: string;
  readonly more: number;
}

/** A volume that is being given to its group: what has been done of it, and for how long it takes already. */
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
  /** Sets up every volume that can be, and says which could not, in words for the pod's events. */
  'volume.setUp': idempotent<Place & { volumes: readonly VolumeSetUp[] }, VolumesSetUp>(),
  /** `failed` is by container. */
  'volume.bindSubPaths': idempotent<
    Place & { subPaths: readonly SubPath[] },
    { failed: Readonly<Record<string, Unprepared>> }
  >(),
  /** Both are by container. A value may be a secret: it comes as a handle. */
  'volume.readVariables': query<
    Place & { variables: readonly FileVariable[] },
    { values: Readonly<Record<string, FileValues>>; failed: Readonly<Record<string, Unprepared>> }
  >(),
  /** The volumes below a folder that are being given to a group right now. */
  'volume.sharings': query<{ directory: string }, readonly Sharing[]>(),
  /** The uids of all pods that have a folder below `root`. */
  'volume.podFolders': query<{ root: string }, { uids: readonly string[] }>(),
  /** Unmounts everything below the pod's folder, then removes its volumes. */
  'volume.tearDown': idempotent<Place, null>(),
};
