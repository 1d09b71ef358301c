/**
 * A whole machine as a performer: {@link PodsWorld} answers the operations of pods, a table all others, in virtual time
 * and with the same faults.
 */
import type { EffectRequest, EffectResult, Performer } from '../../kernel/effects.ts';
import type { Json, JsonEvent } from '../../kernel/json.ts';
import type { ConfigurationSource } from '../../machines/model/operations/host.ts';
import type { Operations } from '../../machines/model/operations/index.ts';
import { faultError, PodsWorld } from './pods-world.ts';
import { VirtualTime } from './virtual-time.ts';

const LATENCY_MS = 2;

export class MachineWorld implements Performer {
  readonly time: VirtualTime;
  readonly pods: PodsWorld;
  /** The open streams of each operation. */
  private readonly streams = new Map<string, Set<(event: JsonEvent) => void>>();
  private readonly answers: Answers;
  private readonly isQuiet: boolean;
  private readonly calls = new Map<string, number>();

  /** `isQuiet`: no stream emits on its own. */
  constructor(answers: Answers, { isQuiet = false, time = new VirtualTime() } = {}) {
    this.time = time;
    this.pods = new PodsWorld(time);
    this.answers = answers;
    this.isQuiet = isQuiet;
  }

  perform(request: EffectRequest, settle: (result: EffectResult) => void, emit: (event: JsonEvent) => void) {
    const entry = this.answers[request.name as keyof Operations];
    if (entry === undefined) return this.pods.perform(request, settle, emit);
    const nth = this.calls.get(request.name) ?? 0;
    this.calls.set(request.name, nth + 1);
    const answer = typeof entry === 'function' ? entry(request.input as never, nth) : entry;
    const { error, hangs = false, extraMs = 0, ...fault } = this.pods.fault(request.name, request.input, nth) ?? {};
    if (answer === 'hangs' || hangs) return () => {};
    if (answer === 'stream') return this.stream(request, emit);
    const result = error === undefined ? answer : { error: faultError({ error, ...fault }) };
    return this.time.arm(this.time.now() + LATENCY_MS + extraMs, () => settle(result));
  }

  emit(stream: keyof Operations, event: JsonEvent): void {
    const listeners = this.streams.get(stream) ?? new Set();
    if (listeners.size === 0) throw new Error(`${stream} is not open`);
    for (const emit of Array.from(listeners)) emit(event);
  }

  private stream({ name, input }: EffectRequest, emit: (event: JsonEvent) => void): () => void {
    const listeners = this.streams.get(name) ?? new Set();
    this.streams.set(name, listeners.add(emit));
    const words = this.isQuiet ? undefined : FIRST_WORDS[name]?.(input as never);
    const disarm = words ? this.time.arm(this.time.now() + LATENCY_MS, () => emit(words)) : () => {};
    return () => {
      disarm();
      listeners.delete(emit);
    };
  }
}

export type Answer = EffectResult | 'stream' | 'hangs';
/**
 * By operation other than those of pods, its answer, or a function of the call; `nth` counts the calls of this
 * operation from 0.
 */
export type Answers = { readonly [Name in keyof Operations]?: Answer | ((input: never, nth: number) => Answer) };

export const ok = (output: unknown): EffectResult => ({ output });
export const runtimeCondition = (type: string, status: boolean, reason = '', message = '') => ({
  type,
  status,
  reason,
  message,
});
export const RUNTIME_READY: JsonEvent = {
  type: 'runtime.statusChanged',
  conditions: [runtimeCondition('RuntimeReady', true), runtimeCondition('NetworkReady', true)],
  handlers: [],
  features: null,
};
export const MACHINE_INFO = {
  cores: 4,
  memoryBytes: '8000000000',
  kernelVersion: '6.8.0',
  osImage: 'Linux',
  machineId: 'machine',
  systemUuid: 'system',
  bootId: 'boot',
  swapBytes: '0',
  hugePageKib: [],
  hugePageTotals: {},
  pidMax: '32768',
  architecture: 'amd64',
  appArmor: false,
  topology: { cpus: [], numaNodes: [], disks: [], fileSystems: [] },
};

