/** The credentials in a pod's projected volumes: service account tokens and certificates (`podCertificate`). Pure. */
import type { Pod, PodRef, VolumeProjection } from '../api/pod.ts';
import { objectKey } from '../objects/config-objects.ts';
import { memoize } from '../values/same.ts';

/** Upstream's default if the pod lacks the API's defaults. */
const EXPIRATION_SECONDS = 3_600;
const SERVICE_ACCOUNT = 'default';

export interface TokenSource {
  /** Empty for the audience of the API server itself. */
  readonly audience: string;
  readonly expirationSeconds: number;
}

export const serviceAccountTokenRequest = (pod: Pick<PodRef, 'name' | 'uid'>, source: TokenSource) => ({
  kind: 'TokenRequest',
  apiVersion: 'authentication.k8s.io/v1',
  metadata: {},
  spec: {
    audiences: source.audience === '' ? null : [source.audience],
    expirationSeconds: source.expirationSeconds,
    boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: pod.name, uid: pod.uid },
  },
  status: { token: '', expirationTimestamp: null },
});

export const serviceAccountOf = ({ spec }: Pod): string => spec.serviceAccountName || SERVICE_ACCOUNT;

const sourceOf = ({ audience, expirationSeconds }: NonNullable<VolumeProjection['serviceAccountToken']>) => ({
  audience: audience ?? '',
  expirationSeconds: expirationSeconds ?? EXPIRATION_SECONDS,
});

export const tokenKey = (pod: Pod, token: NonNullable<VolumeProjection['serviceAccountToken']>): string => {
  const { audience, expirationSeconds } = sourceOf(token);
  return objectKey('Token', pod.metadata.namespace, `${expirationSeconds}:${audience}`);
};

/** By key, every token that the pod needs. */
export const tokensOf = memoize((pod: Pod): Readonly<Record<string, TokenSource>> => {
  const sources = (pod.spec.volumes ?? []).flatMap(({ projected }) => projected?.sources ?? []);
  return Object.fromEntries(
    sources.flatMap(({ serviceAccountToken: token }) => (token ? [[tokenKey(pod, token), sourceOf(token)]] : [])),
  );
});

/** Upstream's text while no certificate has been issued. */
export const NOT_ISSUED = 'credential bundle is not issued yet';

/** One source of one volume: each has a key and a certificate of its own. */
export interface CertificateSource {
  readonly signerName: string;
  /** `RSA3072`, `RSA4096`, `ECDSAP256`, `ECDSAP384`, `ECDSAP521` or `ED25519`. */
  readonly keyType: string;
  /** `null`: the signer decides. */
  readonly maxExpirationSeconds: number | null;
  readonly userAnnotations: Readonly<Record<string, string>>;
}

/** `at` is the index among the sources of the volume. */
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
