/**
 * A node that starts a pod, loses a container and answers requests, with all of its metrics: the subject of the tests
 * of metrics.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OnRuntimeActivity } from '../../../src/actors/cri/activity.ts';
import { connectRuntime } from '../../../src/actors/cri/client.ts';
import { type Create, tokenReviewer } from '../../../src/actors/server/authentication.ts';
import {
  ApiClientMetrics,
  RuntimeMetrics,
  TransportMetrics,
} from '../../../src/actors/server/metrics/calls/client-calls.ts';
import { RequestMetrics } from '../../../src/actors/server/metrics/calls/request-metrics.ts';
import { type NodeMetrics, nodeMetrics } from '../../../src/actors/server/metrics/node-metrics.ts';
import { Recorder } from '../../../src/actors/server/metrics/recorder.ts';
import { VolumeMeasuring } from '../../../src/actors/server/metrics/usage/summary-gauges.ts';
import { KernelView } from '../../../src/actors/server/node-view.ts';
import { StatsReader } from '../../../src/actors/stats/reader.ts';
import type { PodStats } from '../../../src/actors/stats/usage-types.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import type { KernelRecord } from '../../../src/kernel/records.ts';
import { ARGV, BootNode, document, MACHINE_INFO, ok } from '../../machines/startup/boot-node.ts';
import { machineFile, writeMachine } from '../../support/machine-files.ts';
import { image, manifest } from '../../support/pods-node.ts';
import { FakeRuntime, type Handlers } from '../cri/fake-runtime.ts';

const PROBE = { exec: { command: ['true'] }, periodSeconds: 1 };
const CONTAINER = {
  name: 'app',
  image: 'app:1',
  livenessProbe: PROBE,
  volumeMounts: [{ name: 'scratch', mountPath: '/scratch' }],
};

/** The reader's statistics of a pod with one container. */
const TIME = '2026-11-21T07:00:00Z';
const USE = {
  cpu: { time: TIME, usageCoreNanoSeconds: 9n },
  memory: { time: TIME, workingSetBytes: 9n },
  swap: { time: TIME, swapUsageBytes: 0n },
};
const MEASURED: PodStats = {
  podRef: { name: 'web', namespace: 'default', uid: 'u1' },
  startTime: TIME,
  ...USE,
  containers: [{ name: 'app', startTime: TIME, ...USE, swap: { ...USE.swap, swapAvailableBytes: 7n } }],
};

/** The pod of the machine that is described by files. */
const [CONTAINER_ID, SANDBOX_ID] = ['a'.repeat(64), 'b'.repeat(64)];
const UID = '11111111-2222-3333-4444-555555555555';
const GROUP = `sys/fs/cgroup/memory/kubepods/besteffort/pod${UID}/${CONTAINER_ID}`;
const RUNTIME: Handlers = {
  ListPodSandbox: () => ({
    items: [{ id: SANDBOX_ID, created_at: '1', metadata: { uid: UID, name: 'p', namespace: 'ns' } }],
  }),
  ListContainers: () => ({
    containers: [{ id: CONTAINER_ID, pod_sandbox_id: SANDBOX_ID, created_at: '2', metadata: { name: 'c' } }],
  }),
};
const CPUS = [0, 1, 2, 3].map((id) => ({ id, core: id, socket: 0, numaNode: 0 }));
const DISK = { name: 'sda', device: '8:0', sizeBytes: '1000' };
/** Files that the recorded machine did not need: a disk with mounts, and open files of a process. */
const FILES = {
  'proc/diskstats': '   8       0 sda 1 2 3 4000 5 6 7 8000 9 10000 11000 0 0 0 0 0 0\n',
  'proc/self/mountinfo': `${machineFile('cgroup-v1', 'proc/self/mountinfo')}99 1 8:0 / / rw - ext4 /dev/sda rw\n`,
  'proc/4242/fd/0': '',
  'proc/4242/fd/1': '',
  'proc/4242/limits': 'Max open files            1024                 4096                 files\n',
  [`${GROUP}/memory.oom_control`]: 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n',
};
export const API_SERVER = '192.0.2.1:6443';

export interface MeasuredNode {
  readonly metrics: NodeMetrics;
  /** The same node after two pods were evicted for memory. */
  readonly evicting: NodeMetrics;
  close(): Promise<void>;
}

