/**
 * The choice of exclusive CPUs of 0.2.0, where it differs from the kubelet's: kept to replay its journals. Pure.
 *
 * Behavior: `resourcesAsKubelet`.
 */
import type { CpuManagerSettings } from '../settings/node-settings.ts';
import { alignmentError, coreOf, type Order, pack, ranked, shortage, threadsPerCore } from './cpu-assignment.ts';
import type { Choice, Chosen } from './cpu-manager.ts';

/** With whole cores, no container got a sibling of a reserved CPU. */
export function allocatableCpus({ cpus, reserved, wholeCores }: CpuManagerSettings): readonly number[] {
  const cores = new Set(cpus.filter(({ id }) => wholeCores && reserved.includes(id)).map(coreOf));
  return cpus.filter((cpu) => !reserved.includes(cpu.id) && !cores.has(coreOf(cpu))).map(({ id }) => id);
}

/** On a tie, the part with the lowest free CPU came first. */
export const byFirstFree: Order = (_all, free, parts) =>
  ranked(free, parts, (_part, _name, members) => Math.min(...members.map(({ id }) => id)));

/** CPUs of init containers came before free ones, and both were never packed together. */
export function choose(settings: CpuManagerSettings, count: number, { reusable, free, nodes }: Choice): Chosen {
  const { cpus, wholeCores } = settings;
  const aligned = new Set(
    cpus.filter(({ numaNode }) => nodes === null || nodes.includes(numaNode)).map(({ id }) => id),
  );
  const pools = [reusable, free].map((ids) => ids.filter((id) => aligned.has(id)));
  const rest = [reusable, free].map((ids) => ids.filter((id) => !aligned.has(id)));
  const ids: number[] = [];
  for (const pool of [...pools, ...rest])
    ids.push(...(pack(cpus, pool, Math.min(count - ids.length, pool.length), { inOrder: byFirstFree }) ?? []));
  if (ids.length === count && !(wholeCores && count % threadsPerCore(cpus) !== 0))
    return { ids: ids.toSorted((a, b) => a - b) };
  const available = free.length + reusable.length;
  return { rejection: wholeCores ? alignmentError(cpus, count, available) : shortage(count, available) };
}
