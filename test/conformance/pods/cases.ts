/**
 * The recordings of `test/golden/pods` that a node without an API server can play, and their manifests.
 *
 * A pod of a recording becomes a manifest, and its deletion the removal of the manifest; ConfigMaps and Secrets are in
 * the same folder. A case is left out if it needs what only an API server can do (a patch, a forced deletion, an object
 * of the cluster).
 */

import { type Recorded, type Recording, recordings } from '../../machines/model/spec/recordings.ts';
import { isEmulated } from '../../support/patience.ts';

/** Cases that are not played, and what they need that this node does not have. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  'delete-finalizer': 'finalizers are kept by an API server',
  'delete-force': 'a manifest cannot be deleted with another grace than its own',
  'delete-shorten-grace': 'a manifest cannot be deleted with another grace than its own',
  'env-fieldref':
    'names a service account, which a static pod may not; the variables are held by the requests of specs',
  'env-services': 'Services come from an API server',
  'image-preloaded-repull': 'needs one image under two names in a registry; test/node holds who may use an image',
  'image-pull-secret': 'needs the login of the recording in a registry; test/node pulls with logins of its own',
  'kubelet-down-delete': 'a forced deletion comes from an API server',
  'probe-startup-fail':
    'removed 1.5 s after its restart: two periods of the probe are over here, one in the recording, so it ends once more',
  'readiness-gate': 'the condition of a gate is patched through an API server',
  'resize-deferred': 'a resize is a patch of a subresource; a changed manifest is another pod',
  'resize-memory-restart': 'a resize is a patch of a subresource; a changed manifest is another pod',
  'runtimeclass-missing': 'RuntimeClasses are objects of the cluster',
  'runtimeclass-overhead': 'RuntimeClasses are objects of the cluster',
  'runtimeclass-unknown-handler': 'RuntimeClasses are objects of the cluster',
  'probe-liveness-grace': 'its deletion has another grace than the one that its probe overrides',
  'sa-token': 'tokens of service accounts come from an API server',
  'spec-image-update': 'a changed manifest is another pod',
  'static-pod': 'shows the mirror pod, which is an object of an API server',
  'vol-downward-update': 'a changed manifest is another pod',
  'vol-emptydir-evict': 'static pods are critical and never evicted; test/machines/charts/node/eviction holds the rest',
  'vol-emptydir-evict-killed':
    'static pods are critical and never evicted; test/machines/charts/node/eviction holds the rest',
  'vol-projected-downward': 'tokens of service accounts come from an API server',
};

/** Cases that are too fast for an emulated machine. */
const TOO_FAST: Readonly<Record<string, string>> = {
  'active-deadline': 'its three seconds are over before there is a container',
  'probe-readiness-exec': 'ready for four seconds, within which no probe ends',
};

/** Cases that pull from `localhost:5000`, and the images that they find there. */
export const PULLED: Readonly<Record<string, readonly string[]>> = {
  'delete-while-pulling': ['slow/x:1'],
  'image-pull-always': ['always:latest'],
  'image-pull-notfound': [],
  'image-pull-ok': ['ok:1'],
};

/** STATELET_CASES: plays only these, by their names separated by commas. */
const chosen = process.env['STATELET_CASES']?.split(',');

export const isSelection = chosen !== undefined;

export const played: readonly Recording[] = recordings.filter(
  ({ name }) =>
    LEFT_OUT[name] === undefined &&
    !(isEmulated && Object.hasOwn(TOO_FAST, name)) &&
    (chosen === undefined || chosen.includes(name)),
);

/** `Pod/p` or `ConfigMap/late`. */
export const refOf = ({ kind, metadata }: Recorded): string => `${kind}/${metadata.name}`;

export const fileOf = (recording: Recording, ref: string): string => `${recording.name}.${ref.replace('/', '.')}.json`;

/**
 * The object as a manifest: in the namespace of its case, with the names of this machine and the grace period of its
 * end.
 */
export function manifestOf(recording: Recording, object: Recorded, words: ReadonlyMap<string, string>): string {
  const { nodeName: _, ...given } = object.spec ?? {};
  const { grace } = recording.steps.find((step) => step.delete === object.metadata.name) ?? {};
  const spec = grace === undefined ? given : { ...given, terminationGracePeriodSeconds: grace };
  const manifest = {
    ...object,
    metadata: { ...object.metadata, namespace: recording.name },
    ...(object.kind === 'Pod' ? { spec } : {}),
  };
  return [...words].reduce((text, [recorded, here]) => text.replaceAll(recorded, here), JSON.stringify(manifest));
}
