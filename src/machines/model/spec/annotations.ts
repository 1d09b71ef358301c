/**
 * The annotations of a container that allow the agent to stop and report it even if its pod is gone.
 *
 * Invariant: the values are exactly the kubelet's, including key order and Go's JSON, because other agents read them.
 */
import {
  type Container,
  type ContainerPort,
  DEFAULT_GRACE_SECONDS,
  type LifecycleHandler,
  type Pod,
} from '../api/pod.ts';
import { containerHash, goJson } from './hash.ts';

export const containerAnnotationKeys = {
  hash: 'io.kubernetes.container.hash',
  restartCount: 'io.kubernetes.container.restartCount',
  terminationMessagePath: 'io.kubernetes.container.terminationMessagePath',
  terminationMessagePolicy: 'io.kubernetes.container.terminationMessagePolicy',
  preStopHandler: 'io.kubernetes.container.preStopHandler',
  ports: 'io.kubernetes.container.ports',
  deletionGracePeriod: 'io.kubernetes.pod.deletionGracePeriod',
  terminationGracePeriod: 'io.kubernetes.pod.terminationGracePeriod',
} as const;

export function containerAnnotations(pod: Pod, container: Container, restartCount: number): Record<string, string> {
  const keys = containerAnnotationKeys;
  const { deletionGracePeriodSeconds: deletion } = pod.metadata;
  const { preStop } = container.lifecycle ?? {};
  const { ports = [] } = container;
  return {
    [keys.hash]: containerHash(container),
    [keys.restartCount]: String(restartCount),
    [keys.terminationMessagePath]: container.terminationMessagePath ?? '/dev/termination-log',
    [keys.terminationMessagePolicy]: container.terminationMessagePolicy ?? 'File',
    ...(deletion === undefined ? {} : { [keys.deletionGracePeriod]: String(deletion) }),
    [keys.terminationGracePeriod]: String(pod.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS),
    ...(preStop === undefined ? {} : { [keys.preStopHandler]: goJson(orderedHandler(preStop)) }),
    ...(ports.length === 0 ? {} : { [keys.ports]: goJson(ports.map(orderedPort)) }),
  };
}

/** Fields in the order of Go's struct, without empty ones. */
const orderedPort = ({ name, hostPort, containerPort, protocol, hostIP }: ContainerPort): object => ({
  name: name || undefined,
  hostPort: hostPort || undefined,
  containerPort,
  protocol,
  hostIP: hostIP || undefined,
});

function orderedHandler({ exec, httpGet, tcpSocket, sleep }: LifecycleHandler): object {
  return {
    exec: exec && { command: exec.command },
    httpGet: httpGet && {
      path: httpGet.path || undefined,
      port: httpGet.port,
      host: httpGet.host || undefined,
      scheme: httpGet.scheme || undefined,
      httpHeaders: httpGet.httpHeaders?.map(({ name, value }) => ({ name, value })),
    },
    tcpSocket: tcpSocket && { port: tcpSocket.port, host: tcpSocket.host || undefined },
    sleep: sleep && { seconds: sleep.seconds },
  };
}
