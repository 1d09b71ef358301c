/**
 * A runtime without containers: the real protocol, with pods in memory and the events of containerd 2, in a process of
 * its own, so that the agent's cost is measured without that of a runtime.
 *
 * Forked by `bench/agent.ts`: sends its endpoint, and answers each message with its content.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { status as grpcStatus } from '@grpc/grpc-js';
import type {
  ContainerConfig,
  ContainerEventType,
  ContainerStatus,
  PodSandboxConfig,
  PodSandboxStatus,
} from '../src/machines/model/api/cri.ts';
import { FakeRuntime, type Handlers, Refusal } from '../test/actors/cri/fake-runtime.ts';

/** The duration of a call that starts or stops something. */
const CALL_MS = 5;
const IMAGE = 'localhost/bb:1';
const IMAGE_ID = `sha256:${'1'.repeat(64)}`;

export interface Contents {
  readonly running: number;
  /** The names of the pods whose containers run. */
  readonly names: readonly string[];
  readonly sandboxes: number;
  /** The CRI calls since the answer before. */
  readonly calls: number;
}

type Sandbox = PodSandboxStatus;
type Member = ContainerStatus & { readonly pod_sandbox_id: string };

const sandboxes = new Map<string, Sandbox>();
const members = new Map<string, Member>();
let made = 0;

const nowNs = (): string => String(BigInt(Date.now()) * 1_000_000n);
const newId = (): string => randomBytes(32).toString('hex');
const image = { id: IMAGE_ID, repo_tags: [IMAGE], size: '1000000', uid: { value: '0' } };

type Selector = { readonly label_selector?: Readonly<Record<string, string>> } | undefined;
const isSelected = (labels: Readonly<Record<string, string>>, filter: Selector): boolean =>
  Object.entries(filter?.label_selector ?? {}).every(([key, value]) => labels[key] === value);

function found<Value>(of: ReadonlyMap<string, Value>, id: string): Value {
  const value = of.get(id);
  if (value === undefined) throw new Refusal(grpcStatus.NOT_FOUND, `${id} is not there`);
  return value;
}

function send(id: string, container_event_type: ContainerEventType): void {
  const sandbox = sandboxes.get(id) ?? sandboxes.get(members.get(id)?.pod_sandbox_id ?? '');
  const containers_statuses = [...members.values()].filter((member) => member.pod_sandbox_id === sandbox?.id);
  const pod_sandbox_status = sandbox === undefined ? {} : { pod_sandbox_status: sandbox };
  runtime.emit({
    container_id: id,
    container_event_type,
    created_at: nowNs(),
    containers_statuses,
    ...pod_sandbox_status,
  });
}

async function runPodSandbox({ metadata, labels = {}, annotations = {} }: PodSandboxConfig): Promise<string> {
  await sleep(CALL_MS);
  const id = newId();
  made++;
  const network = { ip: `10.0.${made >> 8}.${made & 255}`, additional_ips: [] };
  const common = { id, created_at: nowNs(), network, labels, annotations, runtime_handler: '' };
  sandboxes.set(id, { ...common, state: 'SANDBOX_READY', ...(metadata ? { metadata } : {}) });
  send(id, 'CONTAINER_CREATED_EVENT');
  send(id, 'CONTAINER_STARTED_EVENT');
  return id;
}

async function createContainer(pod_sandbox_id: string, config: ContainerConfig): Promise<string> {
  await sleep(CALL_MS);
  const id = newId();
  const { metadata, labels = {}, annotations = {}, mounts = [], log_path = '' } = config;
  const times = { created_at: nowNs(), started_at: '0', finished_at: '0', exit_code: 0 };
  const kept = { labels, annotations, mounts, log_path };
  const named = { image: { image: IMAGE }, image_ref: IMAGE_ID, image_id: IMAGE_ID, reason: '', message: '' };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the encoder is the only judge of an answer
  members.set(id, { id, pod_sandbox_id, metadata, state: 'CONTAINER_CREATED', ...times, ...kept, ...named } as never);
  send(id, 'CONTAINER_CREATED_EVENT');
  return id;
}

async function become(id: string, over: Partial<Member>, event: ContainerEventType): Promise<void> {
  await sleep(CALL_MS);
  members.set(id, { ...found(members, id), ...over });
  send(id, event);
}

const handlers: Handlers = {
  Version: () => ({ runtime_name: 'memory', runtime_version: '2.1.9', runtime_api_version: 'v1' }),
  Status: () => ({ status: { conditions: ['RuntimeReady', 'NetworkReady'].map((type) => ({ type, status: true })) } }),
  RuntimeConfig: () => ({ linux: { cgroup_driver: 'CGROUPFS' } }),
  UpdateRuntimeConfig: () => ({}),
  ListImages: () => ({ images: [image] }),
  ImageStatus: () => ({ image }),
  ImageFsInfo: () => ({ image_filesystems: [], container_filesystems: [] }),
  ListPodSandbox: ({ filter }) => ({
    items: [...sandboxes.values()].filter(({ labels }) => isSelected(labels, filter)),
  }),
  ListContainers: ({ filter }) => ({
    containers: [...members.values()].filter(({ labels }) => isSelected(labels, filter)),
  }),
  PodSandboxStatus: ({ pod_sandbox_id: id = '' }) => ({ status: found(sandboxes, id) }),
  ContainerStatus: ({ container_id: id = '' }) => ({ status: found(members, id) }),
  RunPodSandbox: async ({ config }) => ({ pod_sandbox_id: await runPodSandbox(config ?? {}) }),
  CreateContainer: async ({ pod_sandbox_id = '', config }) => ({
    container_id: await createContainer(pod_sandbox_id, config ?? {}),
  }),
  StartContainer: async ({ container_id = '' }) => {
    await become(container_id, { state: 'CONTAINER_RUNNING', started_at: nowNs() }, 'CONTAINER_STARTED_EVENT');
    return {};
  },
  StopContainer: async ({ container_id = '' }) => {
    await become(container_id, { state: 'CONTAINER_EXITED', finished_at: nowNs() }, 'CONTAINER_STOPPED_EVENT');
    return {};
  },
  RemoveContainer: ({ container_id = '' }) => {
    members.delete(container_id);
    return {};
  },
  StopPodSandbox: ({ pod_sandbox_id: id = '' }) => {
    sandboxes.set(id, { ...found(sandboxes, id), state: 'SANDBOX_NOTREADY' });
    send(id, 'CONTAINER_STOPPED_EVENT');
    return {};
  },
  RemovePodSandbox: ({ pod_sandbox_id: id = '' }) => {
    for (const member of members.values()) if (member.pod_sandbox_id === id) members.delete(member.id);
    sandboxes.delete(id);
    return {};
  },
};

const runtime = await FakeRuntime.start(handlers);
process.on('message', () => {
  const running = [...members.values()].filter(({ state }) => state === 'CONTAINER_RUNNING');
  const names = running.map(({ labels }) => labels['io.kubernetes.pod.name'] ?? '');
  const contents: Contents = {
    running: running.length,
    names,
    sandboxes: sandboxes.size,
    calls: runtime.calls.splice(0).length,
  };
  process.send?.(contents);
});
process.once('disconnect', () => process.exit());
process.send?.(runtime.endpoint);
