/**
 * `hostPath` volumes with a type: what must be there is checked, what may be made is made.
 *
 * The path is the manifest author's to choose, links included; it is not confined. It may lie on a file system that
 * does not answer, so only a few checks wait at a time, each with a limit: the threads that all file work of the agent
 * shares are never all stuck.
 */
import { constants, type Stats } from 'node:fs';
import { mkdir, open, stat } from 'node:fs/promises';
import { getSystemErrorMap } from 'node:util';
import { OperationError } from '../../kernel/json.ts';
import type { HostPathType } from '../../machines/operations/volume.ts';
import { errnoOf } from '../host/beneath.ts';

/** Of the four threads of libuv. */
export const STRANGER_CALLS_MAX = 2;
const STRANGER_TIMEOUT_MS = 5_000;
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

/** As Go writes an error of the system: `open /a/b: no such file or directory`. */
function goError(call: string, path: string, error: unknown): OperationError {
  const { errno } = error as { errno?: number };
  const [code, text] = getSystemErrorMap().get(errno ?? 0) ?? [errnoOf(error), String(error)];
  return new OperationError(`${call} ${path}: ${text}`, { code });
}

// ---- strangers ------------------------------------------------------------------------------------------------------

let waiting = 0;

/** Does what may never come back; gives up on it after a while, and refuses when too many are stuck already. */
export async function withStranger<T>(what: string, work: () => Promise<T>, timeoutMs = STRANGER_TIMEOUT_MS) {
  if (waiting >= STRANGER_CALLS_MAX) {
    throw new OperationError(`not looking at ${what}: other file systems do not answer`, {
      code: 'EBUSY',
      retriable: true,
    });
  }
  waiting++;
  const done = work().finally(() => waiting--);
  return await inTime(done, what, timeoutMs);
}

async function inTime<T>(done: Promise<T>, what: string, timeoutMs: number): Promise<T> {
  const deadline = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const message = `${what} did not answer within ${timeoutMs} ms`;
    deadline.reject(new OperationError(message, { code: 'ETIMEDOUT', retriable: true }));
  }, timeoutMs);
  try {
    return await Promise.race([done, deadline.promise]);
  } finally {
    clearTimeout(timer);
  }
}
