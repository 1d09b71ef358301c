/** Pods as `kubectl get pods` prints them. Upstream: pkg/printers/internalversion. */
import type { ContainerStatus, PodStatus } from '../../machines/model/api/pod.ts';
import type { LocalPod } from './node-client.ts';

const isSidecar = (pod: LocalPod, name: string): boolean =>
  pod.spec.initContainers?.find((each) => each.name === name)?.restartPolicy === 'Always';

/** The text in the column STATUS. */
export function podReason(pod: LocalPod): string {
  const { status, metadata } = pod;
  const base = status.reason ?? status.phase ?? 'Unknown';
  const initial = initReason(pod);
  const isInitialized = initial === null || hasCondition(status, 'Initialized');
  const reason = isInitialized ? runningReason(status, initial ?? base) : initial;
  if (metadata.deletionTimestamp === undefined) return reason;
  return status.reason === 'NodeLost' ? 'Unknown' : 'Terminating';
}

function initReason(pod: LocalPod): string | null {
  const statuses = pod.status.initContainerStatuses ?? [];
  const total = pod.spec.initContainers?.length ?? 0;
  for (const [nth, { name, state, started }] of statuses.entries()) {
    if (state?.terminated?.exitCode === 0 || (isSidecar(pod, name) && started)) continue;
    if (state?.terminated) return `Init:${endReason(state.terminated)}`;
    const waiting = state?.waiting?.reason;
    return waiting && waiting !== 'PodInitializing' ? `Init:${waiting}` : `Init:${nth}/${total}`;
  }
  return null;
}

interface Ended {
  readonly reason?: string;
  readonly signal?: number;
  readonly exitCode: number;
}

const endReason = ({ reason, signal, exitCode }: Ended): string =>
  reason || (signal ? `Signal:${signal}` : `ExitCode:${exitCode}`);

function runningReason(status: PodStatus, base: string): string {
  const { containerStatuses = [] } = status;
  let reason = base;
  let hasRunning = false;
  for (const { state, ready } of containerStatuses.toReversed()) {
    if (state?.waiting?.reason) reason = state.waiting.reason;
    else if (state?.terminated) reason = endReason(state.terminated);
    else if (ready && state?.running) hasRunning = true;
  }
  if (reason !== 'Completed' || !hasRunning) return reason;
  return hasCondition(status, 'Ready') ? 'Running' : 'NotReady';
}

const hasCondition = ({ conditions = [] }: PodStatus, wanted: string): boolean =>
  conditions.some(({ type, status }) => type === wanted && status === 'True');

/** Containers that count for READY and RESTARTS: the regular ones, and sidecars. */
function counted(pod: LocalPod): ContainerStatus[] {
  const sidecars = (pod.status.initContainerStatuses ?? []).filter(({ name }) => isSidecar(pod, name));
  return [...sidecars, ...(pod.status.containerStatuses ?? [])];
}

function restarts(pod: LocalPod, nowMs: number): string {
  const isInitial = initReason(pod) !== null && !hasCondition(pod.status, 'Initialized');
  const statuses = isInitial ? (pod.status.initContainerStatuses ?? []) : counted(pod);
  const count = statuses.reduce((sum, { restartCount }) => sum + restartCount, 0);
  const ends = statuses.flatMap(({ lastState }) => lastState?.terminated?.finishedAt ?? []);
  const last = ends.sort().at(-1);
  return count > 0 && last !== undefined ? `${count} (${age(last, nowMs)} ago)` : String(count);
}

const COLUMNS = ['NAME', 'READY', 'STATUS', 'RESTARTS', 'AGE'];
const WIDE = ['IP', 'NODE', 'NOMINATED NODE', 'READINESS GATES'];

export interface TableOptions {
  readonly wide: boolean;
  readonly allNamespaces: boolean;
  readonly nowMs: number;
}

/** Header and rows; kubectl pads columns with three spaces. */
export function podRows(pods: readonly LocalPod[], { wide, allNamespaces, nowMs }: TableOptions): string[][] {
  const header = [...(allNamespaces ? ['NAMESPACE'] : []), ...COLUMNS, ...(wide ? WIDE : [])];
  return [header, ...pods.map((pod) => row(pod, { wide, allNamespaces, nowMs }))];
}

