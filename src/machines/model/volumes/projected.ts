/**
 * Sources of a projected volume that require an API server: tokens, trust anchors, certificates.
 *
 * Determines their files, modes, and the error of a missing source. Invariant: a key and a token are handles.
 */
import type { Pod, VolumeProjection } from '../api/pod.ts';
import type { ConfigObjects } from '../objects/config-objects.ts';
import { trustKey } from '../objects/keys.ts';
import { missingTrust, UNSUPPORTED } from '../objects/trust-anchors.ts';
import type { Content, VolumeFile } from '../operations/volume.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { podContainers } from '../spec/qos.ts';
import { certificateKey, NOT_ISSUED, tokenKey } from './credentials.ts';

/** The inputs of the files of a pod's volumes: the pod, its node, and the objects that it names. */
export interface PayloadInput {
  readonly pod: Pod;
  readonly node: NodeSettings;
  readonly objects: ConfigObjects;
  /** By key, why an object cannot be read now. */
  readonly unavailable?: Readonly<Record<string, string>>;
}

/** The mode if the pod lacks the API's defaults. */
export const DEFAULT_MODE = 0o644;
const PRIVATE_MODE = 0o600;

/** The position of a source, which is part of the name of its object. */
export interface ProjectionPlace {
  readonly volume: string;
  readonly at: number;
  readonly mode: number | undefined;
}

const needsApiServer = (kind: string): string =>
  `a projected source of kind ${kind} needs an API server, which this node does not have`;

/** Mode and owner of a file. A file for a single user, or for the pod's group, is not readable by others. */
function accessOf(
  { mode = DEFAULT_MODE }: ProjectionPlace,
  { pod }: PayloadInput,
): Pick<VolumeFile, 'mode' | 'userId'> {
  const userId = soleUser(pod);
  if (userId !== undefined) return { mode: PRIVATE_MODE, userId };
  return { mode: pod.spec.securityContext?.fsGroup === undefined ? mode : PRIVATE_MODE };
}

/** The common user of all containers, if there is one. */
function soleUser(pod: Pod): number | undefined {
  const shared = pod.spec.securityContext?.runAsUser;
  const [first, ...others] = podContainers(pod).map(({ securityContext }) => securityContext?.runAsUser ?? shared);
  return others.every((user) => user === first) ? first : undefined;
}

type Source<Kind extends keyof VolumeProjection> = NonNullable<VolumeProjection[Kind]>;

export function tokenFiles(
  token: Source<'serviceAccountToken'>,
  place: ProjectionPlace,
  input: PayloadInput,
): VolumeFile[] {
  const { pod, node, objects, unavailable } = input;
  if (node.apiServer === undefined) throw new Error(needsApiServer('serviceAccountToken'));
  const key = tokenKey(pod, token);
  const content = objects[key]?.data['token'];
  if (content === undefined) throw new Error(unavailable?.[key] ?? 'failed to fetch token: none was issued yet');
  return [{ path: token.path, ...accessOf(place, input), content }];
}

export function trustFiles(
  source: Source<'clusterTrustBundle'>,
  place: ProjectionPlace,
  input: PayloadInput,
): VolumeFile[] {
  const { node, objects, unavailable } = input;
  if (node.apiServer === undefined) throw new Error(UNSUPPORTED);
  if (node.apiServer.trustBundles !== true) {
    throw new Error(`${UNSUPPORTED}; turn on the feature gate ClusterTrustBundleProjection`);
  }
  const key = trustKey(source);
  if (key === null) throw new Error('ClusterTrustBundle projection requires either name or signerName to be set');
  const problem = objects[key] === undefined ? unavailable?.[key] : undefined;
  if (problem !== undefined) throw new Error(problem);
  if (objects[key] === undefined && source.optional !== true) throw new Error(missingTrust(source));
  const content: Content = objects[key]?.data['anchors'] ?? { text: '' };
  return [{ path: source.path, ...accessOf(place, input), content }];
}

export function certificateFiles(
  source: Source<'podCertificate'>,
  place: ProjectionPlace,
  input: PayloadInput,
): VolumeFile[] {
  const { pod, node, objects, unavailable } = input;
  if (node.apiServer === undefined) throw new Error(needsApiServer('podCertificate'));
  if (node.apiServer.podCertificates !== true) {
    throw new Error('a projected source of kind podCertificate needs the feature gate PodCertificateRequest');
  }
  const name = certificateKey(pod, place.volume, place.at);
  const { key, chain } = objects[name]?.data ?? {};
  if (!key || !chain || !('text' in key) || !('text' in chain)) throw new Error(unavailable?.[name] ?? NOT_ISSUED);
  const access = accessOf(place, input);
  const { credentialBundlePath, keyPath, certificateChainPath } = source;
  const files: readonly (readonly [path: string | undefined, content: VolumeFile['content']])[] = [
    [credentialBundlePath, { joined: [key.text, chain.text] }],
    [keyPath, key],
    [certificateChainPath, chain],
  ];
  return files.flatMap(([path, content]) => (path ? [{ path, ...access, content }] : []));
}
