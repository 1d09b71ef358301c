/**
 * Operations on disks of storage networks (iSCSI, Fibre Channel). Implemented by `src/actors/disk`.
 *
 * Invariants: everything is written below the pod's folder or below `<root>/plugins`; what is needed to detach a disk
 * is on disk before it is attached; CHAP secrets are handles that only the port opens. Upstream: pkg/volume/iscsi,
 * pkg/volume/fc, k8s.io/mount-utils (`SafeFormatAndMount`).
 */
import { idempotent } from '../../../kernel/xstate.ts';
import type { Content, Unshared } from './volume.ts';

/** A logical unit of an iSCSI target. */
export interface ISCSIDisk {
  readonly kind: 'iscsi';
  /** The name of the PersistentVolume, or else of the volume in the pod. */
  readonly volume: string;
  /** `address:port`; the first is the target portal. */
  readonly portals: readonly string[];
  readonly iqn: string;
  readonly lun: number;
  /** The configured iSCSI interface. */
  readonly initialInterface: string;
  /** The interface of the session: differs from the configured one if the volume names its initiator. */
  readonly interface: string;
  /** Empty: that of the interface. */
  readonly initiatorName: string;
  readonly discoveryCHAP: boolean;
  readonly sessionCHAP: boolean;
}

/** A disk in a Fibre Channel network: by the names of its target's ports and its unit, or by its own identifiers. */
export interface FCDisk {
  readonly kind: 'fc';
  readonly wwns: readonly string[];
  /** Empty with `wwids`. */
  readonly lun: string;
  /** Spaces are underscores. */
  readonly wwids: readonly string[];
}

export type DiskSource = ISCSIDisk | FCDisk;
export type DiskKind = DiskSource['kind'];

/** `root` is `--root-dir`; `directory`, below it, is the disk's folder for the node. */
interface Place {
  readonly root: string;
  readonly directory: string;
}

/** The paths of a disk for one pod: `path` is the folder, or, of a block device, the link to it. */
export interface DiskMount {
  readonly path: string;
  /** The file on which a block device is bound; `null` for a file system. */
  readonly map: string | null;
}

export const diskOperations = {
  /** Logs in to the target, or looks for the disk, and waits for its device. Returns the path of the device. */
  'disk.attach': idempotent<
    Place & {
      readonly source: DiskSource;
      readonly isBlock: boolean;
      /** Values of the CHAP secret by key. */
      readonly secrets: Readonly<Record<string, Content>>;
    },
    { readonly device: string }
  >(),
  /** Mounts the file system of the device at `directory`, once; formats a blank device. */
  'disk.mountDevice': idempotent<
    Place & { readonly device: string; readonly fsType: string; readonly options: readonly string[] },
    null
  >(),
  /** Unmounts the disk, logs out if no other disk needs the session, and removes `directory`. */
  'disk.detach': idempotent<Place & { readonly kind: DiskKind; readonly isBlock: boolean }, null>(),
  /** Binds the disk to the path of a pod, once, and changes the group of its files. */
  'disk.setUp': idempotent<
    Place & {
      readonly device: string;
      readonly mount: DiskMount;
      /** Of a file system: beside those with which the device is mounted. */
      readonly options: readonly string[];
      /** `onlyTop`: skipped if the top folder already belongs to the group. */
      readonly ownership: { readonly groupId: number; readonly onlyTop: boolean } | null;
    },
    Unshared | null
  >(),
  /** Unbinds the paths of containers and the path of the pod. */
  'disk.tearDown': idempotent<
    { readonly root: string; readonly podDirectory: string; readonly mount: DiskMount },
    null
  >(),
};
