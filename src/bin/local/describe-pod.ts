/** A pod as `kubectl describe pod` prints it. Upstream: kubectl pkg/describe. */
import type { Container, ContainerState, ContainerStatus, Probe } from '../../machines/model/api/pod.ts';
import { age } from './age.ts';
import { containerEnvironment, containerMounts } from './describe-parts.ts';
import { volumeLines } from './describe-volumes.ts';
import type { LocalPod } from './node-client.ts';
import { alignTabs } from './tab-writer.ts';

export interface PodEvent {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  /** RFC 3339, of the last one. */
  readonly at: string;
  readonly count: number;
}

const NONE = '<none>';

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

// ---- heading --------------------------------------------------------------------------------------------------------

const pairs = (map: Readonly<Record<string, string>> | undefined, join = '='): string[] =>
  Object.entries(map ?? {})
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([name, value]) => `${name}${join}${value}`);

/** A title beside the first of some values, the others below that. */
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

const time = (at: string): string => new Date(at).toUTCString().replace('GMT', '+0000');

// ---- containers -----------------------------------------------------------------------------------------------------

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

// ---- the rest -------------------------------------------------------------------------------------------------------

function conditions({ status }: LocalPod): string[] {
  const all = status.conditions ?? [];
  if (all.length === 0) return [];
  return ['Conditions:', '  Type\tStatus', ...all.map((each) => `  ${each.type}\t${each.status} `)];
}

function tolerations({ spec }: LocalPod): string[] {
  return (spec.tolerations ?? []).map(({ key = '', value, effect, operator, tolerationSeconds }) => {
    const what = `${key}${value ? `=${value}` : ''}${effect ? `:${effect}` : ''}`;
    const how = operator === 'Exists' && !value ? ` op=Exists` : '';
    return `${what}${how}${tolerationSeconds === undefined ? '' : ` for ${tolerationSeconds}s`}`.trim();
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
