/** The certificates that a pod's projected volumes ask for (`podCertificate`). Pure. */
import type { Pod } from '../api/pod.ts';
import { objectKey } from '../objects/config-objects.ts';
import { memoize } from '../values/memoize.ts';

/** Upstream's text while there is none. */
export const NOT_ISSUED = 'credential bundle is not issued yet';

/** One source of one volume: each has a key and a certificate of its own. */
export interface CertificateSource {
  readonly signerName: string;
  /** `RSA3072`, `RSA4096`, `ECDSAP256`, `ECDSAP384`, `ECDSAP521` or `ED25519`. */
  readonly keyType: string;
  /** `null`: as long as the signer likes. */
  readonly maxExpirationSeconds: number | null;
  readonly userAnnotations: Readonly<Record<string, string>>;
}

/** `at` is the place among the sources of the volume. */
export const certificateKey = (pod: Pod, volume: string, at: number): string =>
  objectKey('PodCertificate', pod.metadata.namespace, `${volume}:${at}`);

/** By key, every certificate that the pod needs. */
export const certificatesOf = memoize((pod: Pod): Readonly<Record<string, CertificateSource>> => {
  const sources = (pod.spec.volumes ?? []).flatMap(({ name, projected }) =>
    (projected?.sources ?? []).map(({ podCertificate }, at) => ({
      key: certificateKey(pod, name, at),
      podCertificate,
    })),
  );
  return Object.fromEntries(
    sources.flatMap(({ key, podCertificate }) => {
      if (!podCertificate) return [];
      const { signerName, keyType, maxExpirationSeconds = null, userAnnotations = {} } = podCertificate;
      return [[key, { signerName, keyType, maxExpirationSeconds, userAnnotations }]];
    }),
  );
});
