/**
 * The fields of the API's Pod (v1, Kubernetes 1.36) and their types, except those that only the API server sets.
 *
 * Affinity, the claims of dynamic resource allocation and vendor volume plugins are kept without validation: this agent
 * does not read them.
 */
import {
  any,
  boolean,
  int32,
  int64,
  intOrString,
  list,
  map,
  needed,
  object,
  quantity,
  type Schema,
  string,
} from './schema.ts';

const localReference = object({ name: string });
const keySelector = object({ name: string, key: needed(string), optional: boolean });
const fieldRef = object({ apiVersion: string, fieldPath: needed(string) });
const resourceFieldRef = object({ containerName: string, resource: needed(string), divisor: quantity });
const keyToPath = object({ key: needed(string), path: needed(string), mode: int32 });
const resources = object({
  limits: map(quantity),
  requests: map(quantity),
  claims: list(object({ name: needed(string), request: string })),
});

const httpGet = object({
  path: string,
  port: needed(intOrString),
  host: string,
  scheme: string,
  httpHeaders: list(object({ name: needed(string), value: needed(string) })),
});
const handler = {
  exec: object({ command: list(string) }),
  httpGet,
  tcpSocket: object({ port: needed(intOrString), host: string }),
};
const probe = object({
  ...handler,
  grpc: object({ port: needed(int32), service: string }),
  initialDelaySeconds: int32,
  timeoutSeconds: int32,
  periodSeconds: int32,
  successThreshold: int32,
  failureThreshold: int32,
  terminationGracePeriodSeconds: int64,
});
const lifecycleHandler = object({ ...handler, sleep: object({ seconds: needed(int64) }) });

const seLinuxOptions = object({ user: string, role: string, type: string, level: string });
const profile = object({ type: needed(string), localhostProfile: string });

const securityContext = object({
  capabilities: object({ add: list(string), drop: list(string) }),
  privileged: boolean,
  seLinuxOptions,
  windowsOptions: any,
  runAsUser: int64,
  runAsGroup: int64,
  runAsNonRoot: boolean,
  readOnlyRootFilesystem: boolean,
  allowPrivilegeEscalation: boolean,
  procMount: string,
  seccompProfile: profile,
  appArmorProfile: profile,
});

const podSecurityContext = object({
  seLinuxOptions,
  windowsOptions: any,
  runAsUser: int64,
  runAsGroup: int64,
  runAsNonRoot: boolean,
  supplementalGroups: list(int64),
  supplementalGroupsPolicy: string,
  fsGroup: int64,
  sysctls: list(object({ name: needed(string), value: needed(string) })),
  fsGroupChangePolicy: string,
  seccompProfile: profile,
  appArmorProfile: profile,
  seLinuxChangePolicy: string,
});

const envVar = object({
  name: needed(string),
  value: string,
  valueFrom: object({
    fieldRef,
    resourceFieldRef,
    configMapKeyRef: keySelector,
    secretKeyRef: keySelector,
    fileKeyRef: object({ volumeName: needed(string), path: needed(string), key: needed(string), optional: boolean }),
  }),
});

const containerPorts = list(
  object({ name: string, hostPort: int32, containerPort: needed(int32), protocol: string, hostIP: string }),
);

/** Annotations of a container about its end, as written by an agent. */
export const stopAnnotations = object({ preStop: lifecycleHandler, ports: containerPorts });

const containerFields: Readonly<Record<string, Schema>> = {
  name: needed(string),
  image: string,
  command: list(string),
  args: list(string),
  workingDir: string,
  ports: containerPorts,
  envFrom: list(
    object({
      prefix: string,
      configMapRef: object({ name: string, optional: boolean }),
      secretRef: object({ name: string, optional: boolean }),
    }),
  ),
  env: list(envVar),
  resources,
  resizePolicy: list(object({ resourceName: needed(string), restartPolicy: needed(string) })),
  restartPolicy: string,
  restartPolicyRules: list(
    object({ action: needed(string), exitCodes: object({ operator: needed(string), values: list(int32) }) }),
  ),
  volumeMounts: list(
    object({
      name: needed(string),
      readOnly: boolean,
      recursiveReadOnly: string,
      mountPath: needed(string),
      subPath: string,
      mountPropagation: string,
      subPathExpr: string,
    }),
  ),
  volumeDevices: list(object({ name: needed(string), devicePath: needed(string) })),
  livenessProbe: probe,
  readinessProbe: probe,
  startupProbe: probe,
  lifecycle: object({ postStart: lifecycleHandler, preStop: lifecycleHandler, stopSignal: string }),
  terminationMessagePath: string,
  terminationMessagePolicy: string,
  imagePullPolicy: string,
  securityContext,
  stdin: boolean,
  stdinOnce: boolean,
  tty: boolean,
};
const container = object(containerFields);

