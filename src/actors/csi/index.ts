/**
 * Ports for `csi.*`: the calls to CSI drivers, the records of their volumes on disk, and the folders of block devices,
 * whose layout below `volumeDevices` is upstream's.
 *
 * Invariants: volumes never wait for each other; the machine of a volume serializes its calls. The record of a block
 * device is on disk before the driver stages the device, and the link in the pod's folder before it publishes it; both
 * are removed only after the driver has confirmed the removal.
 */

import { rmdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Vault } from '../../kernel/journal/secrets.ts';
import type { InputOf, Port, Ports } from '../../kernel/operation.ts';
import type { BlockMount, BlockStage, CSIInventory, csiOperations } from '../../machines/model/operations/csi.ts';
import { diskInventory } from '../disk/inventory.ts';
import { ignoring, inParent } from '../host/root-folder.ts';
import { watchChanges } from '../pause.ts';
import { bindDevice, isLinked, linkDevice, unbindDevice, unlinkDevice } from '../volume/block-device.ts';
import { type Mounter, mounter } from '../volume/mounter.ts';
import { removeTree } from '../volume/tree.ts';
import { inventory, makeTarget, readRecord, writeRecord } from './record.ts';
import {
  callDriver,
  callNodePublish,
  callNodeStage,
  capabilities,
  expand,
  publish,
  stage,
  undoOnFailure,
  unpublish,
  unstage,
} from './volumes.ts';

type Operations = typeof csiOperations;

/** `vault` opens the handles sealed by other ports. */
export function csiPorts({ vault }: { readonly vault: Vault }): Ports<Operations> {
  const tools = mounter();
  return {
    'csi.capabilities': ({ input, signal }) => capabilities(input, signal),
    'csi.stage': ({ input, signal }) =>
      input.block ? stageBlock({ ...input, block: input.block }, vault, signal) : stage(input, vault, signal),
    'csi.unstage': ({ input, signal }) =>
      input.block ? unstageBlock({ ...input, block: input.block }, signal) : unstage(input, signal),
    'csi.publish': ({ input, signal }) =>
      input.block
        ? publishBlock({ ...input, block: input.block }, { vault, mounter: tools }, signal)
        : publish(input, vault, signal),
    'csi.unpublish': ({ input, signal }) =>
      input.block ? unpublishBlock({ ...input, block: input.block }, tools, signal) : unpublish(input, tools, signal),
    'csi.expand': ({ input, signal }) => expand(input, vault, signal),
    'csi.followHealth': followHealth,
    'csi.inventory': ({ input }) => inventoryOf(input.root),
  };
}

/** Of CSI drivers, and of disks of storage networks. */
async function inventoryOf(root: string): Promise<CSIInventory> {
  const [drivers, disks] = [await inventory(root), await diskInventory(root)];
  return {
    volumes: [...drivers.volumes, ...disks.volumes],
    devices: [...drivers.devices, ...disks.devices],
    errors: [...drivers.errors, ...disks.errors],
  };
}

interface VolumeCondition {
  readonly abnormal: boolean;
  readonly message: string;
}
interface StatsReply {
  readonly volume_condition: VolumeCondition | null;
}

/**
 * `csi.followHealth`: asks a driver for the condition of a volume each period, and emits changes.
 *
 * Invariants: a driver without the capability is not called; a failed call changes nothing.
 */
const followHealth: Port<Operations['csi.followHealth']> = (call) => {
  const { endpoint, handle, path, periodMs } = call.input;
  const { signal } = call;
  const condition = async () => {
    const can = new Set((await capabilities({ endpoint }, signal)).capabilities);
    if (!can.has('GET_VOLUME_STATS') || !can.has('VOLUME_CONDITION')) return null;
    const request = { volume_id: handle, volume_path: path };
    return (await callDriver<StatsReply>(endpoint, 'NodeGetVolumeStats', request, signal)).volume_condition;
  };
  const emit = ({ abnormal, message }: VolumeCondition) => call.emit({ type: 'csi.health', abnormal, message });
  return watchChanges({ ask: () => condition().catch(() => null), periodMs, signal, emit });
};

type BlockInput<Name extends 'csi.stage' | 'csi.unstage' | 'csi.publish' | 'csi.unpublish', Block> = InputOf<
  Operations[Name]
> & { readonly block: Block };

async function stageBlock(
  input: BlockInput<'csi.stage', BlockStage>,
  vault: Vault,
  signal: AbortSignal,
): Promise<null> {
  const { root, directory, endpoint, data, request, block } = input;
  await writeRecord(root, directory, data);
  if (request === null) return null;
  await makeTarget(root, block.staging);
  await undoOnFailure(
    () => callNodeStage(endpoint, request, vault, signal),
    () => removeDevice(root, block),
  );
  return null;
}

async function unstageBlock(
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
  await inParent(root, published, (path) => rmdir(path).catch(ignoring('ENOENT')));
  await inParent(root, folder, removeOnDevice);
}

/** Removes a path without crossing into another file system. */
const removeOnDevice = async (path: string): Promise<void> => {
  const found = await stat(path).catch(ignoring('ENOENT'));
  if (found) await removeTree(path, found.dev);
};

async function publishBlock(
  input: BlockInput<'csi.publish', BlockMount>,
  { vault, mounter }: { readonly vault: Vault; readonly mounter: Mounter },
  signal: AbortSignal,
): Promise<null> {
  const { root, block } = input;
  await linkDevice(root, block.link, block.target);
  await makeTarget(root, dirname(block.target));
  await undoOnFailure(
    () => callNodePublish(input, vault, signal),
    () => unlinkDevice(root, block.link),
  );
  await bindDevice(root, block.map, block.target, mounter);
  return null;
}

async function unpublishBlock(
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