function row(pod: LocalPod, { wide, allNamespaces, nowMs }: TableOptions): string[] {
  const { metadata, spec, status } = pod;
  const sidecars = (spec.initContainers ?? []).filter(({ name }) => isSidecar(pod, name));
  const total = spec.containers.length + sidecars.length;
  const ready = counted(pod).filter((each) => each.ready).length;
  const cells = [
    metadata.name,
    `${ready}/${total}`,
    podReason(pod),
    restarts(pod, nowMs),
    age(metadata.creationTimestamp ?? status.startTime, nowMs),
  ];
  const more = [status.podIP || NONE, spec.nodeName || NONE, status.nominatedNodeName || NONE, gates(pod)];
  return [...(allNamespaces ? [metadata.namespace] : []), ...cells, ...(wide ? more : [])];
}

const NONE = '<none>';

/** How many of the conditions that its readiness waits for are true. */
function gates({ spec, status }: LocalPod): string {
  const gates = spec.readinessGates ?? [];
  if (gates.length === 0) return NONE;
  return `${gates.filter(({ conditionType }) => hasCondition(status, conditionType)).length}/${gates.length}`;
}

/** Columns as kubectl sets them: three spaces between, none at the end. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((cells) => cells[at]?.length ?? 0)));
  const lines = rows.map((cells) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('   ')
      .trimEnd(),
  );
  return lines.map((text) => `${text}\n`).join('');
}

/** How long ago, as kubectl prints it. Upstream: apimachinery duration.HumanDuration. */
const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;
const YEAR_S = 365 * DAY_S;

/** Up to `limit` seconds an age has this form; the first that fits counts. */
const FORMS: readonly (readonly [limit: number, form: (s: number) => string])[] = [
  [2 * MINUTE_S, (s) => `${s}s`],
  [10 * MINUTE_S, (s) => `${whole(s, MINUTE_S)}m${rest(s % MINUTE_S, 's')}`],
  [3 * HOUR_S, (s) => `${whole(s, MINUTE_S)}m`],
  [8 * HOUR_S, (s) => `${whole(s, HOUR_S)}h${rest(whole(s % HOUR_S, MINUTE_S), 'm')}`],
  [2 * DAY_S, (s) => `${whole(s, HOUR_S)}h`],
  [8 * DAY_S, (s) => `${whole(s, DAY_S)}d${rest(whole(s % DAY_S, HOUR_S), 'h')}`],
  [2 * YEAR_S, (s) => `${whole(s, DAY_S)}d`],
  [8 * YEAR_S, (s) => `${whole(s, YEAR_S)}y${rest(whole(s % YEAR_S, DAY_S), 'd')}`],
];

const whole = (seconds: number, unit: number): number => Math.floor(seconds / unit);
const rest = (amount: number, unit: string): string => (amount === 0 ? '' : `${amount}${unit}`);

/** @param at RFC 3339; `<unknown>` where there is no time */
export function age(at: string | undefined, nowMs: number): string {
  if (at === undefined) return '<unknown>';
  const seconds = Math.floor((nowMs - Date.parse(at)) / 1_000);
  if (seconds < 0) return '0s';
  const form = FORMS.find(([limit]) => seconds < limit)?.[1];
  return form ? form(seconds) : `${whole(seconds, YEAR_S)}y`;
}

/** Spaces between two columns. */
const PADDING = 2;

interface Line {
  readonly cells: readonly string[];
  readonly widths: number[];
}

export function alignTabs(text: string): string {
  const lines = text.split('\n').map((line): Line => ({ cells: line.split('\t'), widths: [] }));
  const hasNextCell = (row: number, column: number): boolean => (lines[row]?.cells.length ?? 0) > column + 1;
  const format = (column: number, from: number, to: number): void => {
    for (let row = from; row < to; row++) {
      if (!hasNextCell(row, column)) continue;
      let end = row;
      while (end < to && hasNextCell(end, column)) end += 1;
      const block = lines.slice(row, end);
      const width = Math.max(...block.map(({ cells }) => cells[column]?.length ?? 0)) + PADDING;
      for (const { widths } of block) widths[column] = width;
      format(column + 1, row, end);
      row = end - 1;
    }
  };
  format(0, 0, lines.length);
  return lines.map(({ cells, widths }) => cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('')).join('\n');
}
