/**
 * Keys of the API server's objects that a pod uses, and the messages about them between `pods`, `objects` and its
 * actors. Pure.
 *
 * A key is `<kind>/<namespace>/<name>`. ConfigMaps, Secrets and RuntimeClasses are objects; `Services` stands for the
 * environment variables of a namespace's services, with the name `linked` for all variables and `master` for the
 * variables of `kubernetes` only. The name of a ClusterTrustBundle is the query of a projected volume
 * (`trust-anchors.ts`).
 */
import { isStaticPod, type Pod, type Volume, type VolumeProjection } from '../api/pod.ts';
import type { ConfigObject } from '../operations/volume.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { memoize } from '../values/same.ts';
import { objectKey, objectKeysOf } from './config-objects.ts';

export const LINKED = 'linked';
const MASTER = 'master';

export const servicesKey = ({ metadata, spec }: Pod): string =>
  objectKey('Services', metadata.namespace, spec.enableServiceLinks === false ? MASTER : LINKED);

export const runtimeClassKey = ({ spec }: Pod): string | null =>
  spec.runtimeClassName ? objectKey('RuntimeClass', '', spec.runtimeClassName) : null;

/** The claim of a volume: a named one, or the pod's own. */
export function claimNameOf(volume: Volume, podName: string): string | null {
  if (volume.ephemeral) return `${podName}-${volume.name}`;
  return volume.persistentVolumeClaim?.claimName ?? null;
}

const claimKeys = ({ metadata: { namespace, name }, spec }: Pod): readonly string[] =>
  (spec.volumes ?? []).flatMap((volume) => {
    const claim = claimNameOf(volume, name);
    return claim === null ? [] : [objectKey('PersistentVolumeClaim', namespace, claim)];
  });

/** Keys of all objects that the pod uses and that may change while it runs. */
export function neededKeys(pod: Pod, { apiServer }: Pick<NodeSettings, 'apiServer'>): readonly string[] {
  if (apiServer === undefined) return objectKeysOf(pod);
  return apiServer.trustBundles === true ? keysWithTrust(pod) : keysInCluster(pod);
}

/** Memoized: called for each found object of a pod that may name thousands. */
const keysInCluster = memoize((pod: Pod): readonly string[] => {
  const runtimeClass = runtimeClassKey(pod);
  const classes = runtimeClass === null ? [] : [runtimeClass];
  return [...objectKeysOf(pod), ...claimKeys(pod), ...classes, servicesKey(pod)].toSorted();
});

/** Independent of the node's settings. */
export const keysWithTrust = memoize((pod: Pod): readonly string[] =>
  [...keysInCluster(pod), ...trustKeysOf(pod)].toSorted(),
);

/** The keys that must be known before the pod can start. A static pod starts without the API server. */
export const awaitedKeys = (pod: Pod, settings: Pick<NodeSettings, 'apiServer'>): readonly string[] =>
  settings.apiServer === undefined || isStaticPod(pod) ? [] : neededKeys(pod, settings);

export interface ObjectId {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

export function idOf(key: string): ObjectId {
  const [kind = '', namespace = '', name = ''] = key.split('/');
  return { kind, namespace, name };
}

export type TrustSource = NonNullable<VolumeProjection['clusterTrustBundle']>;
export type TrustSelector = NonNullable<TrustSource['labelSelector']>;

/** One bundle by its name, or the bundles of a signer that match the selector. Without a selector no bundle matches. */
export type TrustQuery =
  | { readonly name: string }
  | { readonly signerName: string; readonly labelSelector?: TrustSelector | null | undefined };

/** `null` if the source names neither a bundle nor a signer. Sources with the same query have the same key. */
export function trustKey({ name, signerName, labelSelector }: TrustSource): string | null {
  const query = name ? { name } : signerName ? { signerName, labelSelector } : null;
  return query && objectKey('ClusterTrustBundle', '', withoutSlashes(JSON.stringify(query)));
}

const withoutSlashes = (text: string): string => text.replaceAll('%', '%25').replaceAll('/', '%2F');

export const trustQueryOf = (key: string): TrustQuery =>
  JSON.parse(idOf(key).name.replaceAll('%2F', '/').replaceAll('%25', '%')) as TrustQuery;

const trustKeysOf = ({ spec }: Pod): readonly string[] => {
  const sources = (spec.volumes ?? []).flatMap(({ projected }) => projected?.sources ?? []);
  const keys = sources.flatMap(({ clusterTrustBundle: source }) => (source ? (trustKey(source) ?? []) : []));
  return [...new Set(keys)];
};

/** All objects that a pod uses: replaces its earlier message. Known states are sent again. */
export interface ObjectsWanted {
  readonly type: 'objects.wanted';
  readonly uid: string;
  readonly keys: readonly string[];
}

export interface ObjectsReleased {
  readonly type: 'objects.released';
  readonly uid: string;
}

export type ObjectState =
  | { readonly state: 'found'; readonly object: ConfigObject }
  | { readonly state: 'missing' }
  /** The object cannot be read now; the message is for the pod's events. */
  | { readonly state: 'unknown'; readonly message: string };

export type ObjectFound = {
  readonly type: 'object.found';
  readonly key: string;
  /** The pods that want the object. */
  readonly uids: readonly string[];
} & ObjectState;

/** `objects` restarted and lost the wanted objects of pods. */
export interface ObjectsStarted {
  readonly type: 'objects.started';
}

/** From `nodeStatus`: the labels of this node in the API server. */
export interface NodeLabels {
  readonly type: 'node.labels';
  readonly labels: Readonly<Record<string, string>>;
  /** The node's annotation with the seconds for which a ConfigMap or Secret may be cached. */
  readonly objectTtl: string | null;
}

/** To the actor of a periodically read object: the maximum age of a value. */
export interface ObjectPeriod {
  readonly type: 'object.period';
  readonly periodMs: number;
}

/** To the actor of a periodically read object: a pod needs a value read from now on. */
export interface ObjectRefresh {
  readonly type: 'object.refresh';
  readonly refresh: number;
}

/** From the actor of an object to `objects`. */
export type ObjectObserved = {
  readonly type: 'object.observed';
  readonly key: string;
  /** For a periodically read object: the newest refresh that this answers. */
  readonly refresh?: number;
} & ObjectState;