const downwardItems = list(object({ path: needed(string), fieldRef, resourceFieldRef, mode: int32 }));
const keyedSource = { items: list(keyToPath), optional: boolean };

const projection = object({
  secret: object({ name: string, ...keyedSource }),
  configMap: object({ name: string, ...keyedSource }),
  downwardAPI: object({ items: downwardItems }),
  serviceAccountToken: object({ audience: string, expirationSeconds: int64, path: needed(string) }),
  clusterTrustBundle: any,
  podCertificate: any,
});

/** Vendor volume plugins: kept, but not read. */
const VENDOR_VOLUMES = [
  'awsElasticBlockStore',
  'azureDisk',
  'azureFile',
  'cephfs',
  'cinder',
  'fc',
  'flexVolume',
  'flocker',
  'gcePersistentDisk',
  'glusterfs',
  'photonPersistentDisk',
  'portworxVolume',
  'quobyte',
  'rbd',
  'scaleIO',
  'storageos',
  'vsphereVolume',
] as const;

const volumeSources: Readonly<Record<string, Schema>> = {
  hostPath: object({ path: needed(string), type: string }),
  emptyDir: object({ medium: string, sizeLimit: quantity }),
  gitRepo: object({ repository: needed(string), revision: string, directory: string }),
  secret: object({ secretName: string, defaultMode: int32, ...keyedSource }),
  configMap: object({ name: string, defaultMode: int32, ...keyedSource }),
  downwardAPI: object({ items: downwardItems, defaultMode: int32 }),
  projected: object({ sources: list(projection), defaultMode: int32 }),
  nfs: object({ server: needed(string), path: needed(string), readOnly: boolean }),
  iscsi: any,
  persistentVolumeClaim: object({ claimName: needed(string), readOnly: boolean }),
  csi: any,
  ephemeral: any,
  image: object({ reference: string, pullPolicy: string }),
  ...Object.fromEntries(VENDOR_VOLUMES.map((name) => [name, any])),
};

/** Every kind of volume of the API, in its order. */
export const VOLUME_KINDS: readonly string[] = Object.keys(volumeSources);

const spec = object({
  volumes: list(object({ name: needed(string), ...volumeSources })),
  initContainers: list(container),
  containers: needed(list(container)),
  ephemeralContainers: list(object({ ...containerFields, targetContainerName: string })),
  restartPolicy: string,
  terminationGracePeriodSeconds: int64,
  activeDeadlineSeconds: int64,
  dnsPolicy: string,
  nodeSelector: map(string),
  serviceAccountName: string,
  serviceAccount: string,
  automountServiceAccountToken: boolean,
  nodeName: string,
  hostNetwork: boolean,
  hostPID: boolean,
  hostIPC: boolean,
  shareProcessNamespace: boolean,
  securityContext: podSecurityContext,
  imagePullSecrets: list(localReference),
  hostname: string,
  subdomain: string,
  affinity: any,
  schedulerName: string,
  tolerations: list(object({ key: string, operator: string, value: string, effect: string, tolerationSeconds: int64 })),
  hostAliases: list(object({ ip: needed(string), hostnames: list(string) })),
  priorityClassName: string,
  priority: int32,
  dnsConfig: object({
    nameservers: list(string),
    searches: list(string),
    options: list(object({ name: string, value: string })),
  }),
  readinessGates: list(object({ conditionType: needed(string) })),
  runtimeClassName: string,
  enableServiceLinks: boolean,
  preemptionPolicy: string,
  overhead: map(quantity),
  topologySpreadConstraints: any,
  setHostnameAsFQDN: boolean,
  os: object({ name: needed(string) }),
  hostUsers: boolean,
  schedulingGates: list(object({ name: needed(string) })),
  resourceClaims: list(object({ name: needed(string), resourceClaimName: string, resourceClaimTemplateName: string })),
  resources,
  hostnameOverride: string,
  schedulingGroup: any,
});

const metadata = object({
  name: string,
  generateName: string,
  namespace: string,
  uid: string,
  creationTimestamp: string,
  deletionTimestamp: string,
  deletionGracePeriodSeconds: int64,
  labels: map(string),
  annotations: map(string),
  finalizers: list(string),
});

export const podSchema: Schema = object({ apiVersion: string, kind: string, metadata, spec });
