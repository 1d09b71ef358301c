/**
 * Volumes on disks of storage networks (iSCSI, Fibre Channel): their names and paths, as upstream has them. Pure.
 *
 * They have the messages of CSI volumes, because they are attached, mounted for the node and mounted for pods in the
 * same steps; `driver` is the name of the plugin. Invariants: a name from outside is one part of a path, never several;
 * a disk has one key, however its portal is written. Upstream: pkg/volume/iscsi, pkg/volume/fc.
 */
import type { Pod, SecretReference, Volume } from '../api/pod.ts';
import type { DiskMount, DiskSource, FCDisk, ISCSIDisk } from '../operations/disk.ts';
import type { BoundVolume } from '../operations/volume.ts';
import type { CSIVolume, DiskOfVolume } from './messages.ts';

export const ISCSI_PLUGIN = 'kubernetes.io/iscsi';
const FC_PLUGIN = 'kubernetes.io/fc';
export const DISK_PLUGINS = { iscsi: ISCSI_PLUGIN, fc: FC_PLUGIN } as const;
const BLOCK = 'volumeDevices';

type ISCSISource = NonNullable<Volume['iscsi']>;
type FCSource = NonNullable<Volume['fc']>;

/** Plugins of disks; drivers of CSI have no slash in their names. */
export const isDiskPlugin = (driver: string): boolean => driver === ISCSI_PLUGIN || driver === FC_PLUGIN;

/** What the pod's volume names, and where it is mounted. */
interface Described {
  readonly source: DiskSource;
  /** The name in the Node's status. */
  readonly uniqueName: string;
  readonly fsType: string;
  readonly secret: SecretReference | null;
  readonly isReadOnly: boolean;
}

/**
 * `bound`: the PersistentVolume of a claim; `null` for a volume of the pod itself. Returns `null` for another kind.
 *
 * @throws Error with the text for the event, if the volume names no disk, or one whose name is no part of a path
 */
export function diskVolumeOf(volume: Volume, bound: BoundVolume | null, pod: Pod): CSIVolume | null {
  const spec = bound?.name ?? volume.name;
  const described = describe({ ...(bound?.spec ?? volume) }, spec, pod);
  if (described === null) return null;
  const { source, uniqueName, fsType, secret, isReadOnly } = described;
  const isBlock = bound?.spec.volumeMode === 'Block';
  const { fsGroup, fsGroupChangePolicy } = pod.spec.securityContext ?? {};
  const folder = folderOf(source, isBlock);
  return {
    name: volume.name,
    spec,
    driver: DISK_PLUGINS[source.kind],
    handle: handleIn(folder),
    isEphemeral: false,
    isBlock,
    readOnly: bound === null ? isReadOnly : volume.persistentVolumeClaim?.readOnly === true,
    fsType,
    attributes: {},
    accessModes: bound?.spec.accessModes ?? [],
    mountOptions: (bound?.spec.mountOptions ?? []).filter((option) => option !== ''),
    stageSecret: secret,
    publishSecret: null,
    expandSecret: null,
    size: null,
    fsGroup: fsGroup ?? null,
    fsGroupOnlyTop: fsGroupChangePolicy === 'OnRootMismatch',
    disk: { folder, uniqueName, source },
  };
}

type Sources = { readonly iscsi?: unknown; readonly fc?: unknown };

function describe({ iscsi, fc }: Sources, spec: string, pod: Pod): Described | null {
  if (iscsi != null) return describeISCSI(iscsi as ISCSISource, spec, pod.metadata.namespace);
  return fc == null ? null : describeFC(fc);
}

const PORT = 3260;

/** Only a portal without any colon lacks its port, as upstream. */
const portalOf = (text: string): string => (text.includes(':') ? text : `${text}:${PORT}`);

function describeISCSI(source: ISCSISource, volume: string, namespace: string): Described {
  const { targetPortal, portals = [], iqn, lun, iscsiInterface = 'default', initiatorName = '' } = source;
  const all = [targetPortal, ...portals].map(portalOf);
  const disk: ISCSIDisk = {
    kind: 'iscsi',
    volume,
    portals: all,
    iqn,
    lun,
    initialInterface: iscsiInterface,
    interface: initiatorName === '' ? iscsiInterface : `${all[0]}:${volume}`,
    initiatorName,
    discoveryCHAP: source.chapAuthDiscovery === true,
    sessionCHAP: source.chapAuthSession === true,
  };
  const { name = '', namespace: own = '' } = (source.secretRef ?? {}) as SecretReference;
  const needsSecret = (disk.discoveryCHAP || disk.sessionCHAP) && name !== '';
  return {
    source: disk,
    uniqueName: `${ISCSI_PLUGIN}/${targetPortal}:${iqn}:${lun}`,
    fsType: source.fsType ?? '',
    secret: needsSecret ? { name, namespace: own || namespace } : null,
    isReadOnly: source.readOnly === true,
  };
}

const NO_DISK = 'fc: no fc disk information found. failed to make a new mounter';

