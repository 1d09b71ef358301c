/**
 * Ports for `csi.*`: the calls to CSI drivers, and the records of their volumes on disk.
 *
 * Invariant: volumes never wait for each other; the machine of a volume serializes its calls.
 */
import type { Vault } from '../../kernel/journal/index.ts';
import type { Port, Ports } from '../../kernel/operation.ts';
import type { csiOperations } from '../../machines/model/operations/csi.ts';
import { mounter } from '../volume/mounter.ts';
import { watchChanges } from '../watch-changes.ts';
import { publishBlock, stageBlock, unpublishBlock, unstageBlock } from './block.ts';
import { inventory } from './record.ts';
import { callDriver, capabilities, expand, publish, stage, unpublish, unstage } from './volumes.ts';

/** `vault` opens the handles sealed by other ports. */
export function csiPorts({ vault }: { readonly vault: Vault }): Ports<typeof csiOperations> {
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
    'csi.inventory': ({ input }) => inventory(input.root),
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
const followHealth: Port<(typeof csiOperations)['csi.followHealth']> = (call) => {
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
