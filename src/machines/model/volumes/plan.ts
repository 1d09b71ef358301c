/**
 * The plan of a pod's volumes: the set-ups required before its containers can use them.
 *
 * Determines which kinds this agent can set up, the path and medium of each volume, and why one cannot be set up now.
 * Invariant: a volume that the agent cannot set up, now or ever, is a failure; it is never left out silently.
 */
import { messageOf } from '../../../kernel/xstate.ts';
import type { Pod, Volume } from '../api/pod.ts';
import { memoryBound } from '../cgroups/pod-cgroup.ts';
import { diskMount, diskVolumeOf } from '../csi/disks.ts';
import type { CSIVolume } from '../csi/messages.ts';
import { mountPlace } from '../csi/paths.ts';
import { csiVolumeOf } from '../csi/policy.ts';
import { objectKey } from '../objects/config-objects.ts';
import { claimNameOf } from '../objects/keys.ts';
import type { BoundVolume, HostPathType, VolumeFailure, VolumeMount, VolumeSetUp } from '../operations/volume.ts';
import { hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { podDirectory, volumeDirectory } from '../spec/paths.ts';
import { podContainers } from '../spec/qos.ts';
import { type MountedVolume, type MountedVolumes, volumeKind } from '../spec/volumes.ts';
import { nanoOf, wholeUnits } from '../values/quantity.ts';
import { nestedFolders } from './nested.ts';
import { isOnServer, nfsVolume } from './network.ts';
import { type PayloadInput, payload } from './payload.ts';

export interface VolumePlan {
  /** The mounts for containers, once every volume is set up. */
  readonly mounted: MountedVolumes;
  readonly setUps: readonly VolumeSetUp[];
  /** Volumes that CSI drivers have to publish. */
  readonly csi: readonly CSIVolume[];
  readonly failures: readonly VolumeFailure[];
}

const PLUGINS = {
  emptyDir: 'kubernetes.io~empty-dir',
  configMap: 'kubernetes.io~configmap',
  secret: 'kubernetes.io~secret',
  downwardAPI: 'kubernetes.io~downward-api',
  projected: 'kubernetes.io~projected',
} as const;
const LOCAL_PLUGIN = 'kubernetes.io~local-volume';

export function volumePlan(input: PayloadInput): VolumePlan {
  const mounted: Record<string, MountedVolume> = {};
  const setUps: VolumeSetUp[] = [];
  const csi: CSIVolume[] = [];
  const failures: VolumeFailure[] = [];
  const uses = usesOf(input.pod);
  for (const volume of input.pod.spec.volumes ?? []) {
    if (!volume.image && !uses.mounts.has(volume.name) && !uses.devices.has(volume.name)) continue;
    try {
      const bound = boundVolume(volume, input, uses);
      const published = publishedByDriver(volume, bound, input);
      const mount = published ? null : mountedByAgent(volume, bound, input);
      const place = placeOf(volume, bound);
      const volumeView = published ? targetOf(published, input) : (mount?.mounted ?? mountedOf(place, input));
      if (volumeView !== null) mounted[volume.name] = withClaimSettings(volumeView, volume, bound, input.node);
      const setUp = published ? null : (mount?.setUp ?? setUpOf(place, input));
      if (setUp?.kind === 'host' && bound !== null) addSetUp(setUps, { ...setUp, spec: bound.name });
      else if (setUp !== null) addSetUp(setUps, setUp);
      if (published) addPublished(csi, published);
    } catch (error) {
      const failure = { name: volume.name, message: messageOf(error) };
      if (error instanceof Unprocessed) failures.push({ ...failure, isUnprocessed: true });
      else failures.push(error instanceof BoundVolumeError ? { ...failure, ...error.at } : failure);
    }
  }
  return { mounted, setUps, csi, failures };
}

/** A volume that lies elsewhere than in the pod's folder and appears there; `null` for every other one. */
const mountedByAgent = (volume: Volume, bound: BoundVolume | null, input: PayloadInput) =>
  localDevice(volume, bound, input) ?? localFolder(volume, bound, input) ?? nfsVolume(volume, bound, input);

/**
 * A volume that a CSI driver publishes, or one on a disk of a storage network; `null` for every other one, and without
 * an API server.
 */
function publishedByDriver(volume: Volume, bound: BoundVolume | null, input: PayloadInput): CSIVolume | null {
  if (input.node.apiServer === undefined) return null;
  try {
    const published = csiVolumeOf(volume, bound, input);
    if (published !== null) return published;
  } catch (error) {
    throw new Unprocessed(messageOf(error));
  }
  return hasBehavior(input.node, 'blockNetworkVolumes') ? diskOf(volume, bound, input) : null;
}

function diskOf(volume: Volume, bound: BoundVolume | null, { pod }: PayloadInput): CSIVolume | null {
  try {
    return diskVolumeOf(volume, bound, pod);
  } catch (error) {
    const isMapped = bound !== null && isBlock(bound);
    const step = isMapped ? 'MapVolume.NewBlockVolumeMapper initialization' : 'MountVolume.NewMounter initialization';
    throw new BoundVolumeError(messageOf(error), { name: bound?.name ?? volume.name, step });
  }
}

/**
 * Adds a set-up. Volumes of one claim are set up once, under the name of the PersistentVolume; the group is changed if
 * any of them is writable.
 */
function addSetUp(setUps: VolumeSetUp[], setUp: VolumeSetUp): void {
  const at = 'spec' in setUp ? setUps.findIndex((each) => 'spec' in each && each.spec === setUp.spec) : -1;
  const first = setUps[at];
  if (first === undefined) setUps.push(setUp);
  else if (first.kind === 'local' && first.ownership === null) setUps[at] = setUp;
}

/**
 * Adds a volume of a CSI driver, once for each claim. The driver publishes it read-only if all of the pod's volumes of
 * the claim are read-only.
 */
function addPublished(csi: CSIVolume[], volume: CSIVolume): void {
  const at = csi.findIndex(({ spec, isEphemeral }) => spec === volume.spec && isEphemeral === volume.isEphemeral);
  const first = csi[at];
  if (first === undefined) csi.push(volume);
  else csi[at] = { ...first, readOnly: first.readOnly && volume.readOnly };
}

/**
 * The volume with the settings of its claim. Files get the SELinux label unless they are the host's, a server's or
 * read-only.
 */
function withClaimSettings(
  own: MountedVolume,
  volume: Volume,
  bound: BoundVolume | null,
  node: NodeSettings,
): MountedVolume {
  const plain = {
    ...own,
    ...(bound?.groupId === undefined ? {} : { groupId: bound.groupId }),
    ...(volume.persistentVolumeClaim?.readOnly ? { readOnly: true } : {}),
  };
  if (node.seLinux !== true || own.device !== undefined) return plain;
  const isForeign = placeOf(volume, bound).hostPath !== undefined || isOnServer(bound?.spec ?? volume);
  const isStorage = bound !== null || volume.csi !== undefined || volume.iscsi !== undefined || volume.fc !== undefined;
  const isReadOnlyStorage = isStorage && plain.readOnly === true;
  return isForeign || isReadOnlyStorage ? plain : { ...plain, relabel: true };
}

/** The volume of a claim is unknown, or not for this pod: no set-up is attempted. */
class Unprocessed extends Error {}

/** An error of the volume behind a claim: events name that volume, and the failed step. */
class BoundVolumeError extends Error {
  readonly at: Pick<VolumeFailure, 'name' | 'step'>;

  constructor(message: string, at: Pick<VolumeFailure, 'name' | 'step'>) {
    super(message);
    this.at = at;
  }
}

/** The PersistentVolume of a claim. A node without an API server has none. */
function boundVolume(
  volume: Volume,
  { pod, node, objects, unavailable }: PayloadInput,
  uses: Uses,
): BoundVolume | null {
  const { namespace, name, uid } = pod.metadata;
  const claim = node.apiServer === undefined ? null : claimNameOf(volume, name);
  if (claim === null) return null;
  const key = objectKey('PersistentVolumeClaim', namespace, claim);
  const bound = objects[key]?.bound;
  if (bound === undefined) throw new Unprocessed(unavailable?.[key] ?? `error processing PVC ${namespace}/${claim}`);
  if (volume.ephemeral && bound.owner !== uid) {
    throw new Unprocessed(`PVC ${namespace}/${claim} was not created for pod ${namespace}/${name} (pod is not owner)`);
  }
  checkMode(volume, bound, uses);
  if (bound.nodeMismatch === '') return bound;
  const step = `${isBlock(bound) ? 'MapVolume' : 'MountVolume'}.NodeAffinity check`;
  throw new BoundVolumeError(bound.nodeMismatch, { name: bound.name, step });
}

const isBlock = ({ spec }: BoundVolume): boolean => spec.volumeMode === 'Block';

/** Names of the volumes that containers mount: upstream ignores all others, including those used by variables. */
interface Uses {
  readonly mounts: ReadonlySet<string>;
  readonly devices: ReadonlySet<string>;
}

export function usesOf(pod: Pod): Uses {
  const containers = [...podContainers(pod), ...(pod.spec.ephemeralContainers ?? [])];
  const mounts = containers.flatMap(({ volumeMounts = [] }) => volumeMounts.map(({ name }) => name));
  const devices = containers.flatMap(({ volumeDevices = [] }) => volumeDevices.map(({ name }) => name));
  return { mounts: new Set(mounts), devices: new Set(devices) };
}

function checkMode({ name }: Volume, bound: BoundVolume, { mounts, devices }: Uses): void {
  const [mode, wrong, field] = isBlock(bound)
    ? (['Block', mounts, 'volumeMounts'] as const)
    : (['Filesystem', devices, 'volumeDevices'] as const);
  if (wrong.has(name)) throw new Unprocessed(`volume ${name} has volumeMode ${mode}, but is specified in ${field}`);
}

const LOCAL_DEVICES = `volumeDevices/${LOCAL_PLUGIN}`;
export const LOCAL_MAPS = 'plugins/kubernetes.io/local-volume/volumeDevices';

/** A device of this machine; `null` if the volume is no device. */
function localDevice(volume: Volume, bound: BoundVolume | null, { pod, node }: PayloadInput) {
  if (bound === null || !isBlock(bound)) return null;
  const { name, spec } = bound;
  if (!spec.local) {
    const text = 'only local volumes and those of CSI drivers can be block devices; use volumeMode Filesystem';
    throw new BoundVolumeError(text, { name, step: 'MapVolume.FindMapperPluginBySpec' });
  }
  const link = `${podDirectory(pod, node)}/${LOCAL_DEVICES}/${name}`;
  const map = `${node.rootDir}/${LOCAL_MAPS}/${name}/${pod.metadata.uid}`;
  const setUp: VolumeSetUp = { kind: 'device', name: volume.name, spec: name, device: spec.local.path, link, map };
  return { mounted: { hostPath: '', device: link }, setUp };
}

/** The file system of a blank disk whose volume names none. */
const FS_TYPE_DEFAULT = 'ext4';

/**
 * A folder or disk of this machine, bind-mounted into the pod's folder like every volume. `null` if the volume is
 * neither.
 */
function localFolder(volume: Volume, bound: BoundVolume | null, { pod, node }: PayloadInput) {
  if (bound === null || !bound.spec.local) return null;
  const { name: spec } = bound;
  const path = volumeDirectory(pod, node, LOCAL_PLUGIN, spec);
  const { fsGroup, fsGroupChangePolicy } = pod.spec.securityContext ?? {};
  const isGiven = fsGroup !== undefined && volume.persistentVolumeClaim?.readOnly !== true;
  const ownership = isGiven ? { groupId: fsGroup, onlyTop: fsGroupChangePolicy === 'OnRootMismatch' } : null;
  const { path: source, fsType } = bound.spec.local;
  const filesystem = {
    type: fsType || FS_TYPE_DEFAULT,
    options: bound.spec.mountOptions ?? [],
    readOnly: volume.persistentVolumeClaim?.readOnly === true,
  };
  const setUp: VolumeSetUp = { kind: 'local', name: volume.name, spec, source, path, ownership, filesystem };
  return { mounted: { hostPath: path }, setUp };
}

/** A hostPath volume behind a claim is used in place. */
function placeOf(volume: Volume, bound: BoundVolume | null): Volume {
  const { hostPath } = bound?.spec ?? {};
  return hostPath ? { name: volume.name, hostPath } : volume;
}

function targetOf(volume: CSIVolume, { pod, node }: PayloadInput): MountedVolume {
  const folders = { root: node.rootDir, podDirectory: podDirectory(pod, node) };
  if (volume.disk) {
    const { path, map } = diskMount(folders, volume);
    const place = map === null ? { hostPath: path } : { hostPath: '', device: path };
    return volume.readOnly ? { ...place, readOnly: true } : place;
  }
  const { target, block } = mountPlace(folders, volume);
  const place = block === null ? { hostPath: target } : { hostPath: '', device: block.link };
  return volume.readOnly ? { ...place, readOnly: true } : place;
}

/** Volumes written by the agent are read-only for containers. */
function mountedOf(volume: Volume, input: PayloadInput): MountedVolume | null {
  if (volume.hostPath) return { hostPath: volume.hostPath.path };
  if (volume.image) return { hostPath: '', image: { reference: volume.image.reference ?? '' } };
  const path = pathOf(volume, input);
  if (path === null) return null;
  return volume.emptyDir ? { hostPath: path } : { hostPath: path, readOnly: true };
}

const NO_GIT_REPO =
  'git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate ' +
  '`GitRepoVolumeDriver`';

function setUpOf(volume: Volume, input: PayloadInput): VolumeSetUp | null {
  const { hostPath, emptyDir } = volume;
  if (hostPath) return hostSetUp(volume.name, hostPath.path, hostPath.type ?? '');
  if (volume.image) return null;
  const path = pathOf(volume, input);
  if (volume['gitRepo'] !== undefined) throw new Error(NO_GIT_REPO);
  if (path === null) {
    const network = hasBehavior(input.node, 'networkVolumes') ? ', nfs' : '';
    throw new Error(
      `volume "${volume.name}" is of kind ${volumeKind(volume)}, which this node agent cannot set up; ` +
        `use hostPath, emptyDir, configMap, secret, downwardAPI, projected${network} or image`,
    );
  }
  const groupId = input.pod.spec.securityContext?.fsGroup ?? null;
  const { name } = volume;
  if (emptyDir) {
    const mount = mediumMount(emptyDir, input.pod, input.node);
    const isCounted = mount === null && isCountedByProject(input);
    return { kind: 'folder', name, path, mount, groupId, ...(isCounted ? { isCounted } : {}) };
  }
  const mount = volume.configMap ? null : { ...memoryMount(input.pod, input.node), optional: true };
  const files = payload(volume, input) ?? [];
  const folders = hasBehavior(input.node, 'nestedMounts') ? nestedFolders(name, input.pod) : [];
  return { kind: 'files', name, path, mount, groupId, files, ...(folders.length > 0 ? { folders } : {}) };
}

/**
 * Only volumes of a pod in a user namespace: elsewhere the root of a container could change the project of its files.
 */
const isCountedByProject = ({ pod, node }: PayloadInput): boolean =>
  node.countsByProject === true && pod.spec.hostUsers === false;

function pathOf(volume: Volume, { pod, node }: PayloadInput): string | null {
  const kind = (Object.keys(PLUGINS) as (keyof typeof PLUGINS)[]).find((each) => volume[each] !== undefined);
  return kind === undefined ? null : volumeDirectory(pod, node, PLUGINS[kind], volume.name);
}

const hostSetUp = (name: string, path: string, type: string): VolumeSetUp | null =>
  type === '' ? null : { kind: 'host', name, path, type: type as HostPathType };

const HUGE_PAGES = 'HugePages';

function mediumMount(emptyDir: NonNullable<Volume['emptyDir']>, pod: Pod, node: NodeSettings): VolumeMount | null {
  const { medium = '', sizeLimit } = emptyDir;
  if (medium === '') return null;
  if (medium === 'Memory') return memoryMount(pod, node, sizeLimit);
  if (medium === HUGE_PAGES || medium.startsWith(`${HUGE_PAGES}-`)) return hugePagesMount(medium, pod, node);
  throw new Error(`unknown storage medium "${medium}"; use Memory, HugePages, or none for the disk`);
}

/** Secrets must not be swapped out: `noswap` if the kernel has it. */
function memoryMount(pod: Pod, node: NodeSettings, sizeLimit?: string): VolumeMount {
  const bytes = memoryBytes(pod, node, sizeLimit);
  return { type: 'tmpfs', options: [`size=${bytes}`, 'noswap'], optional: false };
}

/** The minimum of the volume's limit, the pod's memory limit and the node's allocatable memory. */
function memoryBytes(pod: Pod, node: NodeSettings, sizeLimit: string | undefined): bigint {
  const allocatable = wholeUnits(nanoOf(node.allocatable?.['memory'] ?? node.memoryCapacityBytes));
  const bounds = [
    allocatable,
    memoryBound(pod, node),
    ...(sizeLimit === undefined ? [] : [wholeUnits(nanoOf(sizeLimit))]),
  ].filter((bytes) => bytes > 0n);
  return bounds.reduce((least, bytes) => (bytes < least ? bytes : least), allocatable);
}

/** Without a size limit, as upstream: the pod's cgroup limits its pages. */
function hugePagesMount(medium: string, pod: Pod, node: NodeSettings): VolumeMount {
  const pages = pageBytes(medium, pod);
  const known = (node.hugePageSizes ?? []).map((each) => wholeUnits(nanoOf(binarySize(each))));
  if (!known.includes(pages)) {
    throw new Error(
      `emptyDir medium ${medium}: this node has no huge pages of ${pages} bytes; ` +
        `reserve them in the kernel, or use medium Memory`,
    );
  }
  return { type: 'hugetlbfs', options: [`pagesize=${pages}`], optional: false };
}

/** The page size of `HugePages-2Mi`, or for plain `HugePages` the only size that the pod requests. */
function pageBytes(medium: string, pod: Pod): bigint {
  const requestedSizes = pageSizesOf(pod);
  const isPlain = medium === HUGE_PAGES;
  if (isPlain && requestedSizes.size > 1) {
    throw new Error(`medium: ${medium} can't be used if container requests multiple huge page sizes`);
  }
  const [pages] = isPlain ? requestedSizes : [wholeUnits(nanoOf(medium.slice(HUGE_PAGES.length + 1)))];
  if (pages !== undefined && requestedSizes.has(pages)) return pages;
  throw new Error(`medium ${medium}: hugePages storage requested, but there is no resource request for huge pages`);
}

/** The runtime writes `2MB` for two mebibytes. */
const binarySize = (size: string): string => size.replace(/([KMG])B$/, '$1i');

const PAGES = 'hugepages-';

/** Page sizes in bytes that the pod or one of its containers requests. */
function pageSizesOf(pod: Pod): ReadonlySet<bigint> {
  const resources = [pod.spec.resources, ...podContainers(pod).map((container) => container.resources)];
  const names = resources.flatMap((each) => Object.keys({ ...each?.requests, ...each?.limits }));
  const sizes = names.flatMap((name) => (name.startsWith(PAGES) ? [name.slice(PAGES.length)] : []));
  return new Set(sizes.map((size) => wholeUnits(nanoOf(size))));
}
