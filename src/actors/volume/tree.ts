/**
 * Removes trees and changes their group, name by name on open folders.
 *
 * Invariants: links are never followed, even if names are replaced meanwhile; nothing on another file system is
 * removed; names are arbitrary bytes.
 */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, chown, type FileHandle, lstat, open, readdir, rename, rmdir, unlink } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { codeOf } from '../../kernel/thrown.ts';
import type { Sharing, Unshared } from '../../machines/model/operations/volume.ts';
import { FOLDER, O_PATH } from '../host/root-folder.ts';

const SETGID = 0o2000;

/** The path of an open file or folder, or of a name in the folder. Other processes of this machine can use the path. */
export const fdPath = ({ fd }: { readonly fd: number }, name = ''): string =>
  `/proc/${process.pid}/fd/${fd}${name === '' ? '' : `/${name}`}`;

/** Opens the folder for `use`, never through a link. */
export async function withFolder<T>(path: string, use: (folder: FileHandle) => Promise<T>): Promise<T> {
  const folder = await open(path, FOLDER);
  try {
    return await use(folder);
  } finally {
    await folder.close();
  }
}

const namesIn = (folder: FileHandle): Promise<Buffer[]> => readdir(fdPath(folder), { encoding: 'buffer' });
const inside = (folder: FileHandle, name: Buffer): Buffer => Buffer.concat([Buffer.from(`${fdPath(folder)}/`), name]);

/**
 * Nested folders that are open at once. A container may have made a million levels, and each costs a descriptor of the
 * agent.
 */
const REMOVED_LEVELS_MAX = 64;
/** The limit of levels: a program has a few dozen. Upstream fails at a path of 4,096 bytes. */
const SHARED_LEVELS_MAX = 256;

/** Removes the tree at `path`, a name in an open folder; a missing tree is no error. */
export const removeTree = (path: string | Buffer, device?: number): Promise<void> =>
  removeEntry(path, device, async (folder, dev) => await new Removing(folder, dev).run());

async function removeEntry(
  path: string | Buffer,
  device: number | undefined,
  empty: (folder: FileHandle, device: number) => Promise<void>,
): Promise<void> {
  try {
    const found = await lstat(path);
    if (!found.isDirectory()) return await unlink(path);
    if (device !== undefined && found.dev !== device) throw mounted(path);
    const folder = await open(path, FOLDER);
    try {
      const { dev } = await folder.stat();
      if (device !== undefined && dev !== device) throw mounted(path);
      await empty(folder, dev);
    } finally {
      await folder.close();
    }
    await rmdir(path);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}

/** Deeply nested entries are moved to the top and removed from there. */
class Removing {
  readonly #top: FileHandle;
  readonly #device: number;
  readonly #deep: Buffer[] = [];

  constructor(top: FileHandle, device: number) {
    this.#top = top;
    this.#device = device;
  }

  async run(): Promise<void> {
    await this.#empty(this.#top, 1);
    for (let name = this.#deep.pop(); name !== undefined; name = this.#deep.pop())
      await this.#remove(this.#top, name, 1);
  }

  async #empty(folder: FileHandle, levels: number): Promise<void> {
    for (const name of await namesIn(folder)) await this.#remove(folder, name, levels);
  }

  #remove(folder: FileHandle, name: Buffer, levels: number): Promise<void> {
    return removeEntry(inside(folder, name), this.#device, async (found) => {
      if (levels < REMOVED_LEVELS_MAX) return await this.#empty(found, levels + 1);
      for (const each of await namesIn(found)) await this.#moveUp(inside(found, each));
    });
  }

  async #moveUp(path: Buffer): Promise<void> {
    const name = Buffer.from(randomUUID());
    await rename(path, inside(this.#top, name));
    this.#deep.push(name);
  }
}

function mounted(path: string | Buffer): OperationError {
  const name = String(path).split('/').at(-1);
  const message = `not removing "${name}": it is on another file system, and what is there is not ours to delete`;
  return new OperationError(message, { code: 'EBUSY', retriable: true });
}

/** The group of a tree, and its rights: all, or all except write. */
export interface Ownership {
  readonly groupId: number;
  readonly readOnly: boolean;
  /** Also changes files below a folder that belongs to the group already. */
  readonly always?: boolean;
}

