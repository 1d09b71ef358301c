/** CRI statuses of sandboxes, containers and the runtime, derived from the records. Pure. */
import { networkInterfaces } from 'node:os';
import type {
  ContainerState,
  ContainerStatus,
  Container as ListedContainer,
  PodSandbox,
  PodSandboxStatus,
  StatusResponse,
} from '../../machines/model/api/cri.ts';
import type { SandboxRecord } from './store/records.ts';
import type { Container } from './store/store.ts';

export const NO_ISOLATION = 'containers run as plain host processes: no isolation, no limits, no mounts, host network';

export function stateOf(container: Container): ContainerState {
  if (container.exit) return 'CONTAINER_EXITED';
  return container.process ? 'CONTAINER_RUNNING' : 'CONTAINER_CREATED';
}

export function listedContainer(container: Container): ListedContainer {
  const { record } = container;
  return {
    id: record.id,
    pod_sandbox_id: record.sandboxId,
    metadata: record.metadata,
    image: { image: record.image },
    image_ref: record.imageId,
    image_id: record.imageId,
    state: stateOf(container),
    created_at: record.createdAt,
    labels: record.labels,
    annotations: record.annotations,
  };
}

export function containerStatus(container: Container): ContainerStatus {
  const { record, process: running, exit } = container;
  return {
    id: record.id,
    metadata: record.metadata,
    state: stateOf(container),
    created_at: record.createdAt,
    started_at: exit?.startedAt ?? running?.startedAt ?? '0',
    finished_at: exit?.finishedAt ?? '0',
    exit_code: exit?.exitCode ?? 0,
    image: { image: record.image },
    image_ref: record.imageId,
    image_id: record.imageId,
    reason: exit?.reason ?? '',
    message: exit?.message ?? '',
    labels: record.labels,
    annotations: record.annotations,
    mounts: record.mounts,
    log_path: record.logPath,
    user: { linux: userOf(container) },
    stop_signal: record.stopSignal,
  };
}

function userOf({ record }: Container) {
  const uid = record.process.uid ?? process.getuid?.() ?? 0;
  const gid = record.process.gid ?? process.getgid?.() ?? 0;
  return { uid: String(uid), gid: String(gid), supplemental_groups: [] };
}

export function listedSandbox(record: SandboxRecord): PodSandbox {
  return {
    id: record.id,
    metadata: record.metadata,
    state: record.ready ? 'SANDBOX_READY' : 'SANDBOX_NOTREADY',
    created_at: record.createdAt,
    labels: record.labels,
    annotations: record.annotations,
    runtime_handler: '',
  };
}

/**
 * A pod on the host network has no address of its own, as CRI requires; any other pod shares the host's, and reports
 * it.
 */
export function sandboxStatus(record: SandboxRecord): PodSandboxStatus {
  const ip = record.ready && record.namespaces.network !== 'NODE' ? hostAddress() : '';
  return {
    ...listedSandbox(record),
    network: { ip, additional_ips: [] },
    linux: { namespaces: { options: record.namespaces } },
  };
}

/** The first IPv4 address that is reachable by others, or the loopback address. */
function hostAddress(): string {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return addresses.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1';
}

export function runtimeStatus(verbose: boolean, root: string): StatusResponse {
  const condition = (type: string) => ({ type, status: true, reason: 'NoIsolation', message: NO_ISOLATION });
  return {
    status: { conditions: [condition('RuntimeReady'), condition('NetworkReady')] },
    info: verbose ? { config: JSON.stringify({ root, isolation: 'none', pid: process.pid }) } : {},
    runtime_handlers: [{ name: '', features: { recursive_read_only_mounts: false, user_namespaces: false } }],
    features: { supplemental_groups_policy: false, user_namespaces_host_network: false },
  };
}

/** Whether every wanted label has the same value. */
export function hasLabels(
  labels: Readonly<Record<string, string>>,
  selector: Readonly<Record<string, string>> | undefined,
): boolean {
  return Object.entries(selector ?? {}).every(([key, value]) => labels[key] === value);
}
