/** A pod as `kubectl describe pod` prints it. Upstream: kubectl pkg/describe. */
import type {
  Container,
  ContainerState,
  ContainerStatus,
  EnvVar,
  PodSpec,
  Probe,
} from '../../machines/model/api/pod.ts';
import type { LocalPod } from './node-client.ts';
import { age, alignTabs } from './pod-table.ts';

export interface PodEvent {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  /** RFC 3339, of the last one. */
  readonly at: string;
  readonly count: number;
}

export function describePod(pod: LocalPod, events: readonly PodEvent[], nowMs: number): string {
  const lines = [
    ...heading(pod),
    ...containers('Init Containers', pod.spec.initContainers ?? [], pod.status.initContainerStatuses ?? []),
    ...containers('Containers', pod.spec.containers, pod.status.containerStatuses ?? []),
    ...conditions(pod),
    ...volumeLines(pod.spec.volumes ?? []),
    `QoS Class:\t${pod.status.qosClass ?? NONE}`,
    ...several('Node-Selectors:', pairs(pod.spec.nodeSelector)),
    ...several('Tolerations:', tolerations(pod)),
    ...eventLines(events, nowMs),
  ];
  return `${alignTabs(lines.join('\n'))}\n`;
}

const pairs = (map: Readonly<Record<string, string>> | undefined, join = '='): string[] =>
  Object.entries(map ?? {})
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([name, value]) => `${name}${join}${value}`);

/** A title beside the first value, the others below it. */
const several = (title: string, values: readonly string[]): string[] =>
  values.length === 0 ? [`${title}\t${NONE}`] : values.map((value, nth) => `${nth === 0 ? title : ''}\t${value}`);

function heading({ metadata, spec, status }: LocalPod): string[] {
  const host = status.hostIP === undefined ? '' : `/${status.hostIP}`;
  return [
    `Name:\t${metadata.name}`,
    `Namespace:\t${metadata.namespace}`,
    `Priority:\t${spec.priority ?? 0}`,
    ...(spec.priorityClassName ? [`Priority Class Name:\t${spec.priorityClassName}`] : []),
    ...(spec.runtimeClassName ? [`Runtime Class Name:\t${spec.runtimeClassName}`] : []),
    `Service Account:\t${spec.serviceAccountName ?? 'default'}`,
    `Node:\t${spec.nodeName ?? NONE}${host}`,
    ...(status.startTime ? [`Start Time:\t${time(status.startTime)}`] : []),
    ...several('Labels:', pairs(metadata.labels)),
    ...several('Annotations:', pairs(metadata.annotations, ': ')),
    `Status:\t${metadata.deletionTimestamp === undefined ? status.phase : 'Terminating'}`,
    ...(status.reason ? [`Reason:\t${status.reason}`] : []),
    ...(status.message ? [`Message:\t${status.message}`] : []),
    `IP:\t${status.podIP ?? ''}`,
    'IPs:',
    ...(status.podIPs?.length ? status.podIPs.map(({ ip }) => `  IP:\t${ip}`) : [`  ${NONE}`]),
  ];
}

function conditions({ status }: LocalPod): string[] {
  const all = status.conditions ?? [];
  if (all.length === 0) return [];
  return ['Conditions:', '  Type\tStatus', ...all.map((each) => `  ${each.type}\t${each.status} `)];
}

function tolerations({ spec }: LocalPod): string[] {
  return (spec.tolerations ?? []).map(({ key = '', value, effect, operator, tolerationSeconds }) => {
    const taint = `${key}${value ? `=${value}` : ''}${effect ? `:${effect}` : ''}`;
    const how = operator === 'Exists' && !value ? ` op=Exists` : '';
    return `${taint}${how}${tolerationSeconds === undefined ? '' : ` for ${tolerationSeconds}s`}`.trim();
  });
}

function eventLines(events: readonly PodEvent[], nowMs: number): string[] {
  if (events.length === 0) return [`Events:\t${NONE}`];
  const rows = events.map(({ type, reason, message, at, count }) => {
    const ago = count > 1 ? `${age(at, nowMs)} (x${count})` : age(at, nowMs);
    return `  ${type}\t${reason}\t${ago}\tkubelet\t${message.trim()}`;
  });
  return ['Events:', '  Type\tReason\tAge\tFrom\tMessage', '  ----\t------\t----\t----\t-------', ...rows];
}

function containers(title: string, all: readonly Container[], statuses: readonly ContainerStatus[]): string[] {
  if (all.length === 0) return [];
  return [
    `${title}:`,
    ...all.flatMap((each) =>
      container(
        each,
        statuses.find(({ name }) => name === each.name),
      ),
    ),
  ];
}

