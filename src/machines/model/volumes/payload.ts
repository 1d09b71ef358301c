/**
 * The files of volumes written by the agent: configMap, secret, downwardAPI and projected.
 *
 * Determines names, modes and contents. Invariants: a file stays below its volume and never has a reserved name of the
 * writer (`..data`); of two sources with one path the later one wins; a missing source that is not optional is an error
 * with upstream's text.
 *
 * Invariant of projected tokens and certificates: a key and a token are handles.
 */
import { messageOf } from '../../../kernel/xstate.ts';
import type { KeyToPath, Pod, Volume, VolumeProjection } from '../api/pod.ts';
import { type ConfigObjects, type ObjectKind, objectKey } from '../objects/config-objects.ts';
import { trustKey } from '../objects/keys.ts';
import { missingTrust, UNSUPPORTED } from '../objects/trust-anchors.ts';
import type { Content, VolumeFile } from '../operations/volume.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { fieldValue, resourceValue } from '../spec/environment.ts';
import { podContainers } from '../spec/qos.ts';
import { aggregate } from '../values/go-text.ts';
import { certificateKey, NOT_ISSUED, tokenKey } from './credentials.ts';

const MAX_PATH_BYTES = 4096;
const MAX_NAME_BYTES = 255;

/** Files by path; `null` for another kind of volume. Throws with the text for `FailedMount`. */
export function payload(volume: Volume, input: PayloadInput): readonly VolumeFile[] | null {
  const files = filesOf(volume, input);
  if (files === null) return null;
  const byPath = new Map(files.map((file) => [normalized(file.path), file]));
  return [...byPath].map(([path, file]) => ({ ...file, path })).toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

function filesOf(volume: Volume, input: PayloadInput): readonly VolumeFile[] | null {
  const { configMap, secret, downwardAPI, projected } = volume;
  if (configMap) return keyed({ ...configMap, kind: 'ConfigMap', mode: configMap.defaultMode }, input);
  if (secret) return keyed({ ...secret, kind: 'Secret', name: secret.secretName, mode: secret.defaultMode }, input);
  if (downwardAPI) return downward(downwardAPI.items ?? [], downwardAPI.defaultMode, input);
  if (projected) {
    const place = { volume: volume.name, mode: projected.defaultMode };
    return all(projected.sources ?? [], (source, at) => projection(source, { ...place, at }, input));
  }
  return null;
}

/** The files of each part, or the errors of all parts. */
function all<Part>(parts: readonly Part[], filesOf: (part: Part, at: number) => readonly VolumeFile[]): VolumeFile[] {
  const errors: string[] = [];
  const files = parts.flatMap((part, at) => {
    try {
      return filesOf(part, at);
    } catch (error) {
      errors.push(messageOf(error));
      return [];
    }
  });
  if (errors.length > 0) throw new Error(aggregate(errors));
  return files;
}

function projection(source: VolumeProjection, place: ProjectionPlace, input: PayloadInput): readonly VolumeFile[] {
  const { configMap, secret, downwardAPI, serviceAccountToken, clusterTrustBundle, podCertificate } = source;
  const { mode } = place;
  if (serviceAccountToken) return tokenFiles(serviceAccountToken, place, input);
  if (clusterTrustBundle) return trustFiles(clusterTrustBundle, place, input);
  if (podCertificate) return certificateFiles(podCertificate, place, input);
  if (configMap) return keyed({ ...configMap, kind: 'ConfigMap', mode }, input);
  if (secret) return keyed({ ...secret, kind: 'Secret', mode }, input);
  if (downwardAPI) return downward(downwardAPI.items ?? [], mode, input);
  const [kind] = Object.keys(source);
  // An API server leaves out fields whose gates are off.
  if (kind === undefined) return [];
  throw new Error(`a projected source of kind ${kind} is none that this node agent knows`);
}

interface Keyed {
  readonly kind: ObjectKind;
  readonly name?: string | undefined;
  readonly items?: readonly KeyToPath[];
  readonly optional?: boolean;
  readonly mode: number | undefined;
}

function keyed({ kind, name = '', items, optional, mode = DEFAULT_MODE }: Keyed, input: PayloadInput): VolumeFile[] {
  const objectName = objectKey(kind, input.pod.metadata.namespace, name);
  const object = input.objects[objectName];
  const unavailable = input.unavailable?.[objectName];
  if (object === undefined && unavailable !== undefined) throw new Error(unavailable);
  if (object === undefined) {
    if (optional === true) return [];
    throw new Error(`${kind.toLowerCase()} "${name}" not found`);
  }
  const { data } = object;
  if ((items ?? []).length === 0) return Object.entries(data).map(([path, content]) => ({ path, mode, content }));
  return (items ?? []).flatMap(({ key, path, mode: own = mode }) => {
    const content = Object.hasOwn(data, key) ? data[key] : undefined;
    if (content !== undefined) return [{ path, mode: own, content }];
    if (optional === true) return [];
    throw new Error(
      kind === 'ConfigMap'
        ? `configmap references non-existent config key: ${key}`
        : `references non-existent secret key: ${key}`,
    );
  });
}

type DownwardItem = NonNullable<NonNullable<Volume['downwardAPI']>['items']>[number];

function downward(items: readonly DownwardItem[], mode = DEFAULT_MODE, { pod, node }: PayloadInput): VolumeFile[] {
  return all(items, ({ path, fieldRef, resourceFieldRef, mode: own = mode }) => {
    const text = fieldRef
      ? fieldValue(pod, fieldRef.fieldPath, [], node)
      : resourceFieldRef
        ? resourceValue(pod, pod.spec.containers[0] ?? { name: '' }, resourceFieldRef, node)
        : '';
    return [{ path, mode: own, content: { text } }];
  });
}

/** The normalized path, or an error: validation rejects such paths, but a writer checks them as well. */
function normalized(path: string): string {
  if (path === '') throw new Error('invalid path: must not be empty');
  if (path.startsWith('/')) throw new Error(`invalid path: must be relative path: ${path}`);
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  if (names.includes('..')) throw new Error(`invalid path: must not contain '..': ${path}`);
  if (names[0] === undefined) throw new Error(`invalid path: must name a file: ${path}`);
  if (names[0].startsWith('..')) throw new Error(`invalid path: must not start with '..': ${path}`);
  const bytes = new TextEncoder().encode(path).length;
  if (bytes > MAX_PATH_BYTES) {
    throw new Error(`invalid path: must be less than or equal to ${MAX_PATH_BYTES} characters`);
  }
  if (names.some((name) => new TextEncoder().encode(name).length > MAX_NAME_BYTES)) {
    throw new Error(`invalid path: filename must be less than or equal to ${MAX_NAME_BYTES} characters`);
  }
  return names.join('/');
}

/** The inputs of the files of a pod's volumes: the pod, its node, and the objects that it names. */
export interface PayloadInput {
  readonly pod: Pod;
  readonly node: NodeSettings;
  readonly objects: ConfigObjects;
  /** By key, why an object cannot be read now. */
  readonly unavailable?: Readonly<Record<string, string>>;
}

/** The mode if the pod lacks the API's defaults. */
const DEFAULT_MODE = 0o644;
const PRIVATE_MODE = 0o600;

/** The position of a source, which is part of the name of its object. */
interface ProjectionPlace {
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

function tokenFiles(token: Source<'serviceAccountToken'>, place: ProjectionPlace, input: PayloadInput): VolumeFile[] {
  const { pod, node, objects, unavailable } = input;
  if (node.apiServer === undefined) throw new Error(needsApiServer('serviceAccountToken'));
  const key = tokenKey(pod, token);
  const content = objects[key]?.data['token'];
  if (content === undefined) throw new Error(unavailable?.[key] ?? 'failed to fetch token: none was issued yet');
  return [{ path: token.path, ...accessOf(place, input), content }];
}

function trustFiles(source: Source<'clusterTrustBundle'>, place: ProjectionPlace, input: PayloadInput): VolumeFile[] {
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

function certificateFiles(source: Source<'podCertificate'>, place: ProjectionPlace, input: PayloadInput): VolumeFile[] {
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
