/** Small pods and facts for the tables of `spec` and `status`. */
import type {
  ContainerStatus as CriContainerStatus,
  PodSandboxStatus,
} from '../../../../src/machines/model/api/cri.ts';
import type { Container, Pod, PodSpec } from '../../../../src/machines/model/api/pod.ts';
import type { PodRuntimeStatus } from '../../../../src/machines/model/operations/cri.ts';
import { type Behavior, hasBehavior, NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';

/** The number of behaviors before this one. */
export const nodeBefore = (name: Behavior): number =>
  [...Array(NEWEST_BEHAVIOR).keys()].findLastIndex((behavior) => !hasBehavior({ behavior }, name));

export const container = (fields: Partial<Container> = {}): Container => ({
  name: 'c',
  image: 'localhost/bb:1',
  ...fields,
});

export const pod = (spec: Partial<PodSpec> = {}, metadata: Partial<Pod['metadata']> = {}): Pod => ({
  metadata: {
    name: 'p',
    namespace: 'ns',
    uid: 'uid-1',
    annotations: { 'kubernetes.io/config.source': 'api' },
    ...metadata,
  },
  spec: { containers: [container()], restartPolicy: 'Always', ...spec },
});

export const sandbox = (fields: Partial<PodSandboxStatus> = {}): PodSandboxStatus => ({
  id: 's0',
  state: 'SANDBOX_READY',
  created_at: '1',
  network: { ip: '10.0.0.5', additional_ips: [] },
  labels: {},
  annotations: {},
  runtime_handler: '',
  ...fields,
});

export const instance = (fields: Partial<CriContainerStatus> = {}): CriContainerStatus => ({
  id: 'c0',
  metadata: { name: 'c', attempt: 0 },
  state: 'CONTAINER_RUNNING',
  created_at: '1',
  started_at: '1000000000',
  finished_at: '0',
  exit_code: 0,
  image: { image: 'localhost/bb:1' },
  image_ref: 'sha256:1',
  reason: '',
  message: '',
  labels: {},
  annotations: {},
  mounts: [],
  log_path: '',
  image_id: 'sha256:1',
  stop_signal: 'SIGTERM',
  ...fields,
});

export const runtime = (
  containers: readonly CriContainerStatus[],
  sandboxes: readonly PodSandboxStatus[] = [sandbox()],
): PodRuntimeStatus => ({ uid: 'uid-1', name: 'p', namespace: 'ns', sandboxes, containers, observedAtMs: 0 });
