/**
 * Whether a node that is short of something takes another pod.
 *
 * Pure. Upstream: pkg/kubelet/eviction/eviction_manager.go, Admit.
 */
import type { Pod, Toleration } from '../../api/pod.ts';
import { podReasons } from '../../reasons.ts';
import { isBestEffort, isCriticalPod } from './facts.ts';
import type { PressureCondition } from './thresholds.ts';

export type EvictionAdmission =
  | { readonly admit: true }
  | { readonly admit: false; readonly reason: string; readonly message: string };

const MEMORY_PRESSURE_TAINT = { key: 'node.kubernetes.io/memory-pressure', effect: 'NoSchedule' } as const;

/** Critical pods always; while memory alone is short also whoever asked for some, or tolerates it. */
export function admitUnderPressure(pod: Pod, conditions: readonly PressureCondition[]): EvictionAdmission {
  if (conditions.length === 0 || isCriticalPod(pod)) return { admit: true };
  const isMemoryOnly = conditions.length === 1 && conditions[0] === 'MemoryPressure';
  if (isMemoryOnly && (!isBestEffort(pod) || (pod.spec.tolerations ?? []).some(toleratesMemoryPressure))) {
    return { admit: true };
  }
  const message = `The node had condition: [${conditions.join(' ')}]. `;
  return { admit: false, reason: podReasons.evicted, message };
}

/** An empty key with `Exists` tolerates everything; an empty effect, every effect. The taint has no value. */
function toleratesMemoryPressure({ key = '', operator = 'Equal', value = '', effect = '' }: Toleration): boolean {
  const { key: taint, effect: forbids } = MEMORY_PRESSURE_TAINT;
  if (effect !== '' && effect !== forbids) return false;
  if (key !== '' && key !== taint) return false;
  if (operator === 'Exists') return true;
  return key === taint && value === '';
}