export async function measuredNode(): Promise<MeasuredNode> {
  const directory = mkdtempSync(join(tmpdir(), 'statelet-metrics-'));
  const view = new KernelView();
  const recorder = new Recorder({ journalBytes: () => 1 });
  const node = startedNode(view, recorder);
  registerNode(recorder, node.kernel);
  const runtime = await FakeRuntime.start(RUNTIME);
  ask(new ApiClientMetrics(recorder.registry));
  new TransportMetrics(recorder.registry).seen({ kind: 'opened', pluginCertificate: null });
  const requests = new RequestMetrics(recorder.registry);
  await serve(requests);
  lookAt(new RuntimeMetrics(recorder.registry).seen);
  new VolumeMeasuring(recorder.registry).measured('kubernetes.io~empty-dir', 3);
  const measurements = measure(view, runtime, directory);
  const version = 'v1.36.2+statelet.0.1.0';
  const short = Object.assign(Object.create(view) as KernelView, { evictions: () => ({ 'memory.available': 2 }) });
  const metrics = nodeMetrics({ view, recorder, measurements, version });
  return {
    metrics: { ...metrics, slis: async () => metrics.slis(await requests.healthchecks.families()) },
    evicting: nodeMetrics({ view: short, recorder, measurements, version }),
    close: async () => {
      await runtime.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function startedNode(view: KernelView, recorder: Recorder): BootNode {
  const node = new BootNode({
    argv: [...ARGV, '--config=/etc/kubelet.yaml'],
    answers: {
      'cri.runtimeConfig': ok({ cgroupDriver: null }),
      'host.machineInfo': ok({ ...MACHINE_INFO, topology: { ...MACHINE_INFO.topology, cpus: CPUS, disks: [DISK] } }),
      'host.readConfiguration': ok(document({ cpuManagerPolicy: 'static', reservedSystemCPUs: '0' })),
    },
    onTurn: (records, kernel, tookMs) => {
      view.onTurn(records, kernel);
      recorder.onTurn(records, kernel, tookMs);
    },
  });
  const { pods } = node.world;
  pods.registry.set('app:1', image('app:1'));
  pods.setManifests([
    manifest({ uid: 'u1', containers: [CONTAINER], spec: { volumes: [{ name: 'scratch', emptyDir: {} }] } }),
  ]);
  let faults = 1;
  pods.fault = (name) => (name === 'cri.startContainer' && faults-- > 0 ? { error: 'no such file' } : undefined);
  node.boot().run(60_000);
  recorder.probed(node.effects('probe.watch').at(-1)?.id ?? -1, 'success', 12);
  const [container] = [...pods.runtime.containers.values()];
  pods.runtime.exit(container!, 3);
  return node.run(20_000);
}

/** The records of a start with an API server, as far as they are about its Node. */
function registerNode(recorder: Recorder, kernel: Kernel): void {
  const [create, report] = ['kubelet/nodeStatus/registration/create', 'kubelet/nodeStatus/patch'];
  const body = { status: { conditions: [{ type: 'Ready', status: 'True' }] } };
  const turn = (...records: object[]) => recorder.onTurn(records as unknown as KernelRecord[], kernel, 0.1);
  turn({ k: 'effect', id: -2, name: 'kube.create', at: create, class: 'once', input: {} });
  turn({ k: 'result', id: -2, at: create, name: 'kube.create', output: {} });
  turn({ k: 'effect', id: -3, name: 'kube.patch', at: report, class: 'idempotent', input: { body } });
  turn({ k: 'result', id: -3, at: report, name: 'kube.patch', output: {} });
}

/** Requests of this node to the API server. */
function ask(asked: ApiClientMetrics): void {
  const exchange = { method: 'GET', host: API_SERVER, path: '/api/v1/pods' } as const;
  asked.seen({ ...exchange, kind: 'waited', durationMs: 1 });
  asked.seen({ ...exchange, kind: 'sent', code: '200', durationMs: 40, bytes: 0 });
  asked.seen({ ...exchange, kind: 'read', bytes: 300 });
  for (const path of ['authentication.k8s.io/v1/tokenreviews', 'authorization.k8s.io/v1/subjectaccessreviews']) {
    const review = { method: 'POST', host: API_SERVER, path: `/apis/${path}` } as const;
    asked.seen({ ...review, kind: 'sent', code: '201', durationMs: 300, bytes: 9 });
  }
}

/** Requests to this node: a list, a stream, and the same token twice. */
async function serve(requests: RequestMetrics): Promise<void> {
  requests.began('readwrite', 'GET', '/pods');
  requests.answered('readwrite', 'GET', '/pods', 3);
  requests.began('readwrite', 'GET', '/exec/:namespace/:pod/:container');
  requests.streamed('portForward');
  requests.auth.shown(Date.now() + 60_000);
  requests.healthchecks.checked('ping', true);
  const status = { authenticated: true, user: { username: 'u' } };
  const create: Create = async () => ({ metadata: { name: '' }, status });
  const review = tokenReviewer(create, { tokenMs: 60_000 }, requests.auth.tokens);
  await review('token');
  await review('token');
}

function lookAt(seen: OnRuntimeActivity): void {
  for (const startedAtMs of [1_000, 2_000]) seen({ kind: 'relisted', startedAtMs, durationMs: 5 });
  seen({ kind: 'called', name: 'RunPodSandbox', durationMs: 5, failed: false });
  seen({ kind: 'called', name: 'ListContainers', durationMs: 5, failed: true });
  seen({ kind: 'inspected', durationMs: 7 });
  seen({ kind: 'listening' });
  seen({ kind: 'heard', lateMs: 2 });
  seen({ kind: 'lost' });
}

function measure(view: KernelView, runtime: FakeRuntime, directory: string) {
  const client = connectRuntime({ endpoint: runtime.endpoint });
  const reader = new StatsReader({
    call: (name, request, limits) => client.call(name, request, limits),
    root: writeMachine(join(directory, 'machine'), 'cgroup-v1', FILES),
  });
  return {
    summary: async (asked: { readonly onlyCpuAndMemory: boolean }) => ({
      ...(await reader.summary(view.statsPlace(), asked)),
      pods: [MEASURED],
    }),
    disks: () => reader.disks(),
    levels: () => reader.levels(),
    driverVolumes: async () => [],
    cgroups: async () => {
      const [machine, ...rest] = await reader.cgroups(view.statsPlace());
      const limited = { ...machine!, limits: { cpuShares: 2n, cpuQuotaUs: 10_000n, cpuPeriodUs: 100_000n } };
      return [machine!, limited, ...rest];
    },
  };
}
