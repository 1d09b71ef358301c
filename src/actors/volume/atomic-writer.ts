/**
 * Replaces the files of a volume atomically.
 *
 * The layout is Kubernetes': the files are in a folder `..<time>.<random>`; `..data` is a link to it, changed by one
 * rename; each visible name is a link through `..data`.
 *
 * Invariants: equal content changes nothing on disk; the folder of `..data` is complete; nothing outside the open
 * folder is touched; a failed write leaves nothing, and leftovers of an interrupted one are removed by the next one; a
 * folder for a mount is never replaced.
 */
import { randomInt } from 'node:crypto';
import { constants } from 'node:fs';
import {
  type FileHandle,
  lchown,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  symlink,
} from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { codeOf } from '../../kernel/thrown.ts';
import { ignoring } from '../host/root-folder.ts';
import { fdPath, type Ownership, removeTree, sharedMode, withFolder } from './tree.ts';

export interface PlainFile {
  readonly path: string;
  readonly mode: number;
  /** The owner; absent: the agent. Only root can change the owner of a file. */
  readonly userId?: number;
  readonly bytes: Buffer;
}

const DATA = '..data';
const DATA_NEW = '..data_tmp';
/** Nesting of folders: each is held open, and a process has a limit of descriptors. */
const LEVELS_MAX = 256;
const FOLDER_MODE = 0o755;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
/** The limit of the random number in a folder's name: ten digits, as in Go's mkdtemp. */
const RANDOM_MAX = 2 ** 32;

export interface WrittenContent {
  readonly files: readonly PlainFile[];
  /**
   * Folders for mounts of other volumes. They are beside the files, and stay as they are when these change: a container
   * would lose the mount with its folder.
   */
  readonly folders: readonly string[];
}

export async function writeAtomically(
  volume: FileHandle,
  { files, folders }: WrittenContent,
  ownership: Ownership | null,
): Promise<void> {
  for (const path of [...files.map((file) => file.path), ...folders]) refuseEscape(path);
  const kept = await makeFolders(volume, { files, folders }, ownership);
  let current = await currentFolder(volume);
  const ownedFiles = files.map((file) => ({ ...file, mode: modeOf(file, ownership) }));
  if (current === null || !(await hasExactly(volume, current, ownedFiles))) {
    const folder = `..${stamp(new Date())}.${randomInt(RANDOM_MAX)}`;
    try {
      await writeFolder(volume, folder, ownedFiles, ownership);
      await removeTree(fdPath(volume, DATA_NEW));
      await symlink(folder, fdPath(volume, DATA_NEW));
      await rename(fdPath(volume, DATA_NEW), fdPath(volume, DATA));
      current = folder;
    } catch (error) {
      // Repeated failures must not fill a disk, or a tmpfs, further.
      await removeTree(fdPath(volume, folder)).catch(() => {});
      throw error;
    }
  }
  const links = files.map((file) => [topOf(file.path), file] as const).filter(([name]) => !kept.has(name));
  await linkNames(volume, new Map(links), new Set([DATA, current, ...kept]));
}

const topOf = (path: string): string => path.split('/', 1)[0] ?? path;

/**
 * Creates the folders for mounts, and returns their names in the volume. A name of a file stays the file's: it is a
 * place for a mount itself.
 */
async function makeFolders(
  volume: FileHandle,
  { files, folders }: WrittenContent,
  ownership: Ownership | null,
): Promise<ReadonlySet<string>> {
  const named = new Set(files.map(({ path }) => path));
  const wanted = folders.filter((path) => !named.has(topOf(path)));
  const tops = new Set(wanted.map(topOf));
  for (const name of tops) {
    const found = await lstat(fdPath(volume, name)).catch(ignoring('ENOENT'));
    if (found !== null && !found.isDirectory()) await removeTree(fdPath(volume, name));
  }
  for (const path of wanted) await inFolder(volume, path.split('/'), ownership, async () => {});
  return tops;
}

/** Fails for a path that leads out of the folder, or to files that the writer itself keeps there. */
function refuseEscape(path: string): void {
  const names = path.split('/');
  const isOdd = names.some((name) => ['', '.', '..'].includes(name) || name.includes('\0'));
  if (names.length > LEVELS_MAX)
    throw new OperationError(
      `refusing to write a file below ${names.length - 1} folders: at most ${LEVELS_MAX} levels are`,
      {
        code: 'ENAMETOOLONG',
      },
    );
  if (!isOdd && !path.startsWith('..')) return;
  throw new OperationError(`refusing to write ${JSON.stringify(path)}: it is no path below a volume`, {
    code: 'EXDEV',
  });
}

const modeOf = ({ mode }: PlainFile, ownership: Ownership | null): number =>
  ownership === null ? mode : sharedMode(mode, false, ownership.readOnly);

/** `2026_11_21_05_30_00`, UTC. */
const stamp = (time: Date): string => time.toISOString().slice(0, 19).replaceAll(/[-T:]/g, '_');

async function currentFolder(volume: FileHandle): Promise<string | null> {
  try {
    const name = await readlink(fdPath(volume, DATA));
    const found = await lstat(fdPath(volume, name));
    return /^\.\.[0-9_.]+$/.test(name) && found.isDirectory() ? name : null;
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'EINVAL') return null;
    throw error;
  }
}

