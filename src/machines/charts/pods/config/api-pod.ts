/**
 * Validates a pod object of the API server. Pure.
 *
 * Sets no defaults: the API server has set them. Invariants: an invalid object never reaches a pod's actor;
 * `managedFields` are dropped.
 */

import { isObject } from '../../../../kernel/xstate.ts';
import { CONFIG_MIRROR_ANNOTATION, type Pod, type PodMeta, type PodStatus } from '../../../model/api/pod.ts';
import { keysWithTrust } from '../../../model/objects/keys.ts';
import type { KubeObject } from '../../../model/operations/kube.ts';
import type { SeenPod } from '../../../model/pods/api-messages.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { sizeProblem } from '../../../model/validation/pod.ts';
import { certificatesOf, tokensOf } from '../../../model/volumes/credentials.ts';

export type ApiPod = { readonly pod: Pod; readonly error?: undefined } | { readonly error: string };

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

/** The limit of ConfigMaps, Secrets, claims, tokens and CSI volumes of one pod: each has an actor, and most a watch. */
const POD_OBJECTS_MAX = 500;
const UID_LENGTH_MAX = 128;
/** A uid becomes the name of a folder: it must not lead out of its parent. */
const isUid = (value: unknown): value is string =>
  isText(value) && value.length <= UID_LENGTH_MAX && /^[A-Za-z0-9][A-Za-z0-9-]*$/.test(value);

const followedCount = (pod: Pod): number =>
  keysWithTrust(pod).length +
  Object.keys(tokensOf(pod)).length +
  Object.keys(certificatesOf(pod)).length +
  (pod.spec.volumes ?? []).filter(({ csi }) => csi != null).length;

/** The pod in the object, or why it is invalid. Nodes of 0.2.0 accept any number of ConfigMaps, Secrets and so on. */
export function podFromApi(object: KubeObject, node: { readonly behavior: number }): ApiPod {
  const isLimited = hasBehavior(node, 'resourcesLimited');
  const { metadata, spec, status } = object;
  if (!isObject(metadata)) return { error: 'metadata: the object has none' };
  const { managedFields: _, ...meta } = metadata;
  if (!isText(meta['name']) || !isText(meta['namespace'])) return { error: 'metadata: name and namespace are needed' };
  if (!isUid(meta['uid'])) return { error: `metadata.uid: ${JSON.stringify(meta['uid'])} is no uid` };
  if (!isObject(spec) || !Array.isArray(spec['containers'])) return { error: 'spec.containers: must be a list' };
  const lists = ['containers', 'initContainers', 'ephemeralContainers', 'volumes'] as const;
  const broken = lists.find((list) => !isListOfNamed(spec[list]));
  if (broken !== undefined) return { error: `spec.${broken}: must be a list of objects with a name` };
  const tooLarge = sizeProblem({ meta, spec, status }, isLimited);
  if (tooLarge !== null) return { error: tooLarge };
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: meta as unknown as PodMeta,
    spec: spec as unknown as Pod['spec'],
    status: (isObject(status) ? status : {}) as PodStatus,
  };
  const count = followedCount(pod);
  if (isLimited && count > POD_OBJECTS_MAX) {
    return {
      error: `the pod needs ${count} objects, tokens and volumes of drivers: this node takes pods of at most ${POD_OBJECTS_MAX}`,
    };
  }
  return { pod };
}

const isListOfNamed = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  (Array.isArray(value) && value.every((each) => isObject(each) && isText(each['name'])));

/** The fields that the status publisher needs of the pod in the API server. */
export const seenPod = ({ metadata, status }: Pod): SeenPod => ({
  uid: metadata.uid,
  isMirror: metadata.annotations?.[CONFIG_MIRROR_ANNOTATION] !== undefined,
  resourceVersion: metadata.resourceVersion ?? '',
  isDeleting: metadata.deletionTimestamp !== undefined,
  status: status ?? {},
});
