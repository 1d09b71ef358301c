/** Validates probes and lifecycle hooks. */
import type { Container, HTTPGetAction, LifecycleHandler, Probe } from '../api/pod.ts';
import {
  checked,
  errorsOf,
  type FieldError,
  forbidden,
  invalid,
  isHeaderName,
  isPortName,
  nonNegative,
  notSupported,
  oneOf,
  portNumber,
  required,
} from './field.ts';

type Handler = LifecycleHandler & Pick<Probe, 'grpc'>;

const HANDLER_KINDS = ['exec', 'httpGet', 'tcpSocket', 'grpc', 'sleep'] as const;

/** Probes and hooks of a regular container or a sidecar; others may not have them. */
export function validateHandlers(
  container: Container,
  gracePeriodSeconds: number,
  path: string,
  asKubelet: boolean,
): FieldError[] {
  const { lifecycle, livenessProbe, readinessProbe, startupProbe } = container;
  return errorsOf(
    lifecycle && validateLifecycle(lifecycle, gracePeriodSeconds, `${path}.lifecycle`, asKubelet),
    livenessProbe && validateProbe(livenessProbe, 'liveness', gracePeriodSeconds, `${path}.livenessProbe`),
    readinessProbe && validateProbe(readinessProbe, 'readiness', gracePeriodSeconds, `${path}.readinessProbe`),
    startupProbe && validateProbe(startupProbe, 'startup', gracePeriodSeconds, `${path}.startupProbe`),
  );
}

/** Rejects the same fields in an init container that runs to completion. */
export function refuseHandlers(container: Container, path: string): FieldError[] {
  const fields = ['lifecycle', 'livenessProbe', 'readinessProbe', 'startupProbe'] as const;
  return fields
    .filter((field) => container[field] !== undefined)
    .map((field) => forbidden(`${path}.${field}`, 'may not be set for init containers without restartPolicy=Always'));
}

function validateLifecycle(
  { postStart, preStop, stopSignal }: NonNullable<Container['lifecycle']>,
  gracePeriodSeconds: number,
  path: string,
  asKubelet: boolean,
): FieldError[] {
  return errorsOf(
    postStart && validateHandler(postStart, gracePeriodSeconds, `${path}.postStart`),
    preStop && validateHandler(preStop, gracePeriodSeconds, `${path}.preStop`),
    !asKubelet &&
      stopSignal !== undefined &&
      !/^SIG[A-Z0-9+-]+$/.test(stopSignal) &&
      notSupported(`${path}.stopSignal`, stopSignal, ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']),
  );
}

type ProbeType = 'liveness' | 'readiness' | 'startup';

function validateProbe(probe: Probe, type: ProbeType, gracePeriodSeconds: number, path: string): FieldError[] {
  const counts = [
    'initialDelaySeconds',
    'timeoutSeconds',
    'periodSeconds',
    'successThreshold',
    'failureThreshold',
  ] as const;
  const { successThreshold, terminationGracePeriodSeconds: grace } = probe;
  return errorsOf(
    validateHandler(probe, gracePeriodSeconds, path),
    counts.flatMap((field) => nonNegative(`${path}.${field}`, probe[field])),
    grace !== undefined &&
      grace <= 0 &&
      invalid(`${path}.terminationGracePeriodSeconds`, grace, 'must be greater than 0'),
    type === 'readiness' &&
      grace !== undefined &&
      invalid(`${path}.terminationGracePeriodSeconds`, grace, 'must not be set for readinessProbes'),
    type !== 'readiness' &&
      successThreshold !== 1 &&
      invalid(`${path}.successThreshold`, successThreshold, 'must be 1'),
  );
}

function validateHandler(handler: Handler, gracePeriodSeconds: number, path: string): FieldError[] {
  const [first, ...others] = HANDLER_KINDS.filter((kind) => handler[kind] !== undefined);
  if (first === undefined) return [required(path, 'must specify a handler type')];
  return [
    ...validateAction(handler, gracePeriodSeconds, path, first),
    ...others.map((kind) => forbidden(`${path}.${kind}`, 'may not specify more than 1 handler type')),
  ];
}

function validateAction(
  { exec, httpGet, tcpSocket, grpc, sleep }: Handler,
  gracePeriodSeconds: number,
  path: string,
  kind: (typeof HANDLER_KINDS)[number],
): FieldError[] {
  if (kind === 'exec') return exec?.command?.length ? [] : [required(`${path}.exec.command`)];
  if (kind === 'httpGet') return httpGet ? validateHttpGet(httpGet, `${path}.httpGet`) : [];
  if (kind === 'tcpSocket') return validatePort(tcpSocket?.port, `${path}.tcpSocket.port`);
  if (kind === 'grpc') return portNumber(`${path}.grpc.port`, grpc?.port ?? 0);
  const seconds = sleep?.seconds ?? 0;
  if (seconds >= 0 && seconds <= gracePeriodSeconds) return [];
  const detail = `must be non-negative and less than terminationGracePeriodSeconds (${gracePeriodSeconds})`;
  return [invalid(`${path}.sleep`, seconds, detail)];
}

function validateHttpGet({ port, scheme, httpHeaders = [] }: HTTPGetAction, path: string): FieldError[] {
  return [
    ...validatePort(port, `${path}.port`),
    ...oneOf(`${path}.scheme`, scheme, ['HTTP', 'HTTPS']),
    ...httpHeaders.flatMap(({ name }) => checked(`${path}.httpHeaders`, name, isHeaderName)),
  ];
}

function validatePort(port: number | string | undefined, path: string): FieldError[] {
  return typeof port === 'string' ? checked(path, port, isPortName) : portNumber(path, port ?? 0);
}
