/**
 * ConfigMaps and Secrets as pods name them.
 *
 * Decides which objects a pod needs, and which of their values environment variables may use. Invariant: a Secret's
 * value is always a handle here; where text is required, the handle's name is used until a port opens it.
 */
import { isObject, type SecretHandle } from '../../../kernel/xstate.ts';
import type { Container, Pod, Volume, VolumeProjection } from '../api/pod.ts';
import type { KubeObject } from '../operations/kube.ts';
import type { ConfigObject, Content } from '../operations/volume.ts';
import type { References } from '../spec/environment.ts';
import { fnv1a32 } from '../spec/hash.ts';
import { podContainers } from '../spec/qos.ts';
import { memoize } from '../values/same.ts';
import { mapValues } from '../values/tables.ts';
import type { ObjectId } from './keys.ts';

export type ObjectKind = ConfigObject['kind'];
/** Objects by `kind/namespace/name`. */
export type ConfigObjects = Readonly<Record<string, ConfigObject>>;

export const objectKey = (kind: ObjectKind, namespace: string, name: string): string => `${kind}/${namespace}/${name}`;

type Named = readonly [kind: ObjectKind, name: string | undefined];

/** The keys of all objects that this pod names, sorted, without duplicates. */
export const objectKeysOf = memoize((pod: Pod): readonly string[] => {
  const named = [
    ...(pod.spec.volumes ?? []).flatMap(inVolume),
    ...[...podContainers(pod), ...(pod.spec.ephemeralContainers ?? [])].flatMap(inContainer),
    ...(pod.spec.imagePullSecrets ?? []).map(({ name }): Named => ['Secret', name]),
  ];
  const keys = named.flatMap(([kind, name]) => (name ? [objectKey(kind, pod.metadata.namespace, name)] : []));
  return [...new Set(keys)].toSorted();
});

const inVolume = ({ configMap, secret, projected }: Volume): Named[] => [
  ...(configMap ? [['ConfigMap', configMap.name] as const] : []),
  ...(secret ? [['Secret', secret.secretName] as const] : []),
  ...(projected?.sources ?? []).flatMap(inProjection),
];

const inProjection = ({ configMap, secret }: VolumeProjection): Named[] => [
  ...(configMap ? [['ConfigMap', configMap.name] as const] : []),
  ...(secret ? [['Secret', secret.name] as const] : []),
];

const inContainer = ({ env = [], envFrom = [] }: Container): Named[] => [
  ...env.flatMap(({ valueFrom }): Named[] => [
    ...(valueFrom?.configMapKeyRef ? [['ConfigMap', valueFrom.configMapKeyRef.name] as const] : []),
    ...(valueFrom?.secretKeyRef ? [['Secret', valueFrom.secretKeyRef.name] as const] : []),
  ]),
  ...envFrom.flatMap(({ configMapRef, secretRef }): Named[] => [
    ...(configMapRef ? [['ConfigMap', configMapRef.name] as const] : []),
    ...(secretRef ? [['Secret', secretRef.name] as const] : []),
  ]),
];

export const withKeys = (objects: ConfigObjects, keys: readonly string[]): ConfigObjects =>
  Object.fromEntries(keys.flatMap((key) => (objects[key] === undefined ? [] : [[key, objects[key]]])));

/** True if the sets differ, or an object has different content. */
export const differ = (before: ConfigObjects, after: ConfigObjects): boolean => versions(before) !== versions(after);

const versions = (objects: ConfigObjects): string =>
  JSON.stringify(Object.entries(objects).map(([key, { version }]) => [key, version]));

/**
 * Values of objects that variables may use. Binary values of a ConfigMap are left out; those of a Secret have a handle
 * of their own, or `null` in journals of agents that rejected them.
 */
export function environmentReferences(
  objects: ConfigObjects,
  unavailable: Readonly<Record<string, string>> = {},
): References {
  const objectsOf = (wanted: ObjectKind) =>
    Object.fromEntries(
      Object.values(objects)
        .filter(({ kind }) => kind === wanted)
        .map(({ name, data }) => [name, texts(wanted, data)]),
    );
  const known = { configMaps: objectsOf('ConfigMap'), secrets: objectsOf('Secret') };
  return Object.keys(unavailable).length === 0 ? known : { ...known, unavailable };
}

function texts(kind: ObjectKind, data: ConfigObject['data']): Readonly<Record<string, string | null>> {
  const entries = Object.entries(data).flatMap(([key, content]): (readonly [string, string | null])[] => {
    if (!('text' in content)) return kind === 'Secret' ? [[key, content.variable?.$secret ?? null]] : [];
    return [[key, typeof content.text === 'string' ? content.text : content.text.$secret]];
  });
  return Object.fromEntries(entries);
}

/** The handles in this JSON, which a port has to open. */
export function handlesIn(json: string, objects: ConfigObjects): readonly SecretHandle[] {
  const handles = Object.values(objects).flatMap(({ data }) =>
    Object.values(data).flatMap((content) => {
      const values = 'text' in content ? [content.text] : [content.base64, content.variable];
      return values.flatMap((value) => (typeof value === 'object' && json.includes(value.$secret) ? [value] : []));
    }),
  );
  return [...new Map(handles.map((handle) => [handle.$secret, handle])).values()];
}

/** The part of an API object that pods use. Pure. `null` for a kind that pods do not use. */
export function configObjectFrom({ kind, namespace, name }: ObjectId, object: KubeObject): ConfigObject | null {
  const data = dataOf(kind, object);
  if (data === null) return null;
  const type = typeof object['type'] === 'string' ? object['type'] : '';
  const uid = typeof object.metadata['uid'] === 'string' ? object.metadata['uid'] : '';
  const version = versionOf([uid, type, data]);
  return {
    kind: kind as ConfigObject['kind'],
    namespace,
    name,
    ...(uid === '' ? {} : { uid }),
    ...(type === '' ? {} : { type }),
    version,
    data,
  };
}

function dataOf(kind: string, object: KubeObject): ConfigObject['data'] | null {
  switch (kind) {
    case 'ConfigMap':
      return { ...contents(object['data'], 'text'), ...contents(object['binaryData'], 'base64') };
    case 'Secret':
      // The port has sealed them as `{ text: handle }` or `{ base64: handle }`.
      return isObject(object['data']) ? (object['data'] as ConfigObject['data']) : {};
    case 'RuntimeClass':
      return { handler: { text: typeof object['handler'] === 'string' ? object['handler'] : '' } };
    default:
      return null;
  }
}

function contents(value: unknown, form: 'text' | 'base64'): Readonly<Record<string, Content>> {
  if (!isObject(value)) return {};
  return mapValues(value, (each) => ({ [form]: String(each) }) as Content);
}

/** A version by content that does not reveal it: two hashes, so that only a double collision hides a change. */
export const versionOf = (value: unknown): string => {
  const text = JSON.stringify(value);
  return `${fnv1a32(text).toString(36)}.${fnv1a32(`#${text}`).toString(36)}`;
};
