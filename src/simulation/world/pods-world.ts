/**
 * The world of the charts of pods as a performer: answers every operation from a {@link RuntimeModel} and a disk, after
 * a latency, in virtual time, with the requested faults.
 */
import type { Attempt } from '../../actors/probe/attempt.ts';
import { newTally, periodMs, tally } from '../../actors/probe/counter.ts';
import type { EffectRequest, EffectResult, Performer } from '../../kernel/effects.ts';
import type { SecretHandle } from '../../kernel/journal/secrets.ts';
import { type JsonEvent, memberOf, toPlainError } from '../../kernel/json.ts';
import type { InputOf } from '../../kernel/xstate.ts';
import type { ContainerStatus, Image, PodSandboxStatus } from '../../machines/model/api/cri.ts';
import type { CgroupResources, DesiredCgroup } from '../../machines/model/operations/cgroup.ts';
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';
import type { DraPlugin } from '../../machines/model/operations/dra.ts';
import type { Manifest, ManifestError, RememberedPod, SoftState } from '../../machines/model/operations/host.ts';
import type { Operations } from '../../machines/model/operations/index.ts';
import type { KeptLog, PodLogs } from '../../machines/model/operations/logs.ts';
import type { ProbeHandler, ProbeWatch } from '../../machines/model/operations/probe.ts';
import type { ConfigObject, Sharing, VolumesSetUp } from '../../machines/model/operations/volume.ts';
import { CsiWorld, DiskWorld, DraWorld } from './driver-worlds.ts';
import { ImageRights } from './image-rights.ts';
import type { KubeWorld } from './kube-world.ts';
import { podsAnswers } from './pods-answers.ts';
import { RuntimeModel } from './runtime-model.ts';
import type { VirtualTime } from './virtual-time.ts';

interface Command {
  readonly takesMs: number;
  readonly exitCode: number;
  readonly stdout?: string;
  readonly stderr?: string;
}

/** A fault of one call. */
export interface Fault {
  readonly error?: string;
  readonly code?: string;
  /** The call is done, but its answer is lost: the caller gets the error. */
  readonly lost?: boolean;
  /** The answer does not contain the state of the sandbox or container. */
  readonly showsNothing?: boolean;
  /** The call is never answered. */
  readonly hangs?: boolean;
  readonly extraMs?: number;
}

export interface Call {
  readonly name: string;
  readonly atMs: number;
  readonly pod: string;
}

const LATENCY_MS: Readonly<Record<string, number>> = {
  'cri.runPodSandbox': 60,
  'cri.createContainer': 20,
  'cri.startContainer': 30,
  'cri.stopPodSandbox': 40,
  'cri.removePodSandbox': 30,
  'cri.pullImage': 500,
};
const LATENCY_DEFAULT_MS = 1;
/** The time between a change in the runtime and the end of the watch's inspection. */
const WATCH_MS = 3;