/** A decoded configuration file: the minimum for a node without an API server, and `fields`. */
export function document(fields: Record<string, Json> = {}): ConfigurationSource {
  const value = {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    authentication: { webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    ...fields,
  };
  return { kind: 'document', path: '/etc/kubelet.yaml', value, text: null, duplicates: [] };
}

/** The answers to the container manager on a machine without faults, except the cgroup version. */
export const GROUPS = {
  'host.tuneKernel': ok({ errors: [] }),
  'host.readCheckpoints': ok({ contents: [null, null] }),
  'host.writeCheckpoint': ok(null),
  'cgroup.missing': ok({ missing: [] }),
  'cgroup.ensure': ok(null),
  'cgroup.update': ok(null),
  'cgroup.hold': 'stream',
  'cgroup.gather': 'stream',
} as const satisfies Answers;

/** The answers of a machine without faults. */
export const HEALTHY: Answers = {
  'host.readConfiguration': ok(document()),
  'host.permissions': ok({ uid: 0 }),
  'host.readable': ok({ readable: [false, false] }),
  'host.cgroups': ok({ version: 2, controllers: ['cpu', 'cpuset', 'memory', 'pids'], swapCounted: true }),
  'host.fileSystem': ok({ capacityBytes: '270000000000', availableBytes: '200000000000' }),
  ...GROUPS,
  'cgroup.destroy': ok(null),
  'cgroup.listPods': ok({ pods: [] }),
  'cgroup.own': ok({ path: '/system.slice/kubelet.service' }),
  'host.acquireLock': ok(null),
  'host.watchLock': 'stream',
  'host.setLogVerbosity': ok(null),
  'host.watchdogSettings': ok({ usec: '', pid: '', ownPid: 7 }),
  'host.feedWatchdog': 'stream',
  'host.keepIptables': 'stream',
  'host.watchManifestUrl': 'stream',
  'host.watchConfiguration': 'stream',
  'host.hostname': ok({ hostname: 'Node-1' }),
  'host.addresses': ok({ addresses: [{ interface: 'eth0', address: '192.0.2.10', family: 'IPv4' }] }),
  'host.watchAddresses': 'stream',
  'host.readFile': ok({ content: 'nameserver 192.0.2.1\n' }),
  'host.machineInfo': ok(MACHINE_INFO),
  'host.setOomScoreAdj': ok(null),
  'host.setOpenFilesLimit': ok(null),
  'host.makeDirectories': ok(null),
  'host.notify': ok(null),
  'volume.podFolders': ok({ uids: [] }),
  'logs.podFolders': ok({ pods: [] }),
  'logs.unlink': ok(null),
  'runtime.exists': ok({ exists: true }),
  'runtime.startEmbedded': ok({ endpoint: 'unix:///var/lib/kubelet/embedded.sock' }),
  'runtime.connect': ok({ runtimeName: 'containerd', runtimeVersion: '2.1.0', runtimeApiVersion: 'v1' }),
  'cri.runtimeConfig': ok({ cgroupDriver: 'systemd' }),
  'cri.status': ok({
    conditions: [],
    handlers: [{ name: '', features: { user_namespaces: true, recursive_read_only_mounts: false } }],
    features: null,
  }),
  'runtime.watchStatus': 'stream',
  'server.healthz': 'stream',
  'stats.diskLayout': ok({ dedicatedImageFs: false, splitContainerFs: false }),
  'stats.watchSignals': 'stream',
  'logind.inhibitDelay': ok({ delayMs: 3_600_000 }),
  'logind.inhibitShutdown': 'stream',
  'logind.watchShutdown': 'stream',
  'host.watchOom': 'stream',
  'plugins.watch': 'stream',
  'devices.isNewFolder': ok({ isNew: false }),
  'devices.serveRegistration': 'stream',
  'devices.writeCheckpoint': ok(null),
  'stats.watchStorage': 'stream',
  'server.selfSign': ok({ certFile: '/pki/kubelet.crt', keyFile: '/pki/kubelet.key' }),
  'server.serve': 'stream',
  'server.serveLocal': 'stream',
  'certificate.load': ok({ certificate: null }),
};

/** The first item of a stream, sent when it is opened. */
export const FIRST_WORDS: Readonly<Record<string, (input: never) => JsonEvent>> = {
  'runtime.watchStatus': () => RUNTIME_READY,
  'cgroup.hold': ({ group }: { group: string }) => ({ type: 'cgroups.held', group, message: '' }),
  'cgroup.gather': ({ who }: { who: string }) => ({ type: 'cgroups.held', group: who, message: '' }),
  'server.healthz': (input: { address: string; port: number }) => ({ type: 'healthz.listening', ...input }),
  'server.serve': ({ address, port }: { address: string; port: number }) => ({
    type: 'server.listening',
    address,
    port,
  }),
};
