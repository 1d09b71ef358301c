/**
 * `volume.setUp`: sets up the volumes of a pod according to its plan: the folder of each volume below the pod's, its
 * file system, and the mark of a finished volume; and checks the types of `hostPath` volumes, and creates missing ones.
 *
 * Decides: a volume that already has its file system keeps it.
 *
 * Invariants: a failed volume is reported and delays no other; secrets are opened only here; owner and permissions of a
 * writable volume are set once, then they belong to its containers; links below the pod's folder are never followed.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, type Stats } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir, stat } from 'node:fs/promises';
import pLimit from 'p-limit';
import { isSecretHandle, type SecretHandle, type Vault } from '../../kernel/journal/secrets.ts';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type {
  HostPathType,
  VolumeFailure,
  VolumeFile,
  VolumeMount,
  VolumeSetUp,
  VolumesSetUp,
  volumeOperations,
} from '../../machines/model/operations/volume.ts';
import { goError } from '../go-errors.ts';
import { boundedCall } from '../host/bounded-calls.ts';
import { makeFolder, openParent, type Place, RootFolder } from '../host/root-folder.ts';
import { writeAtomically } from './atomic-writer.ts';
import { bindDevice, linkDevice } from './block-device.ts';
import { bindLocal, DeviceFailure, LOCAL_STEP, SourceMissing, type Unshareable } from './local-volume.ts';
import { type Mounter, mountsBelow, realPath } from './mounter.ts';
import { mountNFS, type NetworkPrograms, NFS_AT_ONCE, type NFSVolume } from './network-volume.ts';
import type { Projects } from './projects.ts';
import { fdPath, shareTree, withFolder } from './tree.ts';

type Input = InputOf<(typeof volumeOperations)['volume.setUp']>;
type Folder = Extract<VolumeSetUp, { kind: 'folder' }>;
type Host = Extract<VolumeSetUp, { kind: 'host' }>;
type Files = Extract<VolumeSetUp, { kind: 'files' }>;
/** The pod whose volumes these are. */
type PodPlace = Pick<Input, 'root' | 'podDirectory'>;

const DEVICE_STEP = 'MountVolume.MountDevice';

export interface SetUpTools {
  readonly mounter: Mounter;
  readonly vault: Vault;
  readonly projects: Projects;
  /** Absent: the system's. */
  readonly network?: NetworkPrograms;
  /**
   * By the pod's folder, the paths of the host that were checked for the pod: only once, because the pod may change
   * their permissions.
   */
  readonly given: Map<string, Set<string>>;
}

export async function setUpVolumes(
  { root, podDirectory, volumes }: Input,
  tools: SetUpTools,
  signal: AbortSignal,
): Promise<VolumesSetUp> {
  const atOnce = pLimit(NFS_AT_ONCE);
  const mountOf = (volume: NFSVolume) => atOnce(() => mountNFS(root, volume, signal, tools.network));
  const results = await Promise.all(
    volumes.map(async (volume): Promise<Unshareable & { failed?: VolumeFailure }> => {
      try {
        signal.throwIfAborted();
        if (volume.kind !== 'nfs') return await setUp({ root, podDirectory }, volume, tools);
        await mountOf(volume);
        return {};
      } catch (error) {
        return { failed: failureOf(volume, error) };
      }
    }),
  );
  const failed = results.flatMap((each) => each.failed ?? []);
  const kept = results.flatMap((each) => each.kept ?? []);
  const unshared = results.flatMap((each) => each.unshared ?? []);
  return { failed, ...(kept.length > 0 && { kept }), ...(unshared.length > 0 && { unshared }) };
}

/** Events name the PersistentVolume, where there is one, and the attempted step. */
function failureOf(volume: VolumeSetUp, error: unknown): VolumeFailure {
  const failure = { name: volume.name, message: messageOf(error) };
  if (volume.kind === 'device') return { ...failure, spec: volume.spec, step: 'MapVolume.MapBlockVolume' };
  if (volume.kind === 'local') {
    const step = error instanceof SourceMissing ? LOCAL_STEP : error instanceof DeviceFailure ? DEVICE_STEP : undefined;
    return { ...failure, spec: volume.spec, ...(step === undefined ? {} : { step }) };
  }
  return (volume.kind === 'host' || volume.kind === 'nfs') && volume.spec !== undefined
    ? { ...failure, spec: volume.spec }
    : failure;
}

type OnNode = Exclude<VolumeSetUp, NFSVolume>;

