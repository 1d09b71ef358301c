/**
 * `csi.followHealth`: asks a driver how a volume is, again and again, and speaks when that changed.
 *
 * Invariants: a driver without the capability is not called; a failure says nothing about the volume.
 */
import type { Port } from '../../kernel/operation.ts';
import type { csiOperations } from '../../machines/model/operations/csi.ts';
import { watchChanges } from '../watch-changes.ts';
import { callDriver } from './call.ts';
import { capabilities } from './volumes.ts';

interface VolumeCondition {
  readonly abnormal: boolean;
  readonly message: string;
}
interface StatsReply {
  readonly volume_condition: VolumeCondition | null;
}

export const followHealth: Port<(typeof csiOperations)['csi.followHealth']> = (call) => {
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
