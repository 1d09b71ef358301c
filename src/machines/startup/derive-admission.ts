/**
 * What of this node decides about pods: from flags, configuration and machine to the settings of `allocation`. Pure.
 */
import type { NodeResources } from '../node/allocatable.ts';
import type { AdmissionSettings } from '../node-settings.ts';
import type { MachineInfo } from '../operations/host.ts';
import { units } from '../pods/admission/request.ts';
import { parseQuantity } from '../pods/spec/quantity.ts';
import type { KubeletConfiguration, KubeletFlags } from './configuration/index.ts';
import type { StringMap } from './configuration/types.ts';
import type { NodeIdentity } from './types.ts';

const OPERATING_SYSTEM = 'linux';

export function admissionSettings(
  flags: KubeletFlags,
  config: KubeletConfiguration,
  node: NodeIdentity,
  machine: MachineInfo,
  resources: NodeResources,
): AdmissionSettings {
  return {
    allocatable: inUnits(resources.allocatable),
    wholeNode: inUnits(resources.podsLimit),
    labels: { ...defaultLabels(node, machine), ...flags.nodeLabels },
    taints: config.registerWithTaints,
    sysctls: { kernelVersion: machine.kernelVersion, allowedUnsafe: config.allowedUnsafeSysctls },
    appArmor: machine.appArmor,
  };
}

const inUnits = (quantities: StringMap): StringMap =>
  Object.fromEntries(Object.entries(quantities).map(([name, text]) => [name, units(name, parseQuantity(text))]));

/** Labels of a node that no API server has labelled yet. */
const defaultLabels = ({ hostname }: NodeIdentity, { architecture }: MachineInfo): StringMap => ({
  'beta.kubernetes.io/arch': architecture,
  'beta.kubernetes.io/os': OPERATING_SYSTEM,
  'kubernetes.io/arch': architecture,
  'kubernetes.io/hostname': hostname,
  'kubernetes.io/os': OPERATING_SYSTEM,
});