function container(spec: Container, status: ContainerStatus | undefined): string[] {
  const ports = (spec.ports ?? []).map(({ containerPort, protocol }) => `${containerPort}/${protocol ?? 'TCP'}`);
  const hostPorts = (spec.ports ?? []).map(({ hostPort, protocol }) => `${hostPort ?? 0}/${protocol ?? 'TCP'}`);
  const plural = ports.length > 1 ? 's' : '';
  return [
    `  ${spec.name}:`,
    `    Container ID:\t${status?.containerID ?? ''}`,
    `    Image:\t${spec.image ?? ''}`,
    `    Image ID:\t${status?.imageID ?? ''}`,
    `    Port${plural}:\t${ports.join(', ') || NONE}`,
    `    Host Port${plural}:\t${hostPorts.join(', ') || NONE}`,
    ...words('Command', spec.command),
    ...words('Args', spec.args),
    ...(status ? statusLines(status) : []),
    ...amounts('Limits', spec.resources?.limits),
    ...amounts('Requests', spec.resources?.requests),
    ...probe('Liveness', spec.livenessProbe),
    ...probe('Readiness', spec.readinessProbe),
    ...probe('Startup', spec.startupProbe),
    ...containerEnvironment(spec),
    ...containerMounts(spec),
  ];
}

const words = (title: string, all: readonly string[] | undefined): string[] =>
  all?.length ? [`    ${title}:`, ...all.flatMap((word) => word.split('\n').map((line) => `      ${line}`))] : [];

const amounts = (title: string, all: Readonly<Record<string, string>> | undefined): string[] => {
  const entries = Object.entries(all ?? {}).sort(([a], [b]) => a.localeCompare(b));
  return entries.length === 0 ? [] : [`    ${title}:`, ...entries.map(([name, value]) => `      ${name}:\t${value}`)];
};

function statusLines({ state, lastState, ready, restartCount }: ContainerStatus): string[] {
  return [
    ...stateLines('State', state),
    ...(lastState?.terminated ? stateLines('Last State', lastState) : []),
    `    Ready:\t${ready ? 'True' : 'False'}`,
    `    Restart Count:\t${restartCount}`,
  ];
}

function stateLines(title: string, state: ContainerState | undefined): string[] {
  const { running, waiting, terminated } = state ?? {};
  if (running) return [`    ${title}:\tRunning`, `      Started:\t${time(running.startedAt ?? '')}`];
  if (terminated) {
    return [
      `    ${title}:\tTerminated`,
      ...(terminated.reason ? [`      Reason:\t${terminated.reason}`] : []),
      ...(terminated.message ? [`      Message:\t${terminated.message}`] : []),
      `      Exit Code:\t${terminated.exitCode}`,
      ...(terminated.signal ? [`      Signal:\t${terminated.signal}`] : []),
      `      Started:\t${time(terminated.startedAt ?? '')}`,
      `      Finished:\t${time(terminated.finishedAt ?? '')}`,
    ];
  }
  return [`    ${title}:\tWaiting`, ...(waiting?.reason ? [`      Reason:\t${waiting.reason}`] : [])];
}

function probe(title: string, described: Probe | undefined): string[] {
  if (!described) return [];
  const { initialDelaySeconds = 0, timeoutSeconds = 1, periodSeconds = 10 } = described;
  const { successThreshold = 1, failureThreshold = 3 } = described;
  const numbers = `delay=${initialDelaySeconds}s timeout=${timeoutSeconds}s period=${periodSeconds}s`;
  return [`    ${title}:\t${action(described)} ${numbers} #success=${successThreshold} #failure=${failureThreshold}`];
}

function action({ exec, httpGet, tcpSocket, grpc }: Probe): string {
  if (exec) return `exec [${(exec.command ?? []).join(' ')}]`;
  if (httpGet) {
    const scheme = (httpGet.scheme ?? 'HTTP').toLowerCase();
    return `http-get ${scheme}://${httpGet.host ?? ''}:${String(httpGet.port)}/${(httpGet.path ?? '').replace(/^\//, '')}`;
  }
  if (tcpSocket) return `tcp-socket ${tcpSocket.host ?? ''}:${String(tcpSocket.port)}`;
  return grpc ? `grpc <pod>:${grpc.port} ${grpc.service ?? ''}` : 'unknown';
}

/** Environment and mounts of a container as `kubectl describe pod` prints them. */
function containerEnvironment({ env, envFrom }: Container): string[] {
  const sources = (envFrom ?? []).map(({ configMapRef, secretRef, prefix }) => {
    const [ref, kind] = configMapRef ? [configMapRef, 'ConfigMap'] : [secretRef, 'Secret'];
    const withPrefix = prefix ? ` with prefix '${prefix}'` : '';
    return `      ${ref?.name ?? ''}\t${kind}${withPrefix}\tOptional: ${ref?.optional ?? false}`;
  });
  const variables = (env ?? []).map((each) => `      ${each.name}:\t${valueOf(each)}`);
  return [
    ...(sources.length > 0 ? ['    Environment Variables from:', ...sources] : []),
    ...(variables.length > 0 ? ['    Environment:', ...variables] : [`    Environment:\t${NONE}`]),
  ];
}

