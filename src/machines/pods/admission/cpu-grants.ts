/** What `allocation` has given of single CPUs, where the node keeps CPUs apart. Pure. */
import type { NodeSettings } from '../../node-settings.ts';
import { infeasible, type ResizeRefusal } from './admit.ts';
import { assignCpus, type CpuAnswer, type PodCpus, sharedCpus } from './cpu-manager.ts';
import type { Grant } from './messages.ts';
import type { AdmissionRequest, Allocation } from './request.ts';

type Settings = Pick<NodeSettings, 'admission'>;
type Grants = Readonly<Record<string, Grant>>;

/** What all others share; empty where nothing is kept apart. */
export const sharedBy = ({ admission }: Settings, grants: Grants): string =>
  admission?.cpuManager === undefined ? '' : sharedCpus(admission.cpuManager, Object.values(grants));

/** CPUs for a pod that is taken; those that it has it keeps. */
export function admittedCpus(
  { admission }: Settings,
  { uid, cpus: wishes = [] }: AdmissionRequest,
  grants: Grants,
): CpuAnswer {
  const before = grants[uid];
  if (before !== undefined) return before.cpus === undefined ? {} : { cpus: before.cpus };
  if (admission?.cpuManager === undefined || wishes.length === 0) return {};
  return assignCpus(admission.cpuManager, wishes, Object.values(grants));
}

/** As a pod is told. */
export function podCpus(settings: Settings, grants: Grants, uid: string): { readonly cpus?: PodCpus } {
  if (settings.admission?.cpuManager === undefined) return {};
  return { cpus: { exclusive: grants[uid]?.cpus ?? {}, shared: sharedBy(settings, grants) } };
}

/** CPUs that were given to single containers stay as many as they are. */
export function pinnedResize(
  { admission }: Settings,
  { request, allocation: wanted }: { readonly request: AdmissionRequest; readonly allocation: Allocation },
  given: Allocation,
): ResizeRefusal | null {
  if (admission?.cpuManager === undefined || request.demand.qos !== 'Guaranteed') return null;
  const isOther = Object.keys(given).some((name) => cpuOf(given, name) !== cpuOf(wanted, name));
  return isOther ? infeasible('Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"') : null;
}

const cpuOf = (allocation: Allocation, name: string): string => allocation[name]?.requests?.['cpu'] ?? '';
