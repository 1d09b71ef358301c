/**
 * The rules of probing: which probes run now, what each calls, and the meaning of a verdict. Pure; the actors are
 * `prober.ts`, the pod's part is `pod-probes.ts`.
 *
 * Invariants:
 *   R1 results of probes belong to one instance of a container: the next instance starts without any.
 *   R2 until its startup probe has succeeded an instance has no other; after that it has no startup probe.
 *   R3 a verdict that ends an instance is the last one of its liveness and startup probes.
 *   R4 after a restart of the agent an instance keeps its results of the soft state; without them it is not ready (and
 *      not started) until a probe succeeds.
 */

import { messageOf } from '../../../../kernel/xstate.ts';
import type { Container, HTTPGetAction, Pod, Probe } from '../../../model/api/pod.ts';
import type { ProbeHandler, ProbeWatch, Verdict } from '../../../model/operations/probe.ts';
import type { ContainerView, HttpRequest, ProbedInstance } from '../../../model/pods/pod-messages.ts';
import { ExpansionRoom, expand, wordHandles, writtenHandles } from '../../../model/spec/expansion.ts';
import type { ContainerFacts } from '../../../model/status/runtime-facts.ts';

export type ProbeKind = 'startup' | 'readiness' | 'liveness';

export interface ProbedState extends ProbedInstance {
  /** A probe has failed for good, and ends the instance. */
  readonly failed: boolean;
}

/** The state of an instance before any of its probes has run. */
export function initialState(
  { name }: Container,
  id: string,
  remembered: ProbedInstance | undefined,
  pod: Pod,
): ProbedState {
  if (remembered?.id === id) return { ...remembered, failed: false };
  const published = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])].find(
    (status) => status.name === name && status.containerID?.endsWith(`://${id}`) === true,
  );
  return { id, started: published?.started === true, ready: published?.ready === true, failed: false };
}

const DECLARED: Readonly<Record<ProbeKind, 'startupProbe' | 'readinessProbe' | 'livenessProbe'>> = {
  startup: 'startupProbe',
  readiness: 'readinessProbe',
  liveness: 'livenessProbe',
};

export const probeOf = (container: Container, kind: ProbeKind): Probe | undefined => container[DECLARED[kind]];

export const hasProbes = (container: Container): boolean =>
  container.startupProbe !== undefined ||
  container.readinessProbe !== undefined ||
  container.livenessProbe !== undefined;

/** True when its startup probe has succeeded, or it has none. */
export const isStarted = (container: Container, state: ProbedState): boolean =>
  container.startupProbe === undefined || state.started;

/**
 * The probes that run now. A probe that could only end an instance stops once the instance ends anyway; readiness
 * continues, so that clients notice when it stops serving.
 */
export function activeKinds(
  container: Container,
  state: ProbedState,
  phase: ContainerView['phase'],
  podEnds: boolean,
): readonly ProbeKind[] {
  const mayEnd = phase === 'running' && !podEnds && !state.failed;
  const kinds: readonly ProbeKind[] = isStarted(container, state) ? ['readiness', 'liveness'] : ['startup'];
  return kinds.filter((kind) => probeOf(container, kind) !== undefined && (kind === 'readiness' || mayEnd));
}

export function firstVerdict(kind: ProbeKind, { ready }: ProbedState): Verdict | null {
  if (kind === 'startup') return null;
  return kind === 'liveness' || ready ? 'success' : 'failure';
}

/** Milliseconds until the first attempt. `chance` spreads the probes of instances that the agent finds running. */
export function firstDelay(probe: Probe, { startedAtMs }: ContainerFacts, nowMs: number, chance: number): number {
  const ageMs = Math.max(0, nowMs - startedAtMs);
  const spreadMs = Math.round(chance * Math.min(ageMs, (probe.periodSeconds ?? 0) * 1_000));
  return Math.max(spreadMs, (probe.initialDelaySeconds ?? 0) * 1_000 - ageMs);
}

/** Period, timeout and thresholds, with the API's defaults for absent fields. */
const watchOf = (probe: Probe, verdict: Verdict | null): Omit<ProbeWatch, 'handler'> => ({
  periodSeconds: probe.periodSeconds ?? 10,
  timeoutSeconds: probe.timeoutSeconds ?? 1,
  successThreshold: probe.successThreshold ?? 1,
  failureThreshold: probe.failureThreshold ?? 3,
  verdict,
});

