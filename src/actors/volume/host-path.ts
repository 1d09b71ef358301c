/** The paths of the host that pods mount as `hostPath` volumes: their types are checked, missing ones created. */
import { constants, type Stats } from 'node:fs';
import { mkdir, open, stat } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import type { HostPathType } from '../../machines/model/operations/volume.ts';
import { goError } from '../go-errors.ts';
import { errnoOf } from '../host/root-folder.ts';

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
export async function checkHostPath(path: string, type: HostPathType): Promise<void> {
  const found = (await existing(path)) ?? (await made(path, type));
  const [is, words] = KINDS[type];
  if (found === null || !is(found)) throw new OperationError(`hostPath type check failed: ${path} is not ${words}`);
}

async function existing(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return null;
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
