/** From flags and configuration to the input of the client builder and the certificate managers. */

import { millisecondsOf } from '../../model/values/time.ts';
import { nodeTemplate, SERVING_SIGNER, servingPlace } from '../certificates/policy.ts';
import type { CertificateManagerInput } from '../certificates/setup.ts';
import { gatesOf } from '../context/derive-features.ts';
import type { EstablishedContext } from '../context/types.ts';
import type { ClientBuilderInput } from './client-builder.ts';

/** Needs a context in which the node has its name. */
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
  };
}

/** Standalone, no address of the node is reported: the certificate on disk serves, and none is requested. */
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
