/**
 * Certificates that the node requests from the cluster, and their files. Implemented by `src/actors/certificate`.
 *
 * A pair is a certificate with its key in one PEM file, named by its time; `<name>-current.pem` links to the current
 * one. Private keys cross this boundary as handles only.
 */
import { idempotent, once, query, type SecretHandle } from '../../../kernel/xstate.ts';
import { canonicalIp, isIpAddress } from '../values/ip.ts';

export type CertificatePurpose = 'client' | 'serving';

/** A certificate without its key. */
export interface CertificateFacts {
  /** The path of the file. */
  readonly path: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** The folder and name of the pairs of one purpose: `kubelet-client` or `kubelet-server`. */
export interface CertificatePlace {
  readonly directory: string;
  readonly name: string;
}

export interface CertificateTemplate {
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

export interface FirstRequest {
  /** `node-csr-…`: a digest of key, subject and usages, so that each start finds the same request. */
  readonly name: string;
  /** PEM in base64. */
  readonly request: string;
  readonly usages: readonly string[];
  readonly key: SecretHandle;
}

/** The key of a first certificate that is not issued yet; upstream's name. */
export const temporaryKey = (directory: string): string => `${directory}/kubelet-client.key.tmp`;

export const certificateOperations = {
  /** The current pair; `null` without one. Files of the configuration are used until there is one. */
  'certificate.load': query<
    CertificatePlace & { readonly certFile: string; readonly keyFile: string },
    { readonly certificate: CertificateFacts | null }
  >(),
  /** A new ECDSA P-256 key and the request for its certificate: PEM in base64, as the API has it. */
  'certificate.request': once<CertificateTemplate, { readonly request: string; readonly key: SecretHandle }>(),
  /**
   * The request for the first client certificate of a node. Its key is that of the current pair, or that of an earlier
   * request (`kubelet-client.key.tmp`), or a new one, which is kept there.
   */
  'certificate.firstRequest': idempotent<
    { readonly place: CertificatePlace; readonly template: CertificateTemplate },
    FirstRequest
  >(),
  /** Why a request found in the cluster is not that of this node's key and name; empty if it is. PEM in base64. */
  'certificate.checkRequest': query<
    { readonly request: string; readonly found: string },
    { readonly problem: string }
  >(),
  /**
   * A new key for a pod (`RSA3072`, `RSA4096`, `ECDSAP256`, `ECDSAP384`, `ECDSAP521`, `ED25519`) and an empty request
   * that proves its possession: DER in base64. The handle stands for the key as PKCS#8 in PEM. Fails for an unknown
   * type.
   */
  'certificate.podKey': once<{ readonly keyType: string }, { readonly request: string; readonly key: SecretHandle }>(),
  /**
   * Writes a pair into a file named by its time, and redirects the link to it. `certificate` is PEM in base64. A key
   * that was kept in a file until then is removed there.
   */
  'certificate.store': idempotent<
    CertificatePlace & { readonly certificate: string; readonly key: SecretHandle; readonly keyFile?: string },
    CertificateFacts
  >(),
  /**
   * Whether a kubeconfig exists, can be loaded, and has a client certificate that has not expired: then no bootstrap is
   * needed. `problem` says why not; empty when the file does not exist.
   */
  'certificate.checkKubeconfig': query<
    { readonly kubeconfig: string },
    { readonly isValid: boolean; readonly problem: string }
  >(),
  /** Writes the kubeconfig that refers to the link of a place, for the cluster of the bootstrap kubeconfig. */
  'certificate.writeKubeconfig': idempotent<
    { readonly bootstrapKubeconfig: string; readonly kubeconfig: string; readonly place: CertificatePlace },
    null
  >(),
};

export const currentPair = ({ directory, name }: CertificatePlace): string => `${directory}/${name}-current.pem`;

export interface CertificateNames {
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

type Addresses = readonly { readonly type: string; readonly address: string }[];

/** The names and addresses of a Node as upstream requests them: a host name that is an address is requested as one. */
export function requestedNames(addresses: Addresses): CertificateNames {
  const { dnsNames, ipAddresses } = namesOf(addresses);
  const hostNames = addresses.flatMap(({ type, address }) => (type === 'Hostname' ? [address] : []));
  const all = [...ipAddresses, ...hostNames].filter(isIpAddress).map(canonicalIp);
  return {
    dnsNames: dnsNames.filter((name) => name !== '' && !(hostNames.includes(name) && isIpAddress(name))),
    ipAddresses: [...new Set(all)],
  };
}

export function namesOf(addresses: Addresses): CertificateNames {
  const addressesOf = (...types: string[]) =>
    addresses.filter(({ type }) => types.includes(type)).map(({ address }) => address);
  return {
    dnsNames: addressesOf('Hostname', 'InternalDNS', 'ExternalDNS'),
    ipAddresses: addressesOf('InternalIP', 'ExternalIP'),
  };
}
