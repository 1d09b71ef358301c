/**
 * `csi.followHealth`: asks a driver how a volume is, again and again, and speaks when that changed.
 *
 * Invariants: a driver that cannot tell is not asked; one that fails says nothing of the volume.
 */
import { setTimeout } from 'node:timers/promises';
import type { Port } from '../../kernel/operation.ts';
import type { csiOperations } from '../../machines/operations/csi.ts';
import { callDriver } from './call.ts';
import { capabilities } from './volumes.ts';

interface StatsReply {
  readonly volume_condition: { readonly abnormal: boolean; readonly message: string } | null;
}

export const followHealth: Port<(typeof csiOperations)['csi.followHealth']> = async (call) => {
  const { endpoint, handle, path, periodMs } = call.input;
  const { signal } = call;
  const look = async () => {
    const can = new Set((await capabilities({ endpoint }, signal)).capabilities);
    if (!can.has('GET_VOLUME_STATS') || !can.has('VOLUME_CONDITION')) return null;
    const request = { volume_id: handle, volume_path: path };
    return (await callDriver<StatsReply>(endpoint, 'NodeGetVolumeStats', request, signal)).volume_condition;
  };
  let said = '';
  while (!signal.aborted) {
    const condition = await look().catch(() => null);
    const text = JSON.stringify(condition);
    if (condition !== null && text !== said && !signal.aborted) {
      said = text;
      call.emit({ type: 'csi.health', abnormal: condition.abnormal, message: condition.message });
    }
    await setTimeout(periodMs, undefined, { signal }).catch(() => {});
  }
  return null;
};