/** Upstream's name has the lists as Go prints them. */
function describeFC({ targetWWNs = [], wwids = [], lun, fsType = '', readOnly }: FCSource): Described {
  const byTarget = targetWWNs.length > 0 && lun !== undefined;
  if (!byTarget && wwids.length === 0) throw new Error(NO_DISK);
  const source: FCDisk = byTarget
    ? { kind: 'fc', wwns: targetWWNs, lun: String(lun), wwids: [] }
    : { kind: 'fc', wwns: [], lun: '', wwids: wwids.map((wwid) => wwid.replaceAll(' ', '_')) };
  const uniqueName = byTarget ? `${FC_PLUGIN}/[${targetWWNs.join(' ')}]:${lun}` : `${FC_PLUGIN}/[${wwids.join(' ')}]`;
  return { source, uniqueName, fsType, secret: null, isReadOnly: readOnly === true };
}

/** Below `<root>/plugins`. */
function folderOf(source: DiskSource, isBlock: boolean): string {
  const plugin = isBlock ? `${DISK_PLUGINS[source.kind]}/${BLOCK}` : DISK_PLUGINS[source.kind];
  if (source.kind === 'iscsi') {
    const { portals, iqn, lun } = source;
    return `${plugin}/${part(`iface-${source.interface}`)}/${part(`${portals[0]}-${iqn}-lun-${lun}`)}`;
  }
  const { wwns, lun, wwids } = source;
  return `${plugin}/${part(wwns.length > 0 ? `${wwns.join('-')}-lun-${lun}` : wwids.join('-'))}`;
}

const NAME_MAX_BYTES = 255;

/** Upstream lets a slash lead to another folder. */
function part(name: string): string {
  const isPart = !/[/\0]/.test(name) && !['', '.', '..', BLOCK].includes(name);
  if (isPart && new TextEncoder().encode(name).length <= NAME_MAX_BYTES) return name;
  throw new Error(`${JSON.stringify(name)} cannot be the name of a folder, which the disk needs on this node`);
}

/** What identifies a disk, whichever interface leads to it: the last part of its folder. */
export const handleIn = (folder: string): string => folder.slice(folder.lastIndexOf('/') + 1);

/** The folder of a disk for the node. */
export const diskDirectory = (root: string, { folder }: Pick<DiskOfVolume, 'folder'>): string =>
  `${root}/plugins/${folder}`;

/** The paths of a disk for one pod. */
export function diskMount(
  { root, podDirectory }: { readonly root: string; readonly podDirectory: string },
  { spec, driver, isBlock, disk }: Pick<CSIVolume, 'spec' | 'driver' | 'isBlock' | 'disk'>,
): DiskMount {
  const plugin = driver.replace('/', '~');
  if (!isBlock) return { path: `${podDirectory}/volumes/${plugin}/${spec}`, map: null };
  const uid = podDirectory.slice(podDirectory.lastIndexOf('/') + 1);
  const map = `${diskDirectory(root, { folder: disk?.folder ?? '' })}/${uid}`;
  return { path: `${podDirectory}/${BLOCK}/${plugin}/${spec}`, map };
}

/** Options of mount(8), each once and in the order of their text, as upstream. */
export const diskOptions = ({ mountOptions, readOnly }: Pick<CSIVolume, 'mountOptions' | 'readOnly'>) =>
  [...new Set([...mountOptions, ...(readOnly ? ['ro'] : [])])].toSorted();

/** A disk that is known only by its folder below `<root>/plugins`, as an earlier agent left it. */
export const diskFound = (driver: string, folder: string): DiskOfVolume => ({
  folder,
  uniqueName: `${driver}/${driver === ISCSI_PLUGIN ? iscsiNameIn(handleIn(folder)) : fcNameIn(handleIn(folder))}`,
  source: null,
});

const LUN = '-lun-';

/** The portal, the target and the unit in the name of a folder; `null` if it has another form. */
export function iscsiIdIn(
  name: string,
): { readonly portal: string; readonly iqn: string; readonly lun: string } | null {
  const before = ['-iqn.', '-eui.', '-naa.'].map((each) => name.indexOf(each)).filter((at) => at > 0);
  const [at, end] = [Math.min(...before), name.lastIndexOf(LUN)];
  if (!(at < end)) return null;
  return { portal: name.slice(0, at), iqn: name.slice(at + 1, end), lun: name.slice(end + LUN.length) };
}

function iscsiNameIn(name: string): string {
  const id = iscsiIdIn(name);
  return id === null ? name : `${id.portal}:${id.iqn}:${id.lun}`;
}

/** The names of the target's ports and the unit, or the identifiers of the disk, in the name of a folder. */
export function fcIdIn(name: string): Pick<FCDisk, 'wwns' | 'lun' | 'wwids'> {
  const parts = name.split('-');
  return parts.length > 2 && parts.at(-2) === 'lun'
    ? { wwns: parts.slice(0, -2), lun: parts.at(-1) ?? '', wwids: [] }
    : { wwns: [], lun: '', wwids: parts };
}

function fcNameIn(name: string): string {
  const { wwns, lun, wwids } = fcIdIn(name);
  return wwns.length > 0 ? `[${wwns.join(' ')}]:${lun}` : `[${wwids.join(' ')}]`;
}
