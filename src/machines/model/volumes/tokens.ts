/** The service account tokens that a pod's projected volumes ask for. Pure. */
import type { Pod, PodRef, VolumeProjection } from '../api/pod.ts';
import { objectKey } from '../objects/config-objects.ts';
import { memoize } from '../values/memoize.ts';

/** Upstream's default where the API's defaults say nothing. */
const EXPIRATION_SECONDS = 3_600;
const SERVICE_ACCOUNT = 'default';

export interface TokenSource {
  /** Empty: the API server's own. */
  readonly audience: string;
  readonly expirationSeconds: number;
}

/** What the API server is asked: a token that is good for as long as the pod is there. */
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
