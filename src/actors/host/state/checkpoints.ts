/**
 * `host.readCheckpoints` and `host.writeCheckpoint`: the checkpoint files of a kubelet's resource managers below its
 * root directory.
 *
 * Invariants: a reader finds the old file or the new one, never a part; a write that fails leaves nothing.
 */
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Port } from '../../../kernel/operation.ts';
import type { hostOperations } from '../../../machines/model/operations/host.ts';
import { readTextFile } from '../files.ts';

type Operations = typeof hostOperations;

/** Far above the checkpoints of any node's pods. */
const CHECKPOINT_MAX_BYTES = 16 * 1_024 * 1_024;
const OWNER_ONLY = 0o600;
const FOLDER_MODE = 0o750;

export const readCheckpoints: Port<Operations['host.readCheckpoints']> = async (call) => {
  const read = call.input.paths.map((path) =>
    readTextFile({ ...call, input: { path, maxBytes: CHECKPOINT_MAX_BYTES } }),
  );
  return { contents: (await Promise.all(read)).map(({ content }) => content) };
};

export const writeCheckpoint: Port<Operations['host.writeCheckpoint']> = async ({ id, input: { path, content } }) => {
  await replaceFile(path, content, id);
  return null;
};

/** Replaces a file so that it survives a crash of the machine right after. `id` makes the temporary name unique. */
export async function replaceFile(path: string, content: string, id: number): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
  const draft = join(folder, `.${basename(path)}.${process.pid}.${id}`);
  try {
    await writeSynced(draft, content);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  const directory = await open(folder, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

async function writeSynced(path: string, content: string): Promise<void> {
  const file = await open(path, 'w', OWNER_ONLY);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}