export class PodsWorld implements Performer {
  readonly runtime: RuntimeModel;
  readonly calls: Call[] = [];
  /** All changes of resources of running containers. */
  readonly resizes: InputOf<Operations['cri.updateContainerResources']>[] = [];
  /** The memory that every cgroup uses, in bytes. */
  memoryUsage = '0';
  readonly folders = new Set<string>();
  readonly csi = new CsiWorld(this.folders);
  readonly disks = new DiskWorld(this.folders);
  readonly dra = new DraWorld();
  /** The cgroups by path, with their limits. */
  readonly groups = new Map<string, CgroupResources>();
  readonly files = new Map<string, string>();
  /** Termination messages by host path. */
  readonly messages = new Map<string, string>();
  /** By folder of a container's logs, the number after theirs. */
  readonly nextLogs = new Map<string, number>();
  /** The images of the registry. */
  readonly registry = new Map<string, Image>();
  readonly rights = new ImageRights();
  /** Pods whose logs are left from an agent that crashed. */
  logFolders: readonly PodLogs[] = [];
  manifests: readonly Manifest[] = [];
  manifestErrors: readonly ManifestError[] = [];
  /** The folder of the manifests cannot be listed. */
  isManifestPathUnread = false;
  /** The content of the URL of static pods. */
  fetched: { readonly manifests: readonly Manifest[] | null; readonly error: string } = { manifests: [], error: '' };
  objects: readonly ConfigObject[] = [];
  /** By volume name, the error of its setup. */
  readonly volumeFailures = new Map<string, string>();
  /** Part of the report on every volume that is set up. */
  notGiven: Omit<VolumesSetUp, 'failed'> = {};
  /** Volumes whose group is being changed. */
  sharings: readonly Sharing[] = [];
  /** By key, the values of variables from files; `null` for an optional key that is missing. */
  readonly fileValues = new Map<string, SecretHandle | null>();
  /** By command, its duration in a container, its exit code and its output. */
  readonly commands = new Map<string, Command>();
  /** By target of a probe (a command, a URL, `host:port`), its result; success by default. */
  readonly answers = new Map<string, Attempt>();
  readonly attempts: { readonly asked: string; readonly atMs: number }[] = [];
  softState: SoftState = { containers: {}, probes: {} };
  /** The API server; `null` for a node without one. */
  kube: KubeWorld | null = null;
  /** By uid, the remembered pods on disk. */
  readonly remembered = new Map<string, RememberedPod>();
  disk = { capacityBytes: '1000000', availableBytes: '900000' };
  /** Called for each operation; `nth` counts the calls of this operation from 0. */
  fault: (name: string, input: unknown, nth: number) => Fault | undefined = () => undefined;
  /** The runtime does not answer at all. */
  isDown = false;
  readonly time: VirtualTime;
  private readonly keptLogs = new Map<(event: JsonEvent) => void, string>();
  private readonly counts = new Map<string, number>();
  private readonly watchers = new Map<number, (uid: string) => void>();
  /** By pod and id, the state of a sandbox or container that the pod's actor knows. */
  private readonly known = new Map<string, Map<string, string>>();
  private readonly manifestWatchers = new Set<() => void>();
  private readonly urlWatchers = new Set<() => void>();
  private readonly open = new Set<() => void>();
  private readonly handlers: ReturnType<typeof podsAnswers>;

  constructor(time: VirtualTime) {
    this.time = time;
    this.runtime = new RuntimeModel(time);
    this.runtime.onChange = (uid) => {
      for (const watcher of this.watchers.values()) watcher(uid);
    };
    this.handlers = podsAnswers(this);
  }

  setManifests(manifests: readonly Manifest[], errors: readonly ManifestError[] = []): void {
    this.manifests = manifests;
    this.manifestErrors = errors;
    for (const publish of this.manifestWatchers) publish();
  }

  setFetched(manifests: readonly Manifest[] | null, error = ''): void {
    this.fetched = { manifests, error };
    for (const publish of this.urlWatchers) publish();
  }

  setObjects(objects: readonly ConfigObject[]): void {
    this.objects = objects;
    for (const publish of this.manifestWatchers) publish();
  }

  perform(request: EffectRequest, settle: (result: EffectResult) => void, emit: (event: JsonEvent) => void) {
    const { name, input } = request;
    const nth = this.counts.get(name) ?? 0;
    this.counts.set(name, nth + 1);
    this.calls.push({ name, atMs: this.time.ms, pod: /pod-([^/]+)/.exec(request.at)?.[1] ?? '' });
    const fault = this.fault(name, input, nth) ?? {};
    let cancelled = false;
    let stop: void | (() => void);
    const answer = (result: EffectResult): void => {
      if (!cancelled) settle(result);
    };
    if (fault.hangs) return () => void (cancelled = true);
    const latency = (LATENCY_MS[name] ?? LATENCY_DEFAULT_MS) + (fault.extraMs ?? 0);
    const disarm = this.time.arm(this.time.ms + latency, () => {
      if (fault.error !== undefined && !fault.lost) answer({ error: faultError(fault) });
      else if (this.isDown && name.startsWith('cri.'))
        answer({ error: faultError({ error: 'connection refused', code: 'UNAVAILABLE' }) });
      else stop = this.handle(name, input, fault, answer, emit, request.id, () => !cancelled);
      if (cancelled) stop?.();
    });
    const cancel = (): void => {
      cancelled = true;
      disarm();
      stop?.();
    };
    this.open.add(cancel);
    return cancel;
  }

