/** The disk operations of the journal, replaceable in tests by a broken disk. */
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { UNFINISHED } from './layout.ts';

export type Durability =
  /** The operating system decides when to write: a power failure may lose the last half minute. */
  | 'none'
  /** The disk is synced once a second: a power failure may lose the last second. */
  | 'second';

export interface Disk {
  open(path: string, flags: string, mode: number): Promise<FileHandle>;
}

export const realDisk: Disk = { open };

/** Readable by the owner only: a journal holds the names and the settings of everything that ran. */
export const PRIVATE = 0o600;

/** Writes all bytes at a position of the file, in as many calls as necessary. */
export async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** Replaces a file atomically. */
export async function writeWhole(disk: Disk, path: string, text: string, durability: Durability): Promise<void> {
  const unfinished = `${path}${UNFINISHED}`;
  try {
    const handle = await disk.open(unfinished, 'w', PRIVATE);
    try {
      await writeAll(handle, Buffer.from(text), 0);
      if (durability === 'second') await handle.datasync();
    } finally {
      await handle.close();
    }
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
}

/** Makes the names of new files survive a power failure. */
export async function syncDirectory(disk: Disk, directory: string): Promise<void> {
  const handle = await disk.open(directory, 'r', PRIVATE);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
