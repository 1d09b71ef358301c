/**
 * The types of all fields of the API's Pod (v1, Kubernetes 1.36), including those that this agent does not read.
 *
 * A node of 0.2.0 kept most of these fields unchecked and dropped others; a replay of its journal uses {@link
 * podSchema} alone.
 */
import { podSchema } from './pod-schema.ts';
import {
  any,
  boolean,
  int32,
  int64,
  list,
  map,
  needed,
  object,
  quantity,
  type Schema,
  string,
  time,
} from './schema.ts';

const localReference = object({ name: string });
const labelSelector = object({
  matchLabels: map(string),
  matchExpressions: list(object({ key: needed(string), operator: needed(string), values: list(string) })),
});
const requirements = list(object({ key: needed(string), operator: needed(string), values: list(string) }));
const nodeTerm = object({ matchExpressions: requirements, matchFields: requirements });
const podTerm = object({
  labelSelector,
  namespaces: list(string),
  topologyKey: needed(string),
  namespaceSelector: labelSelector,
  matchLabelKeys: list(string),
  mismatchLabelKeys: list(string),
});
const podAffinity = object({
  requiredDuringSchedulingIgnoredDuringExecution: list(podTerm),
  preferredDuringSchedulingIgnoredDuringExecution: list(
    object({ weight: needed(int32), podAffinityTerm: needed(podTerm) }),
  ),
});
const affinity = object({
  nodeAffinity: object({
    requiredDuringSchedulingIgnoredDuringExecution: object({ nodeSelectorTerms: needed(list(nodeTerm)) }),
    preferredDuringSchedulingIgnoredDuringExecution: list(
      object({ weight: needed(int32), preference: needed(nodeTerm) }),
    ),
  }),
  podAffinity,
  podAntiAffinity: podAffinity,
});
const topologySpreadConstraints = list(
  object({
    maxSkew: needed(int32),
    topologyKey: needed(string),
    whenUnsatisfiable: needed(string),
    labelSelector,
    minDomains: int32,
    nodeAffinityPolicy: string,
    nodeTaintsPolicy: string,
    matchLabelKeys: list(string),
  }),
);
const windowsOptions = object({
  gmsaCredentialSpecName: string,
  gmsaCredentialSpec: string,
  runAsUserName: string,
  hostProcess: boolean,
});

const typedReference = { apiGroup: string, kind: needed(string), name: needed(string) };
const claimTemplate = object({
  metadata: any,
  spec: needed(
    object({
      accessModes: list(string),
      selector: labelSelector,
      resources: object({ limits: map(quantity), requests: map(quantity) }),
      volumeName: string,
      storageClassName: string,
      volumeMode: string,
      dataSource: object(typedReference),
      dataSourceRef: object({ ...typedReference, namespace: string }),
      volumeAttributesClassName: string,
    }),
  ),
});