  private handle(
    name: string,
    input: unknown,
    fault: Fault,
    answer: (result: EffectResult) => void,
    emit: (event: JsonEvent) => void,
    id: number,
    isOpen: () => boolean,
  ): void | (() => void) {
    if (name === 'cri.watchPods') return this.watch(id, emit);
    if (name === 'host.watchManifests') return this.watchManifests(emit);
    if (name === 'host.watchManifestUrl') return this.watchUrl(emit);
    if (name.startsWith('kube.') && this.kube) return this.kube.handle(name, input, answer, emit);
    if (name === 'certificate.podKey' && this.kube) {
      const { kube } = this;
      return answer(outcomeOf(() => kube.podKey(input as { keyType: string })));
    }
    if (name === 'cgroup.hold' || name === 'cgroup.gather') return this.keepGroups(name, input, emit);
    if (name === 'logs.keep') return this.keepLog((input as KeptLog).path, emit);
    if (name === 'probe.watch') return this.probe(input as ProbeWatch, emit);
    const driver = handlerOf(this.csi.handlers, name) ?? handlerOf(this.disks.handlers, name);
    if (driver) return answer({ output: driver(input) });
    if (name === 'dra.follow') return this.dra.follow(input as DraPlugin, emit);
    const right = handlerOf(this.rights.handlers, name);
    if (right) return answer({ output: right(input) });
    const resources = handlerOf(this.dra.handlers, name);
    if (resources) {
      const outcome = outcomeOf(() => resources(input));
      return answer(fault.lost ? { error: faultError(fault) } : outcome);
    }
    const handler = this.handlers[name as keyof typeof this.handlers];
    if (!handler) throw new Error(`this world cannot do ${name}`);
    const done = (output: unknown): void => {
      if (fault.lost || fault.showsNothing) this.known.clear();
      const shown = fault.showsNothing ? { ...(output as object), status: null } : output;
      answer(fault.lost ? { error: faultError(fault) } : { output: shown });
    };
    try {
      return handler(input as never, done, emit, isOpen);
    } catch (error) {
      answer({ error: toPlainError(error) });
    }
  }

  /** Reports only what a pod's actor does not know yet, also from answers to its own calls, as the real port does. */
  private watch(id: number, emit: (event: JsonEvent) => void): () => void {
    const due = new Set<string>();
    const inspect = (uid: string): void => {
      due.delete(uid);
      if (!this.isDown && this.watchers.has(id)) for (const event of this.changeEvents(uid)) emit(event);
    };
    this.known.clear();
    this.watchers.set(id, (uid) => {
      if (due.has(uid)) return;
      due.add(uid);
      this.time.arm(this.time.ms + WATCH_MS, () => inspect(uid));
    });
    const { uids } = this.runtime;
    for (const uid of uids) inspect(uid);
    emit({ type: 'runtime.relisted', uids });
    return () => void this.watchers.delete(id);
  }

  /**
   * Events for changes: of single sandboxes and containers if the pod has the same ones as before, otherwise of the
   * pod.
   */
  private changeEvents(uid: string): JsonEvent[] {
    const status = this.runtime.inspect(uid);
    const before = this.known.get(uid);
    const now = textsOf(status);
    if (now.size === 0) return this.known.delete(uid) ? [{ type: 'runtime.podRemoved', uid }] : [];
    this.known.set(uid, now);
    if (before?.size !== now.size || [...now.keys()].some((each) => !before.has(each))) {
      return [{ type: 'runtime.podChanged', status }];
    }
    const isChanged = (each: { readonly id: string }): boolean => before.get(each.id) !== now.get(each.id);
    return [
      ...status.sandboxes.filter(isChanged).map((each) => ({ type: 'runtime.sandboxChanged', uid, status: each })),
      ...status.containers.filter(isChanged).map((each) => ({ type: 'runtime.containerChanged', uid, status: each })),
    ];
  }

