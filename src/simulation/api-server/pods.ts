/** The API server's treatment of pods: defaults, admission of service accounts, binding, graceful deletion. */

import { memberOf } from '../../kernel/json.ts';
import type { Pod, PodSpec } from '../../machines/model/api/pod.ts';
import { withDefaults } from '../../machines/model/pods/defaults.ts';
import { podQOS } from '../../machines/model/spec/qos.ts';
import { conflict, forbidden, invalid } from './errors.ts';
import type { ApiObject, Fields, Value } from './kinds.ts';
import { fieldsIn, isFields, knownKind, same, textOf, timestamp } from './kinds.ts';
import type { Store } from './store.ts';

const GRACE_DEFAULT_SECONDS = 30;
const TOLERATION_SECONDS = 300;
const TOKEN_MOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
const TOKEN_SECONDS = 3_607;
const MIRROR_ANNOTATION = 'kubernetes.io/config.mirror';
const pods = knownKind('v1', 'pods');

const isMirror = (pod: ApiObject): boolean => pod.metadata.annotations?.[MIRROR_ANNOTATION] !== undefined;

/** The stored form of a posted pod. */
export function createdPod(pod: ApiObject, store: Store): ApiObject {
  if (!Array.isArray(pod.spec?.['containers']) || pod.spec['containers'].length === 0) {
    throw invalid(pods, pod.metadata.name, 'spec.containers', 'Required value');
  }
  const admitted = isMirror(pod) ? pod.spec : withServiceAccount(pod, store);
  const spec = withDefaults(admitted as unknown as PodSpec) as unknown as Fields;
  const complete: Fields = {
    ...spec,
    tolerations: withDefaultTolerations(spec['tolerations']),
    priority: spec['priority'] ?? 0,
    preemptionPolicy: spec['preemptionPolicy'] ?? 'PreemptLowerPriority',
  };
  return {
    ...pod,
    metadata: { ...pod.metadata, generation: 1 },
    spec: complete,
    status: { phase: 'Pending', qosClass: podQOS({ ...pod, spec: complete } as unknown as Pod) },
  };
}

/** DefaultTolerationSeconds: pods stay on a node that is unreachable for a short time. */
function withDefaultTolerations(value: Value | undefined): Value {
  const present = Array.isArray(value) ? value : [];
  const added = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable']
    .filter(
      (key) =>
        !present.some(
          (each) => isFields(each) && (each['key'] === key || (each['operator'] === 'Exists' && !each['key'])),
        ),
    )
    .map((key) => ({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: TOLERATION_SECONDS }));
  return [...present, ...added];
}

/** The ServiceAccount admission plugin: account, pull secrets, and the projected volume with its token. */
function withServiceAccount(pod: ApiObject, store: Store): Fields {
  const spec = pod.spec ?? {};
  const name = typeof spec['serviceAccountName'] === 'string' ? spec['serviceAccountName'] : 'default';
  const account = store.get('v1', 'serviceaccounts', name, pod.metadata.namespace);
  if (!account) {
    throw forbidden(
      `pods "${pod.metadata.name}" is forbidden: error looking up service account ` +
        `${pod.metadata.namespace}/${name}: serviceaccount "${name}" not found`,
    );
  }
  const named: Fields = {
    ...spec,
    serviceAccountName: name,
    serviceAccount: name,
    ...(account['imagePullSecrets'] && !spec['imagePullSecrets']
      ? { imagePullSecrets: account['imagePullSecrets'] as Value }
      : {}),
  };
  const automount = spec['automountServiceAccountToken'] ?? account['automountServiceAccountToken'] ?? true;
  return automount === true ? withTokenVolume(named, store.origin.suffix()) : named;
}

function withTokenVolume(spec: Fields, suffix: string): Fields {
  const volume = `kube-api-access-${suffix}`;
  const mounted = (list: Value | undefined): Value | undefined =>
    Array.isArray(list) ? list.filter(isFields).map((container) => withTokenMount(container, volume)) : list;
  const initContainers = mounted(spec['initContainers']);
  return {
    ...spec,
    volumes: [...fieldsIn(spec, 'volumes'), { name: volume, projected: TOKEN_SOURCES }],
    containers: mounted(spec['containers']) ?? [],
    ...(initContainers === undefined ? {} : { initContainers }),
  };
}

function withTokenMount(container: Fields, volume: string): Fields {
  const mounts = fieldsIn(container, 'volumeMounts');
  if (mounts.some((mount) => mount['mountPath'] === TOKEN_MOUNT)) return container;
  return { ...container, volumeMounts: [...mounts, { name: volume, readOnly: true, mountPath: TOKEN_MOUNT }] };
}