/** Syncs of a pod are up to half as long again apart as the configuration says. */
const SYNC_JITTER = 0.5;

/**
 * As upstream, each sync of a pod probes the readiness of a container that is not ready: one with a longer period does
 * not wait for it.
 */
export function watchOfKind(
  kind: ProbeKind,
  probe: Probe,
  state: ProbedState,
  { syncMs, chance }: { readonly syncMs: number; readonly chance: number },
): Omit<ProbeWatch, 'handler'> {
  const watch = watchOf(probe, firstVerdict(kind, state));
  const syncSeconds = Math.round((syncMs * (1 + SYNC_JITTER * chance)) / 1_000);
  if (kind !== 'readiness' || syncSeconds >= watch.periodSeconds) return watch;
  return { ...watch, unreadyPeriodSeconds: Math.max(1, syncSeconds) };
}

/** The call of a probe, or why there can be none. */
export type ProbeCall = { readonly handler: ProbeHandler } | { readonly error: string };

export function handlerOf(probe: Probe, container: Container, containerId: string, podIP: string): ProbeCall {
  const { exec, httpGet, tcpSocket, grpc } = probe;
  if (exec) {
    try {
      const command = expandLiterals(exec.command ?? [], container);
      const secrets = writtenHandles(container).filter(({ $secret }) => command.some((word) => word.includes($secret)));
      const words = wordHandles({ command: exec.command ?? [] });
      const handles = { ...(secrets.length === 0 ? {} : { secrets }), ...(words.length === 0 ? {} : { words }) };
      return { handler: { kind: 'exec', containerId, command, ...handles } };
    } catch (error) {
      return { error: messageOf(error) };
    }
  }
  if (httpGet) return httpHandler(httpGet, container, podIP);
  if (tcpSocket) {
    const port = portOf(tcpSocket.port, container);
    if ('error' in port) return port;
    return { handler: { kind: 'tcpSocket', host: tcpSocket.host || podIP, port: port.port } };
  }
  if (!grpc) return { error: `missing probe handler for container ${container.name}` };
  return { handler: { kind: 'grpc', host: podIP, port: grpc.port, service: grpc.service ?? '' } };
}

function httpHandler(action: HTTPGetAction, container: Container, podIP: string): ProbeCall {
  const request = httpRequest(action, container);
  if ('error' in request) return request;
  return { handler: { kind: 'httpGet', url: urlOf(request, podIP), headers: request.headers } };
}

export function httpRequest(
  { host = '', port: wanted, path = '/', scheme = 'HTTP', httpHeaders = [] }: HTTPGetAction,
  container: Container,
): HttpRequest | { readonly error: string } {
  const port = portOf(wanted, container);
  if ('error' in port) return port;
  const headers = httpHeaders.map(({ name, value }) => ({ name, value }));
  return { scheme: scheme.toLowerCase(), host, port: port.port, path, headers };
}

export function urlOf({ scheme, host, port, path }: HttpRequest, podIP: string): string {
  const name = host || podIP;
  const authority = `${name.includes(':') ? `[${name}]` : name}:${port}`;
  return `${scheme}://${authority}${path.startsWith('/') ? '' : '/'}${path}`;
}

const PORT_MAX = 65_535;

function portOf(wanted: unknown, { ports = [] }: Container): { readonly port: number } | { readonly error: string } {
  const named = typeof wanted === 'string' ? ports.find(({ name }) => name === wanted)?.containerPort : undefined;
  const text = String(wanted);
  if (named === undefined && !/^[+-]?\d+$/.test(text)) {
    return { error: `strconv.Atoi: parsing ${JSON.stringify(text)}: invalid syntax` };
  }
  const port = named ?? Number(text);
  return port > 0 && port <= PORT_MAX ? { port } : { error: `invalid port number: ${port}` };
}

/** Only variables with a literal value are known here. */
function expandLiterals(words: readonly string[], { env = [] }: Container): readonly string[] {
  const room = new ExpansionRoom();
  const values = new Map(env.map(({ name, value }) => [name, value ?? '']));
  return words.map((word) => expand(word, (name) => values.get(name), room));
}