  /** The pod's actor learns the state from the answer to its own call. */
  markKnown<Status extends InstanceStatus>(uid: string, status: Status): Status {
    this.known.set(uid, new Map(this.known.get(uid)).set(status.id, JSON.stringify(status)));
    return status;
  }

  markAllKnown(status: PodRuntimeStatus): PodRuntimeStatus {
    const texts = textsOf(status);
    if (texts.size > 0) this.known.set(status.uid, texts);
    return status;
  }

  /** Reported once, because only the agent changes cgroups in this world. */
  private keepGroups(name: string, input: unknown, emit: (event: JsonEvent) => void): void {
    const { group, who, desired = [] } = input as { group?: string; who?: string; desired?: readonly DesiredCgroup[] };
    const missing = desired.find(({ path }) => !this.groups.has(path));
    for (const { path, resources } of desired) if (this.groups.has(path)) this.groups.set(path, resources);
    const message = missing ? `cgroup "${missing.path}" has some missing paths` : '';
    emit({ type: 'cgroups.held', group: group ?? who ?? name, message });
  }

  /** Counts results as the real port does, in virtual time. */
  private probe(watch: ProbeWatch, emit: (event: JsonEvent) => void): () => void {
    const asked = askedBy(watch.handler);
    let state = newTally(watch.verdict, this.time.ms);
    let disarm = (): void => {};
    const attempt = (): void => {
      this.attempts.push({ asked, atMs: this.time.ms });
      const answer = this.answers.get(asked) ?? { result: 'success', output: '' };
      const step = tally(state, watch, answer, this.time.ms);
      state = step.tally;
      disarm = this.time.arm(this.time.ms + periodMs(watch, state), attempt);
      for (const item of step.items) emit(item);
    };
    attempt();
    return () => disarm();
  }

  private watchUrl(emit: (event: JsonEvent) => void): () => void {
    const publish = () => emit({ type: 'manifests.fetched', ...this.fetched });
    this.urlWatchers.add(publish);
    publish();
    return () => void this.urlWatchers.delete(publish);
  }

  private watchManifests(emit: (event: JsonEvent) => void): () => void {
    const publish = () =>
      emit({
        type: 'manifests.changed',
        manifests: this.manifests,
        objects: this.objects,
        errors: this.manifestErrors,
        ...(this.isManifestPathUnread ? { isUnread: true } : {}),
      });
    this.manifestWatchers.add(publish);
    publish();
    return () => void this.manifestWatchers.delete(publish);
  }

  private keepLog(path: string, emit: (event: JsonEvent) => void): () => void {
    this.keptLogs.set(emit, path);
    return () => void this.keptLogs.delete(emit);
  }

  openLogs(): readonly string[] {
    return [...this.keptLogs.values()];
  }

  sendLogEvent(item: JsonEvent): void {
    for (const emit of this.keptLogs.keys()) emit(item);
  }

  /** The agent that made the requests has ended: it gets no further answers. */
  detach(): void {
    for (const cancel of this.open) cancel();
    this.open.clear();
  }

  callsOf(name: string): Call[] {
    return this.calls.filter((call) => call.name === name);
  }
}

type InstanceStatus = PodSandboxStatus | ContainerStatus;

/** The function that answers an operation: its input and output are those of the operation of that name. */
const handlerOf = (handlers: object, name: string) =>
  memberOf(handlers, name) as ((input: unknown) => unknown) | undefined;

function outcomeOf(act: () => unknown): EffectResult {
  try {
    return { output: act() };
  } catch (error) {
    return { error: toPlainError(error) };
  }
}

const textsOf = ({ sandboxes, containers }: PodRuntimeStatus): Map<string, string> =>
  new Map([...sandboxes, ...containers].map((each) => [each.id, JSON.stringify(each)]));

function askedBy(handler: ProbeHandler): string {
  if (handler.kind === 'exec') return handler.command.join(' ');
  return handler.kind === 'httpGet' ? handler.url : `${handler.host}:${handler.port}`;
}

/** The error of a failed call. */
export const faultError = ({ error = 'deadline exceeded', code = 'DEADLINE_EXCEEDED' }: Fault) => ({
  name: 'ServiceError',
  message: error,
  code,
  retriable: true,
});
