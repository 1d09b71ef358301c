/**
 * `volume.setUp`: makes the volumes of a pod as its plan has them.
 *
 * Decides: nothing below the pod's folder is reached through a link; a volume that has its file system already keeps
 * it. Invariants: one volume's failure is told and holds up no other; secrets are opened here and nowhere else.
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isSecretHandle, type SecretHandle, type Vault } from '../../kernel/journal/index.ts';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf } from '../../kernel/operation.ts';
import type {
  VolumeFailure,
  VolumeFile,
  VolumeMount,
  VolumeSetUp,
  volumeOperations,
} from '../../machines/operations/volume.ts';
import { makeFolder, openParent } from '../host/beneath.ts';
import { withStranger } from '../host/strangers.ts';
import { writeAtomically } from './atomic-writer.ts';
import { bindDevice, linkDevice } from './block-device.ts';
import { checkHostPath } from './host-path.ts';
import { type Mounter, mountsBelow, realPath } from './mounter.ts';
import { fdPath, shareTree } from './tree.ts';

type Input = InputOf<(typeof volumeOperations)['volume.setUp']>;
type OwnVolume = Exclude<VolumeSetUp, { kind: 'host' | 'device' }>;

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** Folders on the way; any user of a container may use the volume itself. */
const WAY_MODE = 0o750;
const PLUGIN_MODE = 0o755;
const VOLUME_MODE = 0o777;

export interface SetUpTools {
  readonly mounter: Mounter;
  readonly vault: Vault;
}

export async function setUpVolumes(
  { root, volumes }: Input,
  tools: SetUpTools,
  signal: AbortSignal,
): Promise<{ failed: readonly VolumeFailure[] }> {
  const failed = await Promise.all(
    volumes.map(async (volume): Promise<VolumeFailure[]> => {
      try {
        signal.throwIfAborted();
        await setUp(root, volume, tools);
        return [];
      } catch (error) {
        const failure = { name: volume.name, message: error instanceof Error ? error.message : String(error) };
        return [
          volume.kind === 'device' ? { ...failure, spec: volume.spec, step: 'MapVolume.MapBlockVolume' } : failure,
        ];
      }
    }),
  );
  return { failed: failed.flat() };
}

async function setUp(root: string, volume: VolumeSetUp, tools: SetUpTools): Promise<void> {
  if (volume.kind === 'host') {
    const { path, type } = volume;
    return await withStranger(`hostPath ${path}`, () => checkHostPath(path, type));
  }
  if (volume.kind === 'device') {
    const { device, link, map } = volume;
    await linkDevice(root, link, device);
    return await bindDevice(root, map, device, tools.mounter);
  }
  await makeVolumeFolder(root, volume.path);
  if (volume.mount !== null) await mountOnce(root, volume.path, volume.mount, tools.mounter);
  const folder = await openFolder(root, volume.path);
  try {
    await fill(folder, volume, tools.vault);
  } finally {
    await folder.close();
  }
}

async function fill(folder: FileHandle, volume: OwnVolume, vault: Vault): Promise<void> {
  const readOnly = volume.kind === 'files';
  const ownership = volume.groupId === null ? null : { groupId: volume.groupId, readOnly };
  if (volume.kind === 'folder') {
    if (ownership !== null) await shareTree(folder, ownership);
    return;
  }
  const files = volume.files.map(({ content, ...file }) => ({ ...file, bytes: bytesOf(content, vault) }));
  await writeAtomically(folder, files, ownership);
  if (ownership !== null) await shareTop(folder, ownership.groupId);
}

/** The top of a written volume; what lies in it was given to the group as it was written. */
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

/** `<pod>/volumes/<plugin>/<name>`, each with its own permissions. */
async function makeVolumeFolder(root: string, path: string): Promise<void> {
  const plugin = path.slice(0, path.lastIndexOf('/'));
  for (const [each, mode] of [
    [plugin, PLUGIN_MODE],
    [path, VOLUME_MODE],
  ] as const) {
    const place = openParent(root, each, WAY_MODE);
    if (!place) continue;
    try {
      makeFolder(place, mode);
    } finally {
      place.folder.close();
    }
  }
}

async function openFolder(root: string, path: string): Promise<FileHandle> {
  const place = openParent(root, path);
  if (!place) throw new OperationError(`${path} does not exist`, { code: 'ENOENT' });
  try {
    return await open(place.path, FOLDER);
  } finally {
    place.folder.close();
  }
}

async function mountOnce(root: string, path: string, mount: VolumeMount, mounter: Mounter): Promise<void> {
  const point = await realPath(root, path);
  if ((await mountsBelow(point)).includes(point)) return;
  const folder = await openFolder(root, path);
  try {
    await mountOn(fdPath(folder), mount, mounter);
  } catch (error) {
    if (!(mount.optional && isForbidden(error))) throw explained(error, mount);
  } finally {
    await folder.close();
  }
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

const codeOf = (error: unknown): string | undefined => (error instanceof OperationError ? error.code : undefined);
const isForbidden = (error: unknown): boolean => codeOf(error) === 'EPERM' || codeOf(error) === 'EACCES';

function explained(error: unknown, { type }: VolumeMount): Error {
  const why = error instanceof Error ? error.message : String(error);
  const hint = isForbidden(error) ? '; the agent needs CAP_SYS_ADMIN to mount: run it as root' : '';
  return new OperationError(`cannot mount ${type}: ${why}${hint}`, { code: codeOf(error) ?? 'EIO' });
}
