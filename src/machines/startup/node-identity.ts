/** From flags, configuration, machine and runtime to the fixed part of the Node object. Needs a started RunKubelet. */

import type { NodeStatusInput } from '../charts/node/node-status.ts';
import type { NodeFacts } from '../charts/node/object/facts.ts';
import type { KubeletConfiguration, KubeletFlags } from '../configuration/index.ts';
import { millisecondsOf } from '../configuration/index.ts';
import type { NodeAddress } from '../model/api/node.ts';
import { declaredFeatures, gatesOf } from './context/derive-features.ts';
import type { EstablishedContext, NodeIdentity } from './context/types.ts';

/** What `nodeStatus` is given. */
export function nodeStatusInput(context: EstablishedContext): NodeStatusInput {
  const { config, resources } = context;
  return {
    facts: nodeFacts(context),
    behavior: context.input.behavior,
    reports: { capacity: resources.capacity, allocatable: resources.allocatable },
    register: config.registerNode,
    ...(gatesOf(config)('KubeletRegistrationGetOnExistsOnly') ? { getsOnExistsOnly: true } : {}),
    updateFrequencyMs: millisecondsOf(config.nodeStatusUpdateFrequency),
    reportFrequencyMs: millisecondsOf(config.nodeStatusReportFrequency),
    maxImages: config.nodeStatusMaxImages ?? DEFAULT_MAX_IMAGES,
  };
}

/** Upstream's default of `nodeStatusMaxImages`. */
const DEFAULT_MAX_IMAGES = 50;

function nodeFacts({ flags, config, node, machineInfo, runtime, input }: EstablishedContext): NodeFacts {
  const isOn = gatesOf(config);
  return {
    nodeName: node.nodeName,
    hostname: node.hostname,
    addresses: addresses(node),
    info: {
      machineID: machineInfo.machineId,
      systemUUID: machineInfo.systemUuid,
      bootID: machineInfo.bootId,
      kernelVersion: machineInfo.kernelVersion,
      osImage: machineInfo.osImage,
      containerRuntimeVersion: `${runtime.name}://${runtime.version}`,
      kubeletVersion: input.version,
      kubeProxyVersion: isOn('DisableNodeKubeProxyVersion') ? '' : input.version,
      operatingSystem: 'linux',
      architecture: machineInfo.architecture,
    },
    port: config.port,
    ...registration(flags, config),
    declaredFeatures: declaredFeatures(isOn),
  };
}

function registration(flags: KubeletFlags, config: KubeletConfiguration) {
  return {
    labels: flags.nodeLabels,
    taints: config.registerWithTaints,
    providerID: config.providerID,
    externalCloud: flags.cloudProvider === 'external',
    providedNodeIP: flags.nodeIP,
    enableControllerAttachDetach: config.enableControllerAttachDetach,
  };
}

function addresses({ nodeIPs, hostname }: NodeIdentity): NodeAddress[] {
  return [...nodeIPs.map((address) => ({ type: 'InternalIP', address })), { type: 'Hostname', address: hostname }];
}
