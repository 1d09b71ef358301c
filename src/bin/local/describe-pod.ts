/** A pod as `kubectl describe pod` prints it. Upstream: kubectl pkg/describe. */
import { alignTabs } from './align-tabs.ts';
import { containers, NONE, time } from './describe-container.ts';
import { volumeLines } from './describe-volumes.ts';
import type { LocalPod } from './node-client.ts';
import { age } from './pod-table.ts';

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
