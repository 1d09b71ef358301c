/** The kinds that a simulated API server stores, as in its discovery. */

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