/** The source of a value; values of Secrets are never shown. */
function valueOf({ value, valueFrom }: EnvVar): string {
  const { configMapKeyRef, secretKeyRef, fieldRef, resourceFieldRef } = valueFrom ?? {};
  if (configMapKeyRef) {
    const { key, name, optional = false } = configMapKeyRef;
    return `<set to the key '${key}' of config map '${name}'>\tOptional: ${optional}`;
  }
  if (secretKeyRef) {
    const { key, name, optional = false } = secretKeyRef;
    return `<set to the key '${key}' in secret '${name}'>\tOptional: ${optional}`;
  }
  if (fieldRef) return ` (${fieldRef.apiVersion ?? 'v1'}:${fieldRef.fieldPath})`;
  if (resourceFieldRef) return ` (${resourceFieldRef.resource})`;
  return value ?? '';
}

function containerMounts({ volumeMounts }: Container): string[] {
  const mounts = [...(volumeMounts ?? [])].sort((a, b) => a.mountPath.localeCompare(b.mountPath));
  if (mounts.length === 0) return [`    Mounts:\t${NONE}`];
  const lines = mounts.map(({ mountPath, name, readOnly, subPath }) => {
    const flags = [readOnly ? 'ro' : 'rw', ...(subPath ? [`path="${subPath}"`] : [])];
    return `      ${mountPath} from ${name} (${flags.join(',')})`;
  });
  return ['    Mounts:', ...lines];
}

const NONE = '<none>';

const time = (at: string): string => new Date(at).toUTCString().replace('GMT', '+0000');

type Volume = NonNullable<PodSpec['volumes']>[number];
type Projected = NonNullable<Volume['projected']>;

/** Volumes as `kubectl describe pod` prints them. */
const volumeLines = (volumes: readonly Volume[]): string[] =>
  volumes.length === 0
    ? ['Volumes:\t<none>']
    : [
        'Volumes:',
        ...volumes.flatMap((volume) => [`  ${volume.name}:`, ...source(volume).map((line) => `    ${line}`)]),
      ];

function source(volume: Volume): string[] {
  const { emptyDir, hostPath, configMap, secret, projected, downwardAPI, persistentVolumeClaim } = volume;
  if (emptyDir) {
    return [
      "Type:\tEmptyDir (a temporary directory that shares a pod's lifetime)",
      `Medium:\t${emptyDir.medium ?? ''}`,
      `SizeLimit:\t${emptyDir.sizeLimit ?? '<unset>'}`,
    ];
  }
  if (hostPath) {
    const type = `HostPathType:\t${hostPath.type ?? ''}`;
    return ['Type:\tHostPath (bare host directory volume)', `Path:\t${hostPath.path}`, type];
  }
  if (configMap) {
    const { name = '', optional = false } = configMap;
    return ['Type:\tConfigMap (a volume populated by a ConfigMap)', `Name:\t${name}`, `Optional:\t${optional}`];
  }
  if (secret) {
    const { secretName = '', optional = false } = secret;
    return ['Type:\tSecret (a volume populated by a Secret)', `SecretName:\t${secretName}`, `Optional:\t${optional}`];
  }
  if (projected) return projectedLines(projected);
  if (downwardAPI) return ['Type:\tDownwardAPI (a volume populated by information about the pod)'];
  if (persistentVolumeClaim) {
    const { claimName, readOnly = false } = persistentVolumeClaim;
    const type = 'Type:\tPersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)';
    return [type, `ClaimName:\t${claimName}`, `ReadOnly:\t${readOnly}`];
  }
  const kind = Object.keys(volume).find((key) => key !== 'name') ?? 'unknown';
  return [`Type:\t${kind}`];
}

function projectedLines({ sources }: Projected): string[] {
  const lines = (sources ?? []).flatMap(({ secret, downwardAPI, configMap, serviceAccountToken }) => {
    if (secret) return [`SecretName:\t${secret.name}`, `Optional:\t${secret.optional ?? '<nil>'}`];
    if (downwardAPI) return ['DownwardAPI:\ttrue'];
    if (configMap) return [`ConfigMapName:\t${configMap.name}`, `ConfigMapOptional:\t${configMap.optional ?? '<nil>'}`];
    return serviceAccountToken ? [`TokenExpirationSeconds:\t${serviceAccountToken.expirationSeconds ?? 3_600}`] : [];
  });
  return ['Type:\tProjected (a volume that contains injected data from multiple sources)', ...lines];
}
