/**
 * The files of volumes written by the agent: configMap, secret, downwardAPI and projected.
 *
 * Determines names, modes and contents. Invariants: a file stays below its volume and never has a reserved name of the
 * writer (`..data`); of two sources with one path the later one wins; a missing source that is not optional is an error
 * with upstream's text.
 */

import { messageOf } from '../../../kernel/xstate.ts';
import type { KeyToPath, Volume, VolumeProjection } from '../api/pod.ts';
import { type ObjectKind, objectKey } from '../objects/config-objects.ts';
import type { VolumeFile } from '../operations/volume.ts';
import { fieldValue, resourceValue } from '../spec/downward-api.ts';
import { aggregate } from '../values/go-text.ts';
import {
  certificateFiles,
  DEFAULT_MODE,
  type PayloadInput,
  type ProjectionPlace,
  tokenFiles,
  trustFiles,
} from './projected.ts';

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