async function writeFolder(
  volume: FileHandle,
  name: string,
  files: readonly PlainFile[],
  ownership: Ownership | null,
): Promise<void> {
  await mkdir(fdPath(volume, name), FOLDER_MODE);
  await withFolder(fdPath(volume, name), async (folder) => {
    await shareFolder(folder, ownership);
    for (const file of files) await writeFile(folder, file, ownership);
  });
}

async function writeFile(folder: FileHandle, file: PlainFile, ownership: Ownership | null): Promise<void> {
  const names = file.path.split('/');
  const name = names.pop() ?? file.path;
  await inFolder(folder, names, ownership, (inner) => writeOne(fdPath(inner, name), file, ownership));
}

/** Opens the folder with these names, one below the other, for `use`; missing ones are created. */
async function inFolder(
  folder: FileHandle,
  [name, ...rest]: readonly string[],
  ownership: Ownership | null,
  use: (inner: FileHandle) => Promise<void>,
): Promise<void> {
  if (name === undefined) return await use(folder);
  const isNew = await makeFolder(fdPath(folder, name));
  await withFolder(fdPath(folder, name), async (next) => {
    if (isNew) await shareFolder(next, ownership);
    await inFolder(next, rest, ownership, use);
  });
}

const agentId = (): number => process.getuid?.() ?? 0;

const ownerOf = ({ userId }: PlainFile): number => (agentId() === 0 ? (userId ?? agentId()) : agentId());

/** chown(2) leaves the group as it is. */
const UNCHANGED = -1;

async function writeOne(path: string, file: PlainFile, ownership: Ownership | null): Promise<void> {
  const { mode, bytes } = file;
  const handle = await open(path, CREATE, 0o600);
  try {
    await handle.writeFile(bytes);
    // A new file is the agent's already.
    if (ownership !== null || ownerOf(file) !== agentId())
      await handle.chown(ownerOf(file), ownership?.groupId ?? UNCHANGED);
    await handle.chmod(mode);
  } finally {
    await handle.close();
  }
}

async function makeFolder(path: string): Promise<boolean> {
  try {
    await mkdir(path, FOLDER_MODE);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

async function shareFolder(folder: FileHandle, ownership: Ownership | null): Promise<void> {
  if (ownership !== null) await folder.chown(agentId(), ownership.groupId);
  await folder.chmod(ownership === null ? FOLDER_MODE : sharedMode(FOLDER_MODE, true, ownership.readOnly));
}

/** Whether the folder has exactly these files. */
async function hasExactly(volume: FileHandle, name: string, files: readonly PlainFile[]): Promise<boolean> {
  const unmatched = new Map(files.map((file) => [file.path, file]));
  const isSame = await withFolder(fdPath(volume, name), (folder) => sameFiles(folder, '', unmatched));
  return isSame && unmatched.size === 0;
}

/** Removes the files that it finds from `wanted`; false at the first difference. */
async function sameFiles(folder: FileHandle, prefix: string, wanted: Map<string, PlainFile>): Promise<boolean> {
  for (const entry of await readdir(fdPath(folder), { withFileTypes: true })) {
    const path = `${prefix}${entry.name}`;
    const isSame = entry.isDirectory()
      ? await withFolder(fdPath(folder, entry.name), (inner) => sameFiles(inner, `${path}/`, wanted))
      : await isSameFile(fdPath(folder, entry.name), wanted.get(path));
    if (!isSame) return false;
    wanted.delete(path);
  }
  return true;
}

async function isSameFile(path: string, wanted: PlainFile | undefined): Promise<boolean> {
  if (wanted === undefined) return false;
  try {
    const handle = await open(path, READ_FLAGS);
    try {
      const found = await handle.stat();
      const isAlike = found.isFile() && found.uid === ownerOf(wanted) && (found.mode & 0o7777) === wanted.mode;
      return isAlike && found.size === wanted.bytes.length && (await readFile(handle)).equals(wanted.bytes);
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (codeOf(error) === 'ELOOP' || codeOf(error) === 'EACCES') return false;
    throw error;
  }
}

/** Creates the missing links, each with the owner of its file, and removes all other names except `kept`. */
async function linkNames(
  volume: FileHandle,
  names: ReadonlyMap<string, PlainFile>,
  kept: ReadonlySet<string>,
): Promise<void> {
  const found = new Set(await readdir(fdPath(volume)));
  for (const [name, file] of names) {
    const [link, target] = [fdPath(volume, name), `${DATA}/${name}`];
    const isNew = !found.has(name);
    if (isNew || !(await isLinkTo(link, target))) {
      if (!isNew) await removeTree(link);
      await symlink(target, link);
    }
    if (file.userId === undefined || (isNew && ownerOf(file) === agentId())) continue;
    const { uid } = await lstat(link);
    if (uid !== ownerOf(file)) await lchown(link, ownerOf(file), UNCHANGED);
  }
  for (const name of found) {
    if (!names.has(name) && !kept.has(name)) await removeTree(fdPath(volume, name));
  }
}

async function isLinkTo(path: string, target: string): Promise<boolean> {
  try {
    return (await readlink(path)) === target;
  } catch (error) {
    if (codeOf(error) === 'EINVAL') return false;
    throw error;
  }
}
