/**
 * Inputs of subsystems that are more than fields of the configuration, derived from flags, configuration, machine and
 * runtime. Each function needs a context in which the start has reached that subsystem.
 */

import type { CSIVolumesInput } from '../charts/csi/csi-volumes-setup.ts';
import type { NodeStatusInput } from '../charts/node/node-status-setup.ts';
import type { NodeFacts } from '../charts/node/object/facts.ts';
import type { OomWatcherInput } from '../charts/node/oom-watcher.ts';
import { decideFeatures, gatesOf, isEnabled } from '../configuration/fields/feature-gates.ts';
import type { KubeletFlags } from '../configuration/flags/flags.ts';
import type { KubeletConfiguration } from '../model/configuration/fields.ts';
import { hasBehavior } from '../model/settings/behaviors.ts';
import { millisecondsOf } from '../model/values/time.ts';
import { type CertificateManagerInput, nodeTemplate, SERVING_SIGNER, servingPlace } from './certificates/setup.ts';
import type { ClientBuilderInput } from './clients/client-builder.ts';
import { declaredFeatures } from './context/derive-features.ts';
import type { EstablishedContext } from './context/types.ts';
import { addressesToReport, specifiedNodeIPs } from './host/node-ip.ts';

/** The fixed facts of the Node object, and the period of sending its status. */
export function nodeStatusInput(context: EstablishedContext): NodeStatusInput {
  const { config, resources, input } = context;
  const ignoresStorage = !config.localStorageCapacityIsolation && hasBehavior(input, 'managersAsKubelet');
  return {
    facts: nodeFacts(context),
    behavior: input.behavior,
    reports: {
      capacity: resources.capacity,
      allocatable: resources.allocatable,
      ...(ignoresStorage ? { ignoresStorage } : {}),
    },
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
    addresses: addressesToReport(flags, node, input.behavior),
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
      ...swapOf(machineInfo, input.behavior),
    },
    port: config.port,
    ...registration(flags, config, input.behavior),
    declaredFeatures: declaredFeatures(isOn),
  };
}

function swapOf({ swapBytes }: EstablishedContext['machineInfo'], behavior: number) {
  const isShown = swapBytes !== '0' && hasBehavior({ behavior }, 'swapOfNode');
  return isShown ? { swap: { capacity: Number(swapBytes) } } : {};
}

function registration(flags: KubeletFlags, config: KubeletConfiguration, behavior: number) {
  const isAsKubelet = hasBehavior({ behavior }, 'addressesAsKubelet');
  return {
    labels: flags.nodeLabels,
    taints: config.registerWithTaints,
    providerID: config.providerID,
    externalCloud: flags.cloudProvider === 'external',
    providedNodeIP: isAsKubelet ? specifiedNodeIPs(flags).join(',') : flags.nodeIP,
    ...(isAsKubelet ? { followsFlags: true as const } : {}),
    enableControllerAttachDetach: config.enableControllerAttachDetach,
  };
}

/** The fields that decide whether, and how often, drivers are asked for the health of volumes. */
type VolumeSettings = Pick<KubeletConfiguration, 'featureGates' | 'volumeStatsAggPeriod'>;

const KERNEL_LOG = '/dev/kmsg';

/** The log is optional in a user namespace, where it cannot be read, and with the embedded runtime. */
export function oomWatcherInput({ node, input, runtime, config }: EstablishedContext): OomWatcherInput {
  return {
    nodeName: node.nodeName,
    path: KERNEL_LOG,
    seenFile: `${input.journalDir}/oom-seen.json`,
    optional: runtime.embedded || gatesOf(config)('KubeletInUserNamespace'),
  };
}

/** With the gate, CSI drivers are asked for the health of volumes as often as for their usage. */
export function volumeHealthInput(configuration: VolumeSettings): Pick<CSIVolumesInput, 'healthPeriodMs'> {
  const periodMs = millisecondsOf(configuration.volumeStatsAggPeriod);
  const isOn = isEnabled(decideFeatures(configuration.featureGates).changed, 'CSIVolumeHealth');
  return isOn && periodMs > 0 ? { healthPeriodMs: periodMs } : {};
}

/** Whether the agent attaches volumes itself. */
export function attachInput({ config, input }: EstablishedContext): Pick<CSIVolumesInput, 'attachesItself'> {
  const isOwn = !config.enableControllerAttachDetach && hasBehavior(input, 'blockNetworkVolumes');
  return isOwn ? { attachesItself: true } : {};
}

/** How the node connects to the API server, with its rate limits. */
export function clientBuilderInput({ flags, config, node, input }: EstablishedContext): ClientBuilderInput {
  const { kubeconfig, bootstrapKubeconfig, certDir } = flags;
  const { rotateCertificates, kubeAPIQPS, kubeAPIBurst, eventRecordQPS, eventBurst } = config;
  return {
    kubeconfig,
    bootstrapKubeconfig,
    certDir,
    rotateCertificates,
    nodeName: node.nodeName,
    userAgent: `kubelet/${input.version} (linux) statelet`,
    kubeAPIQPS,
    kubeAPIBurst,
    eventRecordQPS,
    eventBurst,
    nodeStatusUpdateFrequencyMs: millisecondsOf(config.nodeStatusUpdateFrequency),
    nodeLeaseDurationSeconds: config.nodeLeaseDurationSeconds,
    ...(hasBehavior(input, 'bootstrapAsKubelet') ? { bootstrapsAsKubelet: true } : {}),
  };
}

/** In standalone mode no address of the node is reported: the certificate on disk is used, and none is requested. */
export function servingCertificateInput({ flags, config, node }: EstablishedContext): CertificateManagerInput {
  return {
    purpose: 'serving',
    once: false,
    signerName: SERVING_SIGNER,
    place: servingPlace(flags.certDir),
    certFile: config.tlsCertFile ?? '',
    keyFile: config.tlsPrivateKeyFile ?? '',
    template: nodeTemplate(node.nodeName, { dnsNames: [], ipAddresses: [] }),
    ...(gatesOf(config)('AllowDNSOnlyNodeCSR') ? { mayLackAddresses: true } : {}),
  };
}