const volumes: Readonly<Record<string, Schema>> = {
  awsElasticBlockStore: object({ volumeID: needed(string), fsType: string, partition: int32, readOnly: boolean }),
  azureDisk: object({
    diskName: needed(string),
    diskURI: needed(string),
    cachingMode: string,
    fsType: string,
    readOnly: boolean,
    kind: string,
  }),
  azureFile: object({ secretName: needed(string), shareName: needed(string), readOnly: boolean }),
  cephfs: object({
    monitors: needed(list(string)),
    path: string,
    user: string,
    secretFile: string,
    secretRef: localReference,
    readOnly: boolean,
  }),
  cinder: object({ volumeID: needed(string), fsType: string, readOnly: boolean, secretRef: localReference }),
  csi: object({
    driver: needed(string),
    readOnly: boolean,
    fsType: string,
    volumeAttributes: map(string),
    nodePublishSecretRef: localReference,
  }),
  ephemeral: object({ volumeClaimTemplate: claimTemplate }),
  fc: object({ targetWWNs: list(string), lun: int32, fsType: string, readOnly: boolean, wwids: list(string) }),
  flexVolume: object({
    driver: needed(string),
    fsType: string,
    secretRef: localReference,
    readOnly: boolean,
    options: map(string),
  }),
  flocker: object({ datasetName: string, datasetUUID: string }),
  gcePersistentDisk: object({ pdName: needed(string), fsType: string, partition: int32, readOnly: boolean }),
  glusterfs: object({ endpoints: needed(string), path: needed(string), readOnly: boolean }),
  iscsi: object({
    targetPortal: needed(string),
    iqn: needed(string),
    lun: needed(int32),
    iscsiInterface: string,
    fsType: string,
    readOnly: boolean,
    portals: list(string),
    chapAuthDiscovery: boolean,
    chapAuthSession: boolean,
    secretRef: localReference,
    initiatorName: string,
  }),
  photonPersistentDisk: object({ pdID: needed(string), fsType: string }),
  portworxVolume: object({ volumeID: needed(string), fsType: string, readOnly: boolean }),
  quobyte: object({
    registry: needed(string),
    volume: needed(string),
    readOnly: boolean,
    user: string,
    group: string,
    tenant: string,
  }),
  rbd: object({
    monitors: needed(list(string)),
    image: needed(string),
    fsType: string,
    pool: string,
    user: string,
    keyring: string,
    secretRef: localReference,
    readOnly: boolean,
  }),
  scaleIO: object({
    gateway: needed(string),
    system: needed(string),
    secretRef: localReference,
    sslEnabled: boolean,
    protectionDomain: string,
    storagePool: string,
    storageMode: string,
    volumeName: needed(string),
    fsType: string,
    readOnly: boolean,
  }),
  storageos: object({
    volumeName: string,
    volumeNamespace: string,
    fsType: string,
    readOnly: boolean,
    secretRef: localReference,
  }),
  vsphereVolume: object({
    volumePath: needed(string),
    fsType: string,
    storagePolicyName: string,
    storagePolicyID: string,
  }),
  'projected.sources.clusterTrustBundle': object({
    name: string,
    signerName: string,
    labelSelector,
    optional: boolean,
    path: needed(string),
  }),
  'projected.sources.podCertificate': object({
    signerName: needed(string),
    keyType: needed(string),
    maxExpirationSeconds: int32,
    credentialBundlePath: string,
    keyPath: string,
    certificateChainPath: string,
    userAnnotations: map(string),
  }),
};

const metadata: Readonly<Record<string, Schema>> = {
  creationTimestamp: time,
  deletionTimestamp: time,
  selfLink: string,
  resourceVersion: string,
  generation: int64,
  ownerReferences: list(
    object({
      apiVersion: needed(string),
      kind: needed(string),
      name: needed(string),
      uid: needed(string),
      controller: boolean,
      blockOwnerDeletion: boolean,
    }),
  ),
  managedFields: list(
    object({
      manager: string,
      operation: string,
      apiVersion: string,
      time,
      fieldsType: string,
      fieldsV1: any,
      subresource: string,
    }),
  ),
};

/** Types by the path of their field. Items of lists have the path of the list. */
const FIELDS: ReadonlyArray<readonly [path: string, type: Schema]> = [
  ...Object.entries(metadata).map(([name, type]) => [`metadata.${name}`, type] as const),
  ...Object.entries(volumes).map(([name, type]) => [`spec.volumes.${name}`, type] as const),
  ...['spec', 'spec.containers', 'spec.initContainers', 'spec.ephemeralContainers'].map(
    (place) => [`${place}.securityContext.windowsOptions`, windowsOptions] as const,
  ),
  ['spec.affinity', affinity],
  ['spec.topologySpreadConstraints', topologySpreadConstraints],
  ['spec.schedulingGroup', object({ podGroupName: string })],
];

export const fullPodSchema: Schema = FIELDS.reduce(
  (schema, [path, type]) => replaced(schema, path.split('.'), type),
  podSchema,
);

function replaced(schema: Schema, path: readonly string[], type: Schema): Schema {
  const [name, ...rest] = path;
  if (name === undefined) return type;
  if (schema.kind === 'list') return { ...schema, of: replaced(schema.of, path, type) };
  if (schema.kind !== 'object') return schema;
  return { ...schema, fields: { ...schema.fields, [name]: replaced(schema.fields[name] ?? any, rest, type) } };
}
