/**
 * `csi.*` for block devices: their layout below `volumeDevices` is upstream's.
 *
 * Invariants: the record is on disk before the driver stages the device, and the link in the pod's folder before it
 * publishes it; both are removed only after the driver has confirmed the removal.
 */
import { rmdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Vault } from '../../kernel/journal/index.ts';
import type { InputOf } from '../../kernel/operation.ts';
import type { BlockMount, BlockStage, csiOperations } from '../../machines/model/operations/csi.ts';
import { errnoOf, inParent } from '../host/root-folder.ts';
import { bindDevice, isLinked, linkDevice, unbindDevice, unlinkDevice } from '../volume/block-device.ts';
import type { Mounter } from '../volume/mounter.ts';
import { removeTree } from '../volume/tree.ts';
import { makeTarget, readRecord, writeRecord } from './record.ts';
import { callDriver, callNodePublish, callNodeStage, unlessDone } from './volumes.ts';

type Operations = typeof csiOperations;
type BlockInput<Name extends 'csi.stage' | 'csi.unstage' | 'csi.publish' | 'csi.unpublish', Block> = InputOf<
  Operations[Name]
> & { readonly block: Block };

export async function stageBlock(
  input: BlockInput<'csi.stage', BlockStage>,
  vault: Vault,
  signal: AbortSignal,
): Promise<null> {
  const { root, directory, endpoint, data, request, block } = input;
  await writeRecord(root, directory, data);
  if (request === null) return null;
  await makeTarget(root, block.staging);
  await unlessDone(
    () => callNodeStage(endpoint, request, vault, signal),
    () => removeDevice(root, block),
  );
  return null;
}

export async function unstageBlock(
  { root, directory, endpoint, handle, isStaged, block }: BlockInput<'csi.unstage', BlockStage>,
  signal: AbortSignal,
): Promise<null> {
  if ((await readRecord(root, directory)) === null) return null;
  const request = { volume_id: handle, staging_target_path: block.staging };
  if (isStaged) await callDriver(endpoint, 'NodeUnstageVolume', request, signal);
  await removeDevice(root, block);
  return null;
}

/** The record is removed last, so that a failed removal is retried. */
async function removeDevice(root: string, { staging, published, folder }: BlockStage): Promise<void> {
  await inParent(root, staging, removeOnDevice);
  await inParent(root, published, (path) => rmdir(path).catch(nullIfMissing));
  await inParent(root, folder, removeOnDevice);
}

/** Removes a path without crossing into another file system. */
const removeOnDevice = async (path: string): Promise<void> => {
  const found = await stat(path).catch(nullIfMissing);
  if (found) await removeTree(path, found.dev);
};

const nullIfMissing = (error: unknown): null => {
  if (errnoOf(error) !== 'ENOENT') throw error;
  return null;
};

export async function publishBlock(
  input: BlockInput<'csi.publish', BlockMount>,
  { vault, mounter }: { readonly vault: Vault; readonly mounter: Mounter },
  signal: AbortSignal,
): Promise<null> {
  const { root, block } = input;
  await linkDevice(root, block.link, block.target);
  await makeTarget(root, dirname(block.target));
  await unlessDone(
    () => callNodePublish(input, vault, signal),
    () => unlinkDevice(root, block.link),
  );
  await bindDevice(root, block.map, block.target, mounter);
  return null;
}

export async function unpublishBlock(
  { root, endpoint, handle, block }: BlockInput<'csi.unpublish', BlockMount>,
  mounter: Mounter,
  signal: AbortSignal,
): Promise<null> {
  if (!(await isLinked(root, block.link))) return null;
  await unbindDevice(root, block.map, mounter);
  const request = { volume_id: handle, target_path: block.target };
  await callDriver(endpoint, 'NodeUnpublishVolume', request, signal);
  await unlinkDevice(root, block.link);
  return null;
}
