/** Derives the settings of admission (`allocation`) from flags, configuration and machine. Pure. */

import type { KubeletConfiguration, KubeletFlags } from '../../configuration/index.ts';
import { isOptionOn } from '../../configuration/validation/resource-managers.ts';
import { reservedCpus } from '../../model/allocation/cpu-manager.ts';
import { memorySettings, numaNodesOf } from '../../model/allocation/memory-state.ts';
import { units } from '../../model/allocation/request.ts';
import type { NodeResources } from '../../model/cgroups/allocatable.ts';
import type { StringMap } from '../../model/configuration/field-types.ts';
import type { MachineInfo } from '../../model/operations/host.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import type { AdmissionSettings, ResourceManagers, TopologyPolicy } from '../../model/settings/node-settings.ts';
import { milliUnits, nanoOf, wholeUnits } from '../../model/values/quantity.ts';
import { featureAdmission, gatesOf } from './derive-features.ts';
import type { NodeIdentity } from './types.ts';

const OPERATING_SYSTEM = 'linux';

export function admissionSettings(
  behavior: number,
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
    ...resourceManagers(behavior, config, machine),
    ...featureAdmission(gatesOf(config)),
  };
}

/** The managers of exclusive resources. */
export const resourceManagers = (
  behavior: number,
  config: KubeletConfiguration,
  machine: MachineInfo,
): ResourceManagers => ({
  ...cpuManager(!hasBehavior({ behavior }, 'resourcesAsKubelet'), config, machine),
  ...memoryManager(config, machine),
  ...topologyManager(config, machine),
});

function topologyManager(config: KubeletConfiguration, machine: MachineInfo): Pick<ResourceManagers, 'topology'> {
  const { topologyManagerPolicy: policy, topologyManagerScope: scope, topologyManagerPolicyOptions: options } = config;
  if (policy === 'none') return {};
  const nodes = numaNodesOf(machine).map(({ id }) => id);
  const distances = machine.topology.numaNodes.map((node) => node.distances ?? []);
  return {
    topology: {
      policy: policy as TopologyPolicy,
      scope: scope as 'container' | 'pod',
      nodes,
      ...(isOptionOn(options, 'prefer-closest-numa-nodes') ? { distances } : {}),
    },
  };
}

function memoryManager(config: KubeletConfiguration, machine: MachineInfo): Pick<ResourceManagers, 'memoryManager'> {
  if (config.memoryManagerPolicy !== 'Static') return {};
  const reserved = config.reservedMemory.map(({ numaNode, limits }): [number, Map<string, bigint>] => [
    numaNode,
    new Map(Object.entries(limits).map(([type, amount]) => [type, wholeUnits(nanoOf(amount))])),
  ]);
  return { memoryManager: memorySettings(machine, new Map(reserved)) };
}

function cpuManager(
  isAsReleased: boolean,
  config: KubeletConfiguration,
  machine: MachineInfo,
): Pick<ResourceManagers, 'cpuManager'> {
  if (config.cpuManagerPolicy !== 'static') return {};
  const { cpus } = machine.topology;
  const { kubeReserved, systemReserved, reservedSystemCPUs, cpuManagerPolicyOptions: options } = config;
  const reserved = [kubeReserved, systemReserved].reduce(
    (sum, amounts) => sum + milliUnits(nanoOf(amounts['cpu'] ?? '0')),
    0n,
  );
  const choice = {
    cpus,
    wholeCores: isOptionOn(options, 'full-pcpus-only'),
    ...(isOptionOn(options, 'distribute-cpus-across-numa') ? { isDistributed: true } : {}),
    ...(isOptionOn(options, 'prefer-align-cpus-by-uncorecache') ? { isCacheAligned: true } : {}),
    ...(isOptionOn(options, 'distribute-cpus-across-cores') ? { isSpread: true } : {}),
    ...(isOptionOn(options, 'align-by-socket') ? { isSocketAligned: true } : {}),
    ...(isAsReleased ? { isAsReleased } : {}),
  };
  return {
    cpuManager: {
      ...choice,
      reserved: reservedCpus(choice, reservedSystemCPUs, reserved),
      isReservationStrict: isOptionOn(options, 'strict-cpu-reservation'),
    },
  };
}

const inUnits = (quantities: StringMap): StringMap =>
  Object.fromEntries(Object.entries(quantities).map(([name, text]) => [name, units(name, nanoOf(text))]));

/** Labels of a node whose Node object is not known yet. */
const defaultLabels = ({ hostname }: NodeIdentity, { architecture }: MachineInfo): StringMap => ({
  'beta.kubernetes.io/arch': architecture,
  'beta.kubernetes.io/os': OPERATING_SYSTEM,
  'kubernetes.io/arch': architecture,
  'kubernetes.io/hostname': hostname,
  'kubernetes.io/os': OPERATING_SYSTEM,
});