async function setUp({ root, podDirectory }: PodPlace, volume: OnNode, tools: SetUpTools): Promise<Unshareable> {
  switch (volume.kind) {
    case 'local':
      return await bindLocal(root, volume, tools.mounter);
    case 'folder':
      return await shareOnce({ root, podDirectory }, volume, tools);
    case 'host':
      await checkHostPathOnce(podDirectory, volume, tools.given);
      break;
    case 'device':
      await linkDevice(root, volume.link, volume.device);
      await bindDevice(root, volume.map, volume.device, tools.mounter);
      break;
    case 'files':
      await withVolume(root, volume, tools.mounter, (folder) => fill(folder, volume, tools.vault));
  }
  return {};
}

async function withVolume<T>(
  root: string,
  { path, mount }: Folder | Files,
  mounter: Mounter,
  use: (folder: FileHandle) => Promise<T>,
): Promise<T> {
  makeVolumeFolder(root, path);
  const place = openParent(root, path);
  if (!place) throw new OperationError(`${path} does not exist`, { code: 'ENOENT' });
  try {
    if (mount !== null) await mountOnce(place, mount, mounter);
    return await withFolder(place.path, use);
  } finally {
    place.folder.close();
  }
}

/**
 * Checks a path of the host only before the pod starts: a mounted socket may disappear later while its server restarts.
 */
async function checkHostPathOnce(
  podDirectory: string,
  { path, type }: Host,
  given: SetUpTools['given'],
): Promise<void> {
  const has = given.get(podDirectory) ?? new Set();
  given.set(podDirectory, has);
  const check = `${type} ${path}`;
  if (has.has(check)) return;
  await boundedCall(`hostPath ${path}`, () => checkHostPath(path, type));
  has.add(check);
}

/**
 * Changes the group of a volume once: afterwards containers may have set other permissions (a database rejects a folder
 * that others may read).
 */
async function shareOnce({ root, podDirectory }: PodPlace, volume: Folder, tools: SetUpTools): Promise<Unshareable> {
  const mark = readyMark(podDirectory, volume.path);
  if (foundAt(root, mark)?.isFile() && (await isThere(root, volume))) return {};
  const { groupId, path } = volume;
  const unshared = await withVolume(root, volume, tools.mounter, async (folder) => {
    if (volume.isCounted && (await isEmpty(folder))) tools.projects.give(folder.fd, await realPath(root, path));
    return groupId === null ? null : await shareTree(folder, { groupId, readOnly: false, always: true }, path);
  });
  writeMark(root, mark);
  return unshared === null ? {} : { unshared };
}

const isEmpty = async (folder: FileHandle): Promise<boolean> => (await readdir(fdPath(folder))).length === 0;

async function isThere(root: string, { path, mount }: Folder): Promise<boolean> {
  if (mount === null) return foundAt(root, path)?.isDirectory() === true;
  const point = await realPath(root, path);
  return (await mountsBelow(point)).includes(point);
}

async function fill(folder: FileHandle, volume: Files, vault: Vault): Promise<void> {
  const ownership = volume.groupId === null ? null : { groupId: volume.groupId, readOnly: true };
  const files = volume.files.map(({ content, ...file }) => ({ ...file, bytes: bytesOf(content, vault) }));
  if (ownership !== null) await shareTop(folder, ownership.groupId);
  await writeAtomically(folder, { files, folders: volume.folders ?? [] }, ownership);
}

/** Sets the group of an empty volume's root folder, which its links inherit. */
async function shareTop(folder: FileHandle, groupId: number): Promise<void> {
  const { uid, mode } = await folder.stat();
  await folder.chown(uid, groupId);
  await folder.chmod((mode & 0o7777) | 0o2000);
}

function bytesOf(content: VolumeFile['content'], vault: Vault): Buffer {
  const opened = (value: string | SecretHandle) => (isSecretHandle(value) ? vault.open(value) : value);
  if ('joined' in content) return Buffer.from(content.joined.map(opened).join(''));
  return 'text' in content ? Buffer.from(opened(content.text)) : Buffer.from(opened(content.base64), 'base64');
}

const FOLDER_MODE = 0o755;
const FILE_MODE = 0o644;

const KINDS: Readonly<Record<HostPathType, readonly [is: (found: Stats) => boolean, words: string]>> = {
  DirectoryOrCreate: [(found) => found.isDirectory(), 'a directory'],
  Directory: [(found) => found.isDirectory(), 'a directory'],
  FileOrCreate: [(found) => found.isFile(), 'a file'],
  File: [(found) => found.isFile(), 'a file'],
  Socket: [(found) => found.isSocket(), 'a socket file'],
  CharDevice: [(found) => found.isCharacterDevice(), 'a character device'],
  BlockDevice: [(found) => found.isBlockDevice(), 'a block device'],
};

