/** Requests to the cluster's signers, the times of new requests, and the meaning of the answers. Pure. */
import type { Json } from '../../../kernel/json.ts';
import type {
  CertificateFacts,
  CertificateNames,
  CertificatePlace,
  CertificatePurpose,
  CertificateTemplate,
} from '../../model/operations/certificate.ts';
import type { KubeObject, KubeTarget } from '../../model/operations/kube.ts';

export const CLIENT_SIGNER = 'kubernetes.io/kube-apiserver-client-kubelet';
export const SERVING_SIGNER = 'kubernetes.io/kubelet-serving';

export const clientPlace = (directory: string): CertificatePlace => ({ directory, name: 'kubelet-client' });
export const servingPlace = (directory: string): CertificatePlace => ({ directory, name: 'kubelet-server' });

export const nodeTemplate = (nodeName: string, names: CertificateNames): CertificateTemplate => ({
  commonName: `system:node:${nodeName}`,
  organizations: ['system:nodes'],
  dnsNames: [...new Set(names.dnsNames)].toSorted(),
  ipAddresses: [...new Set(names.ipAddresses)].toSorted(),
});

export const csrTarget = (client: KubeTarget['client'], name?: string): KubeTarget => ({
  client,
  apiVersion: 'certificates.k8s.io/v1',
  resource: 'certificatesigningrequests',
  ...(name === undefined ? {} : { name }),
});

/** The object of a request. Key encipherment is for RSA keys; these keys are of an elliptic curve. */
export const csrObject = (signerName: string, request: string, purpose: CertificatePurpose): Json => ({
  apiVersion: 'certificates.k8s.io/v1',
  kind: 'CertificateSigningRequest',
  metadata: { generateName: 'csr-' },
  spec: { request, signerName, usages: ['digital signature', purpose === 'client' ? 'client auth' : 'server auth'] },
});

/** The state of a request. `certificate` is PEM in base64. */
export type Verdict =
  | { readonly state: 'pending' | 'approved' }
  | { readonly state: 'issued'; readonly certificate: string }
  | { readonly state: 'refused'; readonly message: string };

interface Condition {
  readonly type: string;
  readonly reason?: string;
  readonly message?: string;
}

export function verdictOf(csr: KubeObject, uid: string): Verdict {
  const { uid: own } = csr.metadata;
  if (own !== uid) {
    return { state: 'refused', message: `csr "${csr.metadata.name}" changed UIDs` };
  }
  const status = (csr['status'] ?? {}) as { readonly conditions?: readonly Condition[]; readonly certificate?: string };
  const refused = status.conditions?.find(({ type }) => type === 'Denied' || type === 'Failed');
  if (refused) {
    const word = refused.type === 'Denied' ? 'is denied' : 'failed';
    const message = `certificate signing request ${word}, reason: ${refused.reason ?? ''}, message: ${refused.message ?? ''}`;
    return { state: 'refused', message };
  }
  if (!status.conditions?.some(({ type }) => type === 'Approved')) return { state: 'pending' };
  return status.certificate ? { state: 'issued', certificate: status.certificate } : { state: 'approved' };
}

/** Between 70 and 90 per cent of the lifetime, so that nodes that joined together do not rotate together. */
export function rotationDeadline({ notBeforeMs, notAfterMs }: CertificateFacts, random: number): number {
  return notBeforeMs + (notAfterMs - notBeforeMs) * (0.7 + 0.2 * random);
}

/** The requested names that the certificate lacks; empty if it has all. Additional names are accepted. */
export function missingIn(certificate: CertificateFacts, template: CertificateTemplate): string {
  const missingFrom = (wanted: readonly string[], has: readonly string[]) =>
    wanted.filter((each) => !has.includes(each));
  if (certificate.commonName !== template.commonName) {
    return `Current certificate CN (${certificate.commonName}) does not match requested CN (${template.commonName})`;
  }
  const dnsNames = missingFrom(template.dnsNames, certificate.dnsNames);
  if (dnsNames.length > 0) return `Current certificate is missing requested DNS names [${dnsNames.join(' ')}]`;
  const ipAddresses = missingFrom(template.ipAddresses, certificate.ipAddresses);
  if (ipAddresses.length > 0) return `Current certificate is missing requested IP addresses [${ipAddresses.join(' ')}]`;
  const organizations = missingFrom(template.organizations, certificate.organizations);
  return organizations.length > 0 ? `Current certificate is missing requested orgs [${organizations.join(' ')}]` : '';
}
