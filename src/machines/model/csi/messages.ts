/** What pods, `csiVolumes` and its actors say to each other about volumes of CSI drivers. */
import type { ObjectReference } from '../api/pod.ts';
import type { CSIDriverSpec, SecretReference } from '../api/storage.ts';

/** A volume of a pod that a CSI driver is to publish. */
export interface CSIVolume {
  /** In the pod. */
  readonly name: string;
  /** Of the PersistentVolume, or the same as `name`: its folder, and its name in events. */
  readonly spec: string;
  readonly driver: string;
  readonly handle: string;
  /** Written into the pod itself, and gone with it. */
  readonly isEphemeral: boolean;
  /** Containers have it as a device, not as a file system. */
  readonly isBlock: boolean;
  readonly readOnly: boolean;
  readonly fsType: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly accessModes: readonly string[];
  readonly mountOptions: readonly string[];
  readonly stageSecret: SecretReference | null;
  readonly publishSecret: SecretReference | null;
  readonly expandSecret: SecretReference | null;
  /** `null`: of no claim. */
  readonly size: VolumeSize | null;
  /** Of the pod; `null`: none. */
  readonly fsGroup: number | null;
  readonly fsGroupOnlyTop: boolean;
}

/** How large the volume of a claim is for the cluster: quantities, as their texts. */
interface VolumeSize {
  readonly claim: ClaimName;
  /** Of the PersistentVolume: what the volume has to be on this node. */
  readonly wanted: string;
  /** What the claim says that its users have; empty: nothing yet. */
  readonly had: string;
  /** How far the cluster is with it: the `allocatedResourceStatuses` of the claim; empty: no more to do. */
  readonly status: string;
}

interface ClaimName {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** What a volume has become too small for. */
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

/** Everything of a driver that a pod uses; replaces what it wanted before, and takes nothing away. */
export interface CSIWanted {
  readonly type: 'csi.wanted';
  readonly pod: CSIPod;
  readonly volumes: readonly CSIVolume[];
}

/** A pod has waited for its volumes for long: an event names them. */
export interface CSIOverdue {
  readonly type: 'csi.overdue';
  readonly uid: string;
}

/** Nothing of the pod runs any more: its volumes are to be unpublished, also those that an earlier agent published. */
export interface CSIReleased {
  readonly type: 'csi.released';
  readonly uid: string;
}

/** To pods. */
export type CSIReport =
  /** Names of the volumes that containers can use now. */
  | { readonly type: 'csi.mounted'; readonly uid: string; readonly names: readonly string[] }
  /** Nothing of a released pod is published any more. */
  | { readonly type: 'csi.unmounted'; readonly uid: string }
  /** Who wanted and released what was lost. */
  | { readonly type: 'csi.started' };

/** Of the plugin manager: where a driver listens. */
export type CSIDriverNews =
  | { readonly type: 'csi.driverListening'; readonly name: string; readonly endpoint: string }
  | { readonly type: 'csi.driverGone'; readonly name: string };

/** To the plugin manager, of a driver whose volumes that fit on this node may become more or fewer. */
export type CSILimits =
  /** It is to be asked so often how many; 0: no more. */
  | { readonly type: 'csi.limitsFollowed'; readonly name: string; readonly periodMs: number }
  /** Fewer than it said: it is to be asked now. */
  | { readonly type: 'csi.limitReached'; readonly name: string };

/** What the Node says of volumes, as the API server has it. */
export interface NodeVolumes {
  readonly type: 'node.volumes';
  readonly inUse: readonly string[];
  readonly attached: readonly string[];
}

/** What is known of a driver. */
export interface Driver {
  readonly endpoint: string | null;
  /** Its CSIDriver; `null`: there is none. Absent: that is not known yet. */
  readonly spec?: CSIDriverSpec | null;
}

/** Why a volume cannot be had, in the words of an event. */
export interface CSIFailure {
  readonly step: string;
  readonly message: string;
}

/** What the driver made of a volume for the whole node. */
export interface StagedDevice {
  /** Empty: the driver does not stage. */
  readonly stagingPath: string;
  readonly publishContext: Readonly<Record<string, string>>;
}

/** To the actor of a device: replaces what it knew. */
export type DeviceOrder = {
  readonly type: 'device.known';
  readonly driver: Driver;
  /** What is to be staged; `null`: as before. */
  readonly volume: CSIVolume | null;
  /** It is published for a pod, or a pod wants it. */
  readonly isUsed: boolean;
  /** The API server knows that the volume is in use here. */
  readonly isReported: boolean;
  readonly isAttached: boolean;
};

export type DeviceReport =
  | { readonly type: 'device.staged'; readonly key: string; readonly device: StagedDevice }
  | ({
      readonly type: 'device.failed';
      readonly key: string;
      /** It cannot be attached: no more volumes fit on this node. */
      readonly isNodeFull: boolean;
    } & CSIFailure);

/** To the actor of one volume of one pod: replaces what it knew. */
export type MountOrder =
  | {
      readonly type: 'mount.known';
      readonly driver: Driver;
      readonly device: StagedDevice | null;
      /** Another pod has a volume that only one pod may have. */
      readonly isTaken: boolean;
      readonly isReleased: boolean;
      /** This is the mount by which the volume is to be expanded; `null`: it need not be, or another is. */
      readonly expansion: Expansion | null;
    }
  /** The device that it waits for cannot be had. */
  | ({ readonly type: 'mount.deviceFailed' } & CSIFailure);

export type MountReport =
  | { readonly type: 'mount.published'; readonly id: string }
  /** The device has this size on the node. */
  | { readonly type: 'mount.expanded'; readonly id: string; readonly size: string };