const TOKEN_SOURCES: Fields = {
  defaultMode: 0o644,
  sources: [
    { serviceAccountToken: { expirationSeconds: TOKEN_SECONDS, path: 'token' } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    {
      downwardAPI: {
        items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }],
      },
    },
  ],
};

/** Fields of a pod's spec that an update may change. */
const MUTABLE = ['activeDeadlineSeconds', 'tolerations', 'terminationGracePeriodSeconds', 'schedulingGates'];

export function updatedPod(pod: ApiObject, old: ApiObject): ApiObject {
  if (!same(frozenSpec(pod), frozenSpec(old))) {
    const why =
      'Forbidden: pod updates may not change fields other than `spec.containers[*].image`,' +
      '`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing ' +
      'tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)';
    throw invalid(pods, pod.metadata.name, 'spec', why);
  }
  return pod;
}

function frozenSpec({ spec = {} }: ApiObject): unknown {
  const frozen = Object.entries(spec).filter(([key]) => !MUTABLE.includes(key));
  return frozen
    .map(([key, value]) => [key, key.endsWith('ontainers') ? withoutImages(value) : value] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
}

const withoutImages = (list: Value): Value =>
  Array.isArray(list) ? list.filter(isFields).map((container) => ({ ...container, image: '' })) : list;

export function boundPod(pod: ApiObject, binding: ApiObject, nowMs: number): ApiObject {
  const { name } = pod.metadata;
  const node = textOf(memberOf(binding['target'], 'name'));
  if (!node) throw invalid(pods, name, 'target.name', 'Required value');
  if (pod.metadata.deletionTimestamp)
    throw conflict(pods, name, `pod ${name} is being deleted, cannot be assigned to a host`);
  const present = pod.spec?.['nodeName'];
  if (typeof present === 'string' && present !== '')
    throw conflict(pods, name, `pod ${name} is already assigned to node "${present}"`);
  const condition = {
    type: 'PodScheduled',
    status: 'True',
    lastTransitionTime: timestamp(nowMs),
    lastProbeTime: null,
  };
  const others = fieldsIn(pod.status, 'conditions').filter(({ type }) => type !== 'PodScheduled');
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      annotations: { ...pod.metadata.annotations, ...binding.metadata?.annotations },
    },
    spec: { ...pod.spec, nodeName: node },
    status: { ...pod.status, conditions: [...others, condition] },
  };
}

/** The grace period of a deletion in seconds; 0 removes the pod at once. */
export function graceOf(pod: ApiObject, asked: number | undefined): number {
  const phase = pod.status?.['phase'];
  if (!pod.spec?.['nodeName'] || phase === 'Failed' || phase === 'Succeeded') return 0;
  const specified = pod.spec['terminationGracePeriodSeconds'];
  const grace = asked ?? (typeof specified === 'number' ? specified : GRACE_DEFAULT_SECONDS);
  return grace < 0 ? 1 : grace;
}

/**
 * The pod with its deletion requested; `undefined` if an earlier request had the same grace period or a shorter one.
 */
export function terminatingPod(pod: ApiObject, graceSeconds: number, nowMs: number): ApiObject | undefined {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, generation = 1 } = pod.metadata;
  if (deletionTimestamp !== undefined && graceSeconds >= deletionGracePeriodSeconds) return undefined;
  const began =
    deletionTimestamp === undefined ? nowMs : Date.parse(deletionTimestamp) - deletionGracePeriodSeconds * 1_000;
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      deletionTimestamp: timestamp(began + graceSeconds * 1_000),
      deletionGracePeriodSeconds: graceSeconds,
      // The recorded server counts the first deletion, and not a shorter grace after it.
      generation: deletionTimestamp === undefined ? generation + 1 : generation,
    },
  };
}

/** Marks the pod as disrupted, as the eviction API does before it deletes. */
export function evictedPod(pod: ApiObject, nowMs: number): ApiObject {
  const condition = {
    type: 'DisruptionTarget',
    status: 'True',
    lastTransitionTime: timestamp(nowMs),
    lastProbeTime: null,
    reason: 'EvictionByEvictionAPI',
    message: 'Eviction API: evicting',
  };
  const others = fieldsIn(pod.status, 'conditions').filter(({ type }) => type !== 'DisruptionTarget');
  return { ...pod, status: { ...pod.status, conditions: [...others, condition] } };
}
