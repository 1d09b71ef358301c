/**
 * Certificates that the node asks the cluster for, and the files that hold them. Implemented by `src/actors/kube`.
 *
 * A pair is a certificate with its key in one PEM file, named by its time; `<name>-current.pem` links to the one in
 * force. Private keys cross this boundary as handles only.
 */
import { idempotent, once, query, type SecretHandle } from '../../../kernel/xstate.ts';

export type CertificatePurpose = 'client' | 'serving';

/** What is known of a certificate without its key. */
export interface CertificateFacts {
  /** Of the file that holds it. */
  readonly path: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** Where the pairs of one purpose are: `kubelet-client` or `kubelet-server` below a directory. */
export interface CertificatePlace {
  readonly directory: string;
  readonly name: string;
}

/** What a certificate is wanted for. */
export interface CertificateTemplate {
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

export const certificateOperations = {
  /** The pair in force; `null` without one. Files given in the configuration serve until there is one. */
  'certificate.load': query<
    CertificatePlace & { readonly certFile: string; readonly keyFile: string },
    { readonly certificate: CertificateFacts | null }
  >(),
  /** A new ECDSA P-256 key and the request for its certificate: PEM in base64, as the API has it. */
  'certificate.request': once<CertificateTemplate, { readonly request: string; readonly key: SecretHandle }>(),
  /**
   * A new key for a pod (`RSA3072`, `RSA4096`, `ECDSAP256`, `ECDSAP384`, `ECDSAP521`, `ED25519`) and a request that
   * says nothing but proves that the key is there: DER in base64. The handle stands for the key as PKCS#8 in PEM. Fails
   * for a type that it does not know.
   */
  'certificate.podKey': once<{ readonly keyType: string }, { readonly request: string; readonly key: SecretHandle }>(),
  /** Writes a pair under its time and lets the link name it. `certificate` is PEM in base64. */
  'certificate.store': idempotent<
    CertificatePlace & { readonly certificate: string; readonly key: SecretHandle },
    CertificateFacts
  >(),
  /**
   * Whether a kubeconfig is there, can be loaded, and has a client certificate that has not expired: then nothing needs
   * to be bootstrapped. `problem` says why not; empty when the file is simply not there.
   */
  'certificate.checkKubeconfig': query<
    { readonly kubeconfig: string },
    { readonly isValid: boolean; readonly problem: string }
  >(),
  /** Writes the kubeconfig that names the link of a place, for the cluster of the bootstrap kubeconfig. */
  'certificate.writeKubeconfig': idempotent<
    { readonly bootstrapKubeconfig: string; readonly kubeconfig: string; readonly place: CertificatePlace },
    null
  >(),
};

/** The link that names the pair in force. */
export const currentPair = ({ directory, name }: CertificatePlace): string => `${directory}/${name}-current.pem`;

/** Names under which a node is called. */
export interface CertificateNames {
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** A node's addresses, as its status has them, by what a certificate calls them. */
export function namesOf(addresses: readonly { readonly type: string; readonly address: string }[]): CertificateNames {
  const of = (...types: string[]) => addresses.filter(({ type }) => types.includes(type)).map(({ address }) => address);
  return {
    dnsNames: of('Hostname', 'InternalDNS', 'ExternalDNS'),
    ipAddresses: of('InternalIP', 'ExternalIP'),
  };
}
