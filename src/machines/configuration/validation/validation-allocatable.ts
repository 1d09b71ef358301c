/** Decides whether `enforceNodeAllocatable` makes sense: known names, once each, with the cgroups they need. */

import type { KubeletConfiguration } from '../../model/configuration/types.ts';
import { quote } from '../../model/values/go-text.ts';

const FIELD = 'enforceNodeAllocatable (--enforce-node-allocatable)';
const SYSTEM = ['system-reserved', 'system-reserved-compressible'] as const;
const KUBE = ['kube-reserved', 'kube-reserved-compressible'] as const;

export function allocatableErrors(configuration: KubeletConfiguration): string[] {
  const { enforceNodeAllocatable: enforced } = configuration;
  const exclusive = [SYSTEM, KUBE]
    .filter((pair) => pair.every((name) => enforced.includes(name)))
    .map(([whole, part]) => `both ${quote(whole)} and ${quote(part)} cannot be specified together in ${FIELD}`);
  const each = enforced.flatMap((name, index) =>
    enforced.indexOf(name) < index
      ? [`duplicated enforcements ${quote(name)} in ${FIELD}`]
      : enforcementErrors(name, configuration),
  );
  return [...exclusive, ...each].map((error) => `invalid configuration: ${error}`);
}

function enforcementErrors(name: string, configuration: KubeletConfiguration): string[] {
  if (name === 'none') {
    if (configuration.enforceNodeAllocatable.length === 1) return [];
    return [`${FIELD} may not contain additional enforcements when "none" is specified`];
  }
  const needed = cgroupErrors(name, configuration);
  if (needed === null) return [unknownEnforcement(name)];
  if (configuration.cgroupsPerQOS) return needed;
  return [...needed, `cgroupsPerQOS (--cgroups-per-qos) must be set to true when ${quote(name)} contained in ${FIELD}`];
}

function cgroupErrors(name: string, configuration: KubeletConfiguration): string[] | null {
  if (name === 'pods') return [];
  if (SYSTEM.some((known) => known === name)) {
    return missingCgroup('systemReservedCgroup (--system-reserved-cgroup)', SYSTEM, configuration.systemReservedCgroup);
  }
  if (KUBE.some((known) => known === name)) {
    return missingCgroup('kubeReservedCgroup (--kube-reserved-cgroup)', KUBE, configuration.kubeReservedCgroup);
  }
  return null;
}

function missingCgroup(field: string, [whole, part]: readonly [string, string], cgroup: string): string[] {
  if (cgroup !== '') return [];
  return [`${field} must be specified when ${quote(whole)} or ${quote(part)} included in ${FIELD}`];
}

function unknownEnforcement(name: string): string {
  const [last, ...others] = ['none', 'pods', ...SYSTEM, ...KUBE].map(quote);
  return `option ${quote(name)} specified for ${FIELD}. Valid options are ${others.join(', ')} or ${last}`;
}
