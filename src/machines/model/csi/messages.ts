/**
 * Messages between pods, `csiVolumes` and its actors about volumes of CSI drivers, and about disks of storage networks
 * (`disks.ts`), which have the same steps.
 */
import type { CSIDriverSpec, ObjectReference, SecretReference } from '../api/pod.ts';
import type { DiskSource } from '../operations/disk.ts';

/** A disk of a storage network. */
export interface DiskOfVolume {
  /** Its folder for the node, below `<root>/plugins`. */
  readonly folder: string;
  /** The name in the Node's status. */
  readonly uniqueName: string;
  /** `null`: known only by its folder. */
  readonly source: DiskSource | null;
}

/** A volume of a pod that a CSI driver has to publish. */
export interface CSIVolume {
  /** The name of the volume in the pod. */
  readonly name: string;
  /** The name of the PersistentVolume, or else `name`: used for its folder and in events. */
  readonly spec: string;
  readonly driver: string;
  readonly handle: string;
  /** The volume is inline in the pod, and is removed with it. */
  readonly isEphemeral: boolean;
  /** Containers get the volume as a device, not as a file system. */
  readonly isBlock: boolean;
  readonly readOnly: boolean;
  readonly fsType: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly accessModes: readonly string[];
  readonly mountOptions: readonly string[];
  readonly stageSecret: SecretReference | null;
  readonly publishSecret: SecretReference | null;
  readonly expandSecret: SecretReference | null;
  /** `null` for a volume without a claim. */
  readonly size: VolumeSize | null;
  /** The group of the pod's security context; `null` for none. */
  readonly fsGroup: number | null;
  readonly fsGroupOnlyTop: boolean;
  /** The SELinux label to mount it with, if the driver supports that; empty for none. Absent: never with one. */
  readonly seLinuxLabel?: string;
  /** Absent for a volume of a CSI driver. */
  readonly disk?: DiskOfVolume;
}

/** Sizes of a claim's volume, as quantity texts. */
interface VolumeSize {
  readonly claim: ClaimName;
  /** The capacity of the PersistentVolume: the required size on this node. */
  readonly wanted: string;
  /** The capacity in the status of the claim; empty if it has none yet. */
  readonly had: string;
  /** The progress of an expansion: `allocatedResourceStatuses` of the claim; empty if nothing is pending. */
  readonly status: string;
}

interface ClaimName {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** An expansion that a volume needs. */
export interface Expansion {
  readonly claim: ClaimName;
  readonly to: string;
  readonly status: string;
}

/** The pod for which volumes are published. */
export interface CSIPod extends ObjectReference {
  readonly uid: string;
  readonly serviceAccount: string;
}

/** All CSI volumes that a pod uses; replaces the earlier message, but unpublishes nothing. */
export interface CSIWanted {
  readonly type: 'csi.wanted';
  readonly pod: CSIPod;
  readonly volumes: readonly CSIVolume[];
}

/** A pod has waited long for its volumes: an event names them. */
export interface CSIOverdue {
  readonly type: 'csi.overdue';
  readonly uid: string;
}

/** No container of the pod runs any more: its volumes have to be unpublished, including those of an earlier agent. */
export interface CSIReleased {
  readonly type: 'csi.released';
  readonly uid: string;
}

/** Reports to pods. */
export type CSIReport =
  /** Names of the volumes that containers can use now. */
  | {
      readonly type: 'csi.mounted';
      readonly uid: string;
      readonly names: readonly string[];
      /** Those of them that are mounted with an SELinux label; absent: none. */
      readonly labelled?: readonly string[];
    }
  /** No volume of a released pod is published any more. */
  | { readonly type: 'csi.unmounted'; readonly uid: string }
  /** Requests and releases were lost: pods send theirs again. */
  | { readonly type: 'csi.started' };

/** From `pluginManager`: the socket of a driver, or its removal. */
export type CSIDriverChange =
  | { readonly type: 'csi.driverListening'; readonly name: string; readonly endpoint: string }
  | { readonly type: 'csi.driverGone'; readonly name: string };

/** To `pluginManager`, about a driver whose attach limit may change. */
export type CSILimits =
  /** How often the driver has to be asked for its attach limit; 0 for never. */
  | { readonly type: 'csi.limitsFollowed'; readonly name: string; readonly periodMs: number }
  /** The limit is lower than the driver reported: it has to be asked now. */
  | { readonly type: 'csi.limitReached'; readonly name: string };

/** The volumes in the Node's status, as the API server has it. */
export interface NodeVolumes {
  readonly type: 'node.volumes';
  readonly inUse: readonly string[];
  readonly attached: readonly string[];
}

/** The known facts about a driver. */
export interface Driver {
  readonly endpoint: string | null;
  /** The CSIDriver object; `null` if there is none. Absent: not known yet. */
  readonly spec?: CSIDriverSpec | null;
  /** The agent attaches volumes itself (`enableControllerAttachDetach: false`). */
  readonly attachesItself?: true;
}

/** Why a volume cannot be mounted, in the wording of an event. */
export interface CSIFailure {
  readonly step: string;
  readonly message: string;
}

/** The driver's result of staging a volume for the node. */
export interface StagedDevice {
  /** Empty: the driver does not stage. */
  readonly stagingPath: string;
  readonly publishContext: Readonly<Record<string, string>>;
  /** The path of the device of a disk. */
  readonly device?: string;
}

/** To the actor of a device: replaces the earlier order. */
export type DeviceOrder = {
  readonly type: 'device.known';
  readonly driver: Driver;
  /** The volume to stage; `null` for the previous one. */
  readonly volume: CSIVolume | null;
  /** The SELinux label to stage it with; empty for none. */
  readonly label: string;
  /** The volume is published for a pod, or a pod wants it. */
  readonly isUsed: boolean;
  /** The API server knows that the volume is in use on this node. */
  readonly isReported: boolean;
  readonly isAttached: boolean;
};

export type DeviceReport =
  | { readonly type: 'device.staged'; readonly key: string; readonly device: StagedDevice }
  | ({
      readonly type: 'device.failed';
      readonly key: string;
      /** The attach limit of this node is reached: the volume cannot be attached. */
      readonly isNodeFull: boolean;
    } & CSIFailure);

/** To the actor of one volume of one pod: replaces the earlier order. */
export type MountOrder =
  | {
      readonly type: 'mount.known';
      readonly driver: Driver;
      readonly device: StagedDevice | null;
      /** The SELinux label to publish it with; empty for none. */
      readonly label: string;
      /** The label with which other pods use the volume, if this pod needs another one; `null` for no conflict. */
      readonly conflict: string | null;
      /** Another pod has the volume, which only one pod may use. */
      readonly isTaken: boolean;
      readonly isReleased: boolean;
      /** The expansion that this mount has to request; `null` if none is needed, or another mount requests it. */
      readonly expansion: Expansion | null;
    }
  /** The device of the volume cannot be staged. */
  | ({ readonly type: 'mount.deviceFailed' } & CSIFailure);

export type MountReport =
  | { readonly type: 'mount.published'; readonly id: string }
  /** The device has this size on the node. */
  | { readonly type: 'mount.expanded'; readonly id: string; readonly size: string };
