/** The kinds that a simulated API server stores, as in its discovery. Also the types of its objects. */

export interface Kind {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly shortNames: readonly string[];
  readonly subresources: readonly string[];
  /** Objects that are posted and answered, but not stored. */
  readonly review: boolean;
}

interface Row {
  readonly cluster?: boolean;
  readonly short?: string;
  readonly sub?: string;
  readonly review?: boolean;
}

const TABLE: Readonly<Record<string, Readonly<Record<string, readonly [string, Row?]>>>> = {
  v1: {
    namespaces: ['Namespace', { cluster: true, short: 'ns', sub: 'status finalize' }],
    nodes: ['Node', { cluster: true, short: 'no', sub: 'status proxy' }],
    pods: [
      'Pod',
      {
        short: 'po',
        sub: 'status log exec attach portforward proxy eviction binding ephemeralcontainers resize',
      },
    ],
    secrets: ['Secret'],
    configmaps: ['ConfigMap', { short: 'cm' }],
    services: ['Service', { short: 'svc', sub: 'status' }],
    endpoints: ['Endpoints', { short: 'ep' }],
    serviceaccounts: ['ServiceAccount', { short: 'sa', sub: 'token' }],
    events: ['Event', { short: 'ev' }],
    persistentvolumes: ['PersistentVolume', { cluster: true, short: 'pv', sub: 'status' }],
    persistentvolumeclaims: ['PersistentVolumeClaim', { short: 'pvc', sub: 'status' }],
    replicationcontrollers: ['ReplicationController', { short: 'rc', sub: 'status' }],
    limitranges: ['LimitRange', { short: 'limits' }],
    resourcequotas: ['ResourceQuota', { short: 'quota', sub: 'status' }],
  },
  'apps/v1': {
    deployments: ['Deployment', { short: 'deploy', sub: 'status' }],
    replicasets: ['ReplicaSet', { short: 'rs', sub: 'status' }],
    daemonsets: ['DaemonSet', { short: 'ds', sub: 'status' }],
    statefulsets: ['StatefulSet', { short: 'sts', sub: 'status' }],
  },
  'batch/v1': { jobs: ['Job', { sub: 'status' }], cronjobs: ['CronJob', { short: 'cj', sub: 'status' }] },
  'coordination.k8s.io/v1': { leases: ['Lease'] },
  'node.k8s.io/v1': { runtimeclasses: ['RuntimeClass', { cluster: true }] },
  'scheduling.k8s.io/v1': { priorityclasses: ['PriorityClass', { cluster: true, short: 'pc' }] },
  'policy/v1': { poddisruptionbudgets: ['PodDisruptionBudget', { short: 'pdb', sub: 'status' }] },
  'discovery.k8s.io/v1': { endpointslices: ['EndpointSlice'] },
  'storage.k8s.io/v1': {
    csidrivers: ['CSIDriver', { cluster: true }],
    csinodes: ['CSINode', { cluster: true }],
    storageclasses: ['StorageClass', { cluster: true, short: 'sc' }],
    volumeattachments: ['VolumeAttachment', { cluster: true, sub: 'status' }],
  },
  'resource.k8s.io/v1': {
    deviceclasses: ['DeviceClass', { cluster: true }],
    resourceclaims: ['ResourceClaim', { sub: 'status' }],
    resourceclaimtemplates: ['ResourceClaimTemplate'],
    resourceslices: ['ResourceSlice', { cluster: true }],
  },
  'certificates.k8s.io/v1': {
    certificatesigningrequests: ['CertificateSigningRequest', { cluster: true, short: 'csr', sub: 'status approval' }],
  },
  'certificates.k8s.io/v1beta1': {
    clustertrustbundles: ['ClusterTrustBundle', { cluster: true }],
    podcertificaterequests: ['PodCertificateRequest', { sub: 'status' }],
  },
  'rbac.authorization.k8s.io/v1': {
    clusterroles: ['ClusterRole', { cluster: true }],
    clusterrolebindings: ['ClusterRoleBinding', { cluster: true }],
    roles: ['Role'],
    rolebindings: ['RoleBinding'],
  },
  'authentication.k8s.io/v1': { tokenreviews: ['TokenReview', { cluster: true, review: true }] },
  'authorization.k8s.io/v1': {
    subjectaccessreviews: ['SubjectAccessReview', { cluster: true, review: true }],
    selfsubjectaccessreviews: ['SelfSubjectAccessReview', { cluster: true, review: true }],
  },
};

/** `['', 'v1']`, `['coordination.k8s.io', 'v1']`. */
const split = (groupVersion: string): readonly [string, string] => {
  const at = groupVersion.indexOf('/');
  return at < 0 ? ['', groupVersion] : [groupVersion.slice(0, at), groupVersion.slice(at + 1)];
};

const words = (text: string | undefined): readonly string[] => (text ? text.split(' ') : []);

export const KINDS: readonly Kind[] = Object.entries(TABLE).flatMap(([groupVersion, resources]) => {
  const [group, version] = split(groupVersion);
  return Object.entries(resources).map(([resource, [kind, row = {}]]) => ({
    group,
    version,
    resource,
    kind,
    namespaced: row.cluster !== true,
    shortNames: words(row.short),
    subresources: words(row.sub),
    review: row.review === true,
  }));
});

export const apiVersionOf = ({ group, version }: Kind): string => (group === '' ? version : `${group}/${version}`);

const byPath = new Map(KINDS.map((kind) => [`${apiVersionOf(kind)}/${kind.resource}`, kind]));

/** The kind of `pods` in `v1`. */
export const kindOf = (apiVersion: string, resource: string): Kind | undefined =>
  byPath.get(`${apiVersion}/${resource}`);

/** As {@link kindOf}, for kinds that are in the table. */
export function knownKind(apiVersion: string, resource: string): Kind {
  const kind = kindOf(apiVersion, resource);
  if (!kind) throw new Error(`the simulated API server has no ${resource} in ${apiVersion}`);
  return kind;
}

/** Types of the simulated API server. */
export type Value = null | boolean | number | string | Value[] | { [key: string]: Value };
export type Fields = { [key: string]: Value };

export interface Metadata {
  name: string;
  namespace?: string;
  generateName?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
}

/** A stored object. It is never changed in place: each write stores a new one. */
export interface ApiObject {
  apiVersion: string;
  kind: string;
  metadata: Metadata;
  spec?: Fields;
  status?: Fields;
  [key: string]: unknown;
}

export type { User } from '../../actors/server/http/endpoint.ts';

/** Parses JSON; large integers stay exact as text. */
export function parseJson(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { source?: string }) => {
    const source = context?.source;
    if (typeof value !== 'number' || source === undefined) return value;
    return Number.isInteger(value) && !Number.isSafeInteger(value) ? JSON.rawJSON(source) : value;
  });
}

export function fieldsIn(fields: Fields | undefined, name: string): Fields[] {
  const list = fields?.[name];
  return Array.isArray(list) ? list.filter(isFields) : [];
}

/** A deep copy. */
export function copy<T>(value: T): T {
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value;
  if (Array.isArray(value)) return value.map((part: unknown) => copy(part)) as T;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, copy(part)])) as T;
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);

export const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** RFC 3339 in seconds, as metav1.Time. */
export const timestamp = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