/**
 * Checks that the path of a `hostPath` volume with a type exists, or creates it. The author of the manifest chooses the
 * path, links included; it is not confined. It may be on a hanging file system: see `host/bounded-calls.ts`.
 */
async function checkHostPath(path: string, type: HostPathType): Promise<void> {
  const found = (await existing(path)) ?? (await made(path, type));
  const [is, words] = KINDS[type];
  if (found === null || !is(found)) throw new OperationError(`hostPath type check failed: ${path} is not ${words}`);
}

async function existing(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return null;
    throw goError('stat', path, error);
  }
}

async function made(path: string, type: HostPathType): Promise<Stats | null> {
  try {
    if (type === 'DirectoryOrCreate') await mkdir(path, { recursive: true, mode: FOLDER_MODE });
    else if (type === 'FileOrCreate') await createFile(path);
    else return null;
  } catch (error) {
    throw goError(type === 'DirectoryOrCreate' ? 'mkdir' : 'open', path, error);
  }
  return await existing(path);
}

async function createFile(path: string): Promise<void> {
  const handle = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_NONBLOCK, FILE_MODE);
  await handle.close();
}

/** The mode of folders above a volume; the volume itself is open to any user of a container. */
const PARENT_MODE = 0o750;
const PLUGIN_MODE = 0o755;
const VOLUME_MODE = 0o777;

/** `<pod>/volumes/<plugin>/<name>`, each with its own permissions. */
function makeVolumeFolder(root: string, path: string): void {
  const plugin = path.slice(0, path.lastIndexOf('/'));
  const below = new RootFolder(root, PARENT_MODE);
  try {
    makeFolder(below.to(plugin), PLUGIN_MODE);
    makeFolder(below.to(path), VOLUME_MODE);
  } finally {
    below.close();
  }
}

async function mountOnce(place: Place, mount: VolumeMount, mounter: Mounter): Promise<void> {
  if (await isFileSystem(place)) return;
  try {
    await withFolder(place.path, (folder) => mountOn(fdPath(folder), mount, mounter));
  } catch (error) {
    if (!(mount.optional && isForbidden(error))) throw explained(error, mount);
  }
}

/**
 * Whether the folder has a file system of its own, as every mount of a `medium` is. The table of all mounts would say
 * it too, but each volume of a pod asks, and a node has thousands of mounts.
 */
async function isFileSystem({ folder, path }: Place): Promise<boolean> {
  const { dev } = await lstat(path);
  return dev !== fstatSync(folder.fd).dev;
}

/** Kernels before 6.4 do not know `noswap`. */
async function mountOn(target: string, { type, options }: VolumeMount, mounter: Mounter): Promise<void> {
  try {
    await mounter.mount(type, target, options);
  } catch (error) {
    const known = options.filter((option) => option !== 'noswap');
    if (codeOf(error) !== 'EINVAL' || known.length === options.length) throw error;
    await mounter.mount(type, target, known);
  }
}

const isForbidden = (error: unknown): boolean => codeOf(error) === 'EPERM' || codeOf(error) === 'EACCES';

function explained(error: unknown, { type }: VolumeMount): Error {
  const why = messageOf(error);
  const hint = isForbidden(error) ? '; the agent needs CAP_SYS_ADMIN to mount: run it as root' : '';
  return new OperationError(`cannot mount ${type}: ${why}${hint}`, { code: codeOf(error) ?? 'EIO' });
}

const MARK_MODE = 0o644;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW;

/**
 * Marks a volume that containers of its pod may use already: an empty file `ready` in the plug-in's folder of the pod,
 * as upstream. `<pod>/volumes/<plugin>/<name>` has `<pod>/plugins/<plugin>/<name>/ready`.
 *
 * Invariant: a marked volume is completely set up.
 */
const readyMark = (podDirectory: string, volumePath: string): string =>
  `${podDirectory}/plugins${volumePath.slice(`${podDirectory}/volumes`.length)}/ready`;

/** The file or folder at this path, reached through no link; `null`: there is none. */
function foundAt(root: string, path: string): Stats | null {
  const place = openParent(root, path);
  if (!place) return null;
  try {
    return lstatSync(place.path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  } finally {
    place.folder.close();
  }
}

function writeMark(root: string, mark: string): void {
  const place = openParent(root, mark, PARENT_MODE);
  if (!place) return;
  try {
    closeSync(openSync(place.path, CREATE, MARK_MODE));
  } finally {
    place.folder.close();
  }
}
