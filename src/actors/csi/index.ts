/**
 * Ports for `csi.*`: the talk with CSI drivers, and what is on disk about their volumes.
 *
 * Invariant: volumes never wait for each other; one volume's calls are made one after the other by its machine.
 */
import type { Vault } from '../../kernel/journal/index.ts';
import type { Ports } from '../../kernel/operation.ts';
import type { csiOperations } from '../../machines/model/operations/csi.ts';
import { mounter } from '../volume/mounter.ts';
import { publishBlock, stageBlock, unpublishBlock, unstageBlock } from './block.ts';
import { followHealth } from './health.ts';
import { inventory } from './record.ts';
import { capabilities, expand, publish, stage, unpublish, unstage } from './volumes.ts';

/** `vault` opens what other ports sealed. */
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
