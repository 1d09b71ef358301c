/** A container as `kubectl describe pod` prints it. */
import type { Container, ContainerState, ContainerStatus, EnvVar, Probe } from '../../machines/model/api/pod.ts';

export function containers(title: string, all: readonly Container[], statuses: readonly ContainerStatus[]): string[] {
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

export const NONE = '<none>';

export const time = (at: string): string => new Date(at).toUTCString().replace('GMT', '+0000');