/** The mode of a file that a group shall share: folders pass their group on to new entries. */
export function sharedMode(mode: number, isFolder: boolean, readOnly: boolean): number {
  const fileMode = mode | (readOnly ? 0o440 : 0o660);
  return isFolder ? fileMode | 0o110 | SETGID : fileMode;
}

/** Files processed in parallel, at most one for each thread that Node reads with. */
const TOGETHER = 8;

/**
 * Changes the group of a tree, normally only if its top has another one. Entries that cannot be changed are skipped, as
 * upstream: the result is the first of them below `path`. Unreadable entries are errors.
 */
export async function shareTree(folder: FileHandle, ownership: Ownership, path: string): Promise<Unshared | null> {
  const top = await folder.stat();
  const topMode = sharedMode(top.mode & 0o7777, true, ownership.readOnly);
  const isShared = top.gid === ownership.groupId && (top.mode & 0o7777) === topMode;
  if (isShared && ownership.always !== true) return null;
  const giving = new OwnershipChange(path, ownership);
  underWay.add(giving);
  try {
    await giving.below(folder, path);
    await giving.give(folder, path);
  } finally {
    underWay.delete(giving);
  }
  return giving.unshared;
}

const underWay = new Set<OwnershipChange>();

/** The trees below `directory` that are being given to a group right now. */
export const sharingsBelow = (directory: string): Sharing[] =>
  [...underWay].filter(({ path }) => path.startsWith(`${directory}/`)).map((giving) => giving.progress());

class OwnershipChange {
  unshared: Unshared | null = null;
  readonly path: string;
  readonly #ownership: Ownership;
  readonly #sinceMs = performance.now();
  #files = 0;

  constructor(path: string, ownership: Ownership) {
    this.path = path;
    this.#ownership = ownership;
  }

  progress(): Sharing {
    return { path: this.path, files: this.#files, forMs: Math.round(performance.now() - this.#sinceMs) };
  }

  /**
   * Changes the entries of a folder, then one subfolder after the other, because each open folder needs a descriptor.
   * When it ends, no operation in `folder` is in progress.
   */
  async below(folder: FileHandle, path: string, levels = 1): Promise<void> {
    if (levels > SHARED_LEVELS_MAX)
      throw new OperationError(
        `${this.path} has folders below more than ${SHARED_LEVELS_MAX} others: it cannot be given`,
      );
    const names = await namesIn(folder);
    const folders: Buffer[] = [];
    const work = async (): Promise<void> => {
      for (let name = names.pop(); name !== undefined; name = names.pop()) {
        if (await this.#one(inside(folder, name), `${path}/${String(name)}`)) folders.push(name);
      }
    };
    for (const end of await Promise.allSettled(Array.from({ length: TOGETHER }, work))) {
      if (end.status === 'rejected') throw end.reason;
    }
    for (const name of folders) {
      const next = await open(inside(folder, name), FOLDER);
      try {
        await this.below(next, `${path}/${String(name)}`, levels + 1);
      } finally {
        await next.close();
      }
    }
  }

  /** Resolves with whether the entry is a folder. */
  async #one(name: Buffer, path: string): Promise<boolean> {
    const handle = await open(name, O_PATH | constants.O_NOFOLLOW);
    try {
      return await this.give(handle, path);
    } finally {
      await handle.close();
    }
  }

  /**
   * Changes group and mode; resolves with whether the entry is a folder. The mode is computed from the mode before,
   * because a change of the group clears the set-user-ID and set-group-ID bits.
   */
  async give(handle: FileHandle, path: string): Promise<boolean> {
    const found = await handle.stat();
    const { groupId, readOnly } = this.#ownership;
    this.#files += 1;
    await chown(fdPath(handle), -1, groupId).catch(this.#note('Lchown failed', path));
    if (found.isSymbolicLink()) return false;
    const mode = sharedMode(found.mode & 0o7777, found.isDirectory(), readOnly);
    await chmod(fdPath(handle), mode).catch(this.#note('chmod failed', path));
    return found.isDirectory();
  }

  #note(text: Unshared['text'], path: string): (error: unknown) => void {
    return (error) => {
      this.unshared = { text, path, err: codeOf(error) ?? '', ...this.unshared, more: (this.unshared?.more ?? -1) + 1 };
    };
  }
}
