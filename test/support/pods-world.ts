/**
 * The world of the pods' room as a performer: answers every operation from a {@link RuntimeModel} and a disk, after a
 * latency, under virtual time, with the faults that a test asks for.
 */
import type { Attempt } from '../../src/actors/probe/attempt.ts';
import { newTally, tally } from '../../src/actors/probe/counter.ts';
import type { EffectRequest, EffectResult, Performer } from '../../src/kernel/effects.ts';
import type { SecretHandle } from '../../src/kernel/journal/index.ts';
import { type JsonEvent, toPlainError } from '../../src/kernel/json.ts';
import type { InputOf, OutputOf } from '../../src/kernel/xstate.ts';
import type { ContainerStatus, Image, PodSandboxStatus } from '../../src/machines/model/api/cri.ts';
import type { CgroupResources, CgroupWish } from '../../src/machines/model/operations/cgroup.ts';
import type { PodRuntimeStatus } from '../../src/machines/model/operations/cri.ts';
import type { Manifest, ManifestError, RememberedPod, SoftState } from '../../src/machines/model/operations/host.ts';
import type { Operations } from '../../src/machines/model/operations/index.ts';
import type { KeptLog, PodLogs } from '../../src/machines/model/operations/logs.ts';
import type { ProbeHandler, ProbeWatch } from '../../src/machines/model/operations/probe.ts';
import type { ConfigObject, Sharing, VolumesSetUp } from '../../src/machines/model/operations/volume.ts';
import { CsiWorld } from './csi-world.ts';
import type { KubeWorld } from './kube-world.ts';
import { ImageRights } from './pods-images.ts';
import { RuntimeError, RuntimeModel } from './pods-runtime.ts';
import type { VirtualTime } from './pods-time.ts';

/** What shall go wrong with one call. */
export interface Fault {
  readonly error?: string;
  readonly code?: string;
  /** Done, but the answer is lost: the caller gets the error. */
  readonly lost?: boolean;
  /** The answer does not show what became of the sandbox or container. */
  readonly showsNothing?: boolean;
  /** Never answered. */
  readonly hangs?: boolean;
  readonly extraMs?: number;
}

export interface Call {
  readonly name: string;
  readonly atMs: number;
  readonly pod: string;
}

type Name = keyof Operations;
type Handler<N extends Name> = (
  input: InputOf<Operations[N]>,
  done: (output: OutputOf<Operations[N]>) => void,
  emit: (event: JsonEvent) => void,
  /** Whether the answer is still waited for. */
  isOpen: () => boolean,
) => void | (() => void);
type Handlers = { readonly [N in Name]?: Handler<N> };

const LATENCY_MS: Readonly<Record<string, number>> = {
  'cri.runPodSandbox': 60,
  'cri.createContainer': 20,
  'cri.startContainer': 30,
  'cri.stopPodSandbox': 40,
  'cri.removePodSandbox': 30,
  'cri.pullImage': 500,
};
const LATENCY_DEFAULT_MS = 1;
/** From a change in the runtime until the watch has looked at the pod. */
const WATCH_MS = 3;

export class PodsWorld implements Performer {
  readonly runtime: RuntimeModel;
  readonly calls: Call[] = [];
  /** What running containers were told of their resources. */
  readonly resizes: InputOf<Operations['cri.updateContainerResources']>[] = [];
  /** Bytes that every cgroup uses. */
  memoryUsage = '0';
  readonly folders = new Set<string>();
  readonly csi = new CsiWorld(this.folders);
  /** Cgroups by path, with what they are held to. */
  readonly groups = new Map<string, CgroupResources>();
  readonly files = new Map<string, string>();
  /** By host path. */
  readonly messages = new Map<string, string>();
  /** What a registry would give. */
  readonly registry = new Map<string, Image>();
  readonly rights = new ImageRights();
  /** Pods of whom an agent that crashed has left logs. */
  logFolders: readonly PodLogs[] = [];
  manifests: readonly Manifest[] = [];
  manifestErrors: readonly ManifestError[] = [];
  /** What the URL of static pods gives. */
  fetched: { readonly manifests: readonly Manifest[] | null; readonly error: string } = { manifests: [], error: '' };
  objects: readonly ConfigObject[] = [];
  /** By name of a volume, why it cannot be set up. */
  readonly volumeFailures = new Map<string, string>();
  /** Said of every volume that is set up. */
  notGiven: Omit<VolumesSetUp, 'failed'> = {};
  /** What is being given to groups right now. */
  sharings: readonly Sharing[] = [];
  /** By key, what files of volumes have for variables; `null` for an optional key that is not there. */
  readonly fileValues = new Map<string, SecretHandle | null>();
  /** By command: how long it takes in a container, and how it ends. */
  readonly commands = new Map<string, { readonly takesMs: number; readonly exitCode: number }>();
  /** By what a probe asks (a command, a URL, `host:port`): how it is answered; well unless told otherwise. */
  readonly answers = new Map<string, Attempt>();
  /** Every attempt of every probe. */
  readonly attempts: { readonly asked: string; readonly atMs: number }[] = [];
  softState: SoftState = { containers: {}, probes: {} };
  /** The API server, for nodes that have one. */
  kube: KubeWorld | null = null;
  /** By uid, the pods that are remembered on disk. */
  readonly remembered = new Map<string, RememberedPod>();
  disk = { capacityBytes: '1000000', availableBytes: '900000' };
  /** Asked for each call; `nth` counts the calls of that name from 0. */
  fault: (name: string, input: unknown, nth: number) => Fault | undefined = () => undefined;
  /** The runtime does not answer at all. */
  isDown = false;
  readonly time: VirtualTime;
  private readonly keptLogs = new Map<(event: JsonEvent) => void, string>();
  private readonly counts = new Map<string, number>();
  private readonly watchers = new Map<number, (uid: string) => void>();
  /** By pod and id, what its actor knows of a sandbox or container. */
  private readonly known = new Map<string, Map<string, string>>();
  private readonly manifestWatchers = new Set<() => void>();
  private readonly urlWatchers = new Set<() => void>();
  private readonly open = new Set<() => void>();
  private readonly handlers: Handlers;

  constructor(time: VirtualTime) {
    this.time = time;
    this.runtime = new RuntimeModel(time);
    this.runtime.onChange = (uid) => {
      for (const watcher of this.watchers.values()) watcher(uid);
    };
    this.handlers = { ...criHandlers(this), ...hostHandlers(this), ...volumeHandlers(this), ...cgroupHandlers(this) };
  }

  setManifests(manifests: readonly Manifest[], errors: readonly ManifestError[] = []): void {
    this.manifests = manifests;
    this.manifestErrors = errors;
    for (const tell of this.manifestWatchers) tell();
  }

  setFetched(manifests: readonly Manifest[] | null, error = ''): void {
    this.fetched = { manifests, error };
    for (const tell of this.urlWatchers) tell();
  }

  setObjects(objects: readonly ConfigObject[]): void {
    this.objects = objects;
    for (const tell of this.manifestWatchers) tell();
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
    if (name === 'certificate.podKey') return this.makeKey(input as { keyType: string }, answer);
    if (name === 'cgroup.hold' || name === 'cgroup.gather') return this.keepGroups(name, input, emit);
    if (name === 'logs.keep') return this.keepLog((input as KeptLog).path, emit);
    if (name === 'probe.watch') return this.probe(input as ProbeWatch, emit);
    const driver = this.csi.handlers[name as keyof CsiWorld['handlers']];
    if (driver) return answer({ output: driver(input as never) });
    const right = this.rights.handlers[name as keyof ImageRights['handlers']];
    if (right) return answer({ output: right(input as never) });
    const handler = this.handlers[name as keyof Handlers];
    if (!handler) throw new Error(`the world of this test cannot do ${name}`);
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

  private makeKey(input: { readonly keyType: string }, answer: (result: EffectResult) => void): void {
    try {
      answer({ output: this.kube!.podKey(input) });
    } catch (error) {
      answer({ error: toPlainError(error) });
    }
  }

  /** Speaks of what a pod does not know already, also by answers to its own calls, as the real port does. */
  private watch(id: number, emit: (event: JsonEvent) => void): () => void {
    const due = new Set<string>();
    const look = (uid: string): void => {
      due.delete(uid);
      if (!this.isDown && this.watchers.has(id)) for (const event of this.newsOf(uid)) emit(event);
    };
    this.known.clear();
    this.watchers.set(id, (uid) => {
      if (due.has(uid)) return;
      due.add(uid);
      this.time.arm(this.time.ms + WATCH_MS, () => look(uid));
    });
    const { uids } = this.runtime;
    for (const uid of uids) look(uid);
    emit({ type: 'runtime.relisted', uids });
    return () => void this.watchers.delete(id);
  }

  /** Of a pod with the same sandboxes and containers as before those that changed, else the pod. */
  private newsOf(uid: string): JsonEvent[] {
    const status = this.runtime.look(uid);
    const before = this.known.get(uid);
    const now = textsOf(status);
    if (now.size === 0) return this.known.delete(uid) ? [{ type: 'runtime.podRemoved', uid }] : [];
    this.known.set(uid, now);
    if (before?.size !== now.size || [...now.keys()].some((each) => !before.has(each))) {
      return [{ type: 'runtime.podChanged', status }];
    }
    const isNews = (each: { readonly id: string }): boolean => before.get(each.id) !== now.get(each.id);
    return [
      ...status.sandboxes.filter(isNews).map((each) => ({ type: 'runtime.sandboxChanged', uid, status: each })),
      ...status.containers.filter(isNews).map((each) => ({ type: 'runtime.containerChanged', uid, status: each })),
    ];
  }

  /** A pod learns this as an answer to a call of its own. */
  knows<Status extends InstanceStatus>(uid: string, status: Status): Status {
    this.known.set(uid, new Map(this.known.get(uid)).set(status.id, JSON.stringify(status)));
    return status;
  }

  knowsAll(status: PodRuntimeStatus): PodRuntimeStatus {
    const texts = textsOf(status);
    if (texts.size > 0) this.known.set(status.uid, texts);
    return status;
  }

  /** Held once, as it stays in a world where nobody else touches groups. */
  private keepGroups(name: string, input: unknown, emit: (event: JsonEvent) => void): void {
    const { group, who, wishes = [] } = input as { group?: string; who?: string; wishes?: readonly CgroupWish[] };
    const missing = wishes.find(({ path }) => !this.groups.has(path));
    for (const { path, resources } of wishes) if (this.groups.has(path)) this.groups.set(path, resources);
    const message = missing ? `cgroup "${missing.path}" has some missing paths` : '';
    emit({ type: 'cgroups.held', group: group ?? who ?? name, message });
  }

  /** Counts as the real port does, under virtual time. */
  private probe(watch: ProbeWatch, emit: (event: JsonEvent) => void): () => void {
    const asked = askedBy(watch.handler);
    let state = newTally(watch.verdict, this.time.ms);
    let disarm = (): void => {};
    const attempt = (): void => {
      disarm = this.time.arm(this.time.ms + watch.periodSeconds * 1_000, attempt);
      this.attempts.push({ asked, atMs: this.time.ms });
      const answer = this.answers.get(asked) ?? { result: 'success', output: '' };
      const step = tally(state, watch, answer, this.time.ms);
      state = step.tally;
      for (const item of step.items) emit(item);
    };
    attempt();
    return () => disarm();
  }

  private watchUrl(emit: (event: JsonEvent) => void): () => void {
    const tell = () => emit({ type: 'manifests.fetched', ...this.fetched });
    this.urlWatchers.add(tell);
    tell();
    return () => void this.urlWatchers.delete(tell);
  }

  private watchManifests(emit: (event: JsonEvent) => void): () => void {
    const tell = () =>
      emit({
        type: 'manifests.changed',
        manifests: this.manifests,
        objects: this.objects,
        errors: this.manifestErrors,
      });
    this.manifestWatchers.add(tell);
    tell();
    return () => void this.manifestWatchers.delete(tell);
  }

  private keepLog(path: string, emit: (event: JsonEvent) => void): () => void {
    this.keptLogs.set(emit, path);
    return () => void this.keptLogs.delete(emit);
  }

  openLogs(): readonly string[] {
    return [...this.keptLogs.values()];
  }

  /** The watch of every log that is kept says this. */
  sayOfLogs(item: JsonEvent): void {
    for (const emit of this.keptLogs.keys()) emit(item);
  }

  /** The agent that asked is gone: nobody hears the answers any more. */
  detach(): void {
    for (const cancel of this.open) cancel();
    this.open.clear();
  }

  callsOf(name: string): Call[] {
    return this.calls.filter((call) => call.name === name);
  }
}

type InstanceStatus = PodSandboxStatus | ContainerStatus;

const textsOf = ({ sandboxes, containers }: PodRuntimeStatus): Map<string, string> =>
  new Map([...sandboxes, ...containers].map((each) => [each.id, JSON.stringify(each)]));

function askedBy(handler: ProbeHandler): string {
  if (handler.kind === 'exec') return handler.command.join(' ');
  return handler.kind === 'httpGet' ? handler.url : `${handler.host}:${handler.port}`;
}

const faultError = ({ error = 'deadline exceeded', code = 'DEADLINE_EXCEEDED' }: Fault) => ({
  name: 'ServiceError',
  message: error,
  code,
  retriable: true,
});

/** What the answer to a call shows. */
function sandboxNow(world: PodsWorld, id: string) {
  const sandbox = world.runtime.sandboxes.get(id);
  return sandbox ? world.knows(sandbox.config.metadata?.uid ?? '', world.runtime.statusOfSandbox(sandbox)) : null;
}

function containerNow(world: PodsWorld, id: string) {
  const container = world.runtime.containers.get(id);
  const uid = container?.sandbox.config.metadata?.uid ?? '';
  return container ? world.knows(uid, world.runtime.statusOfContainer(container)) : null;
}

function criHandlers(world: PodsWorld): Handlers {
  const { runtime } = world;
  return {
    'cri.runPodSandbox': ({ config }, done) => {
      const podSandboxId = runtime.runSandbox(config);
      done({ podSandboxId, status: sandboxNow(world, podSandboxId) });
    },
    'cri.stopPodSandbox': ({ podSandboxId }, done) => {
      runtime.stopSandbox(podSandboxId);
      done({ status: sandboxNow(world, podSandboxId) });
    },
    'cri.removePodSandbox': ({ podSandboxId }, done) => {
      runtime.removeSandbox(podSandboxId);
      done(null);
    },
    'cri.createContainer': ({ podSandboxId, config }, done) => {
      for (const { host_path = '', image } of config.mounts ?? []) {
        if (image !== undefined) continue;
        if (!world.files.has(host_path) && !world.folders.has(host_path)) {
          throw new RuntimeError('INVALID_ARGUMENT', `failed to stat "${host_path}": no such file or directory`);
        }
      }
      const containerId = runtime.createContainer(podSandboxId, config);
      containerNow(world, containerId);
      done({ containerId });
    },
    'cri.startContainer': ({ containerId }, done) => {
      runtime.startContainer(containerId);
      done({ status: containerNow(world, containerId) });
    },
    'cri.stopContainer': ({ containerId, timeoutSeconds }, done, _, isOpen) =>
      runtime.stopContainer(containerId, timeoutSeconds, () =>
        done({ status: isOpen() ? containerNow(world, containerId) : null }),
      ),
    'cri.updateContainerResources': ({ containerId, linux }, done) => {
      runtime.resizeContainer(containerId, linux);
      world.resizes.push({ containerId, linux });
      done(null);
    },
    'cri.updatePodSandboxResources': (_, done) => done({ isSupported: false }),
    'cri.removeContainer': ({ containerId }, done) => {
      runtime.removeContainer(containerId);
      done(null);
    },
    'cri.execSync': ({ command }, done) => {
      const { takesMs, exitCode } = world.commands.get(command.join(' ')) ?? { takesMs: 0, exitCode: 0 };
      return world.time.arm(world.time.ms + takesMs, () => done({ exitCode, stdout: '', stderr: '' }));
    },
    'probe.httpHook': ({ url }, done) => {
      const answer = world.answers.get(url);
      if (answer?.result === 'failure') throw new RuntimeError('HOOK_FAILED', answer.output);
      return world.time.arm(world.time.ms + (world.commands.get(url)?.takesMs ?? 0), () =>
        done({ fellBack: answer?.result === 'warning' }),
      );
    },
    'cri.podStatus': ({ uid }, done) => done(world.knowsAll(runtime.look(uid))),
    'cri.imageStatus': ({ image }, done) => done({ image: runtime.images.get(image) ?? null }),
    'cri.listImages': (_, done) => done({ images: [...runtime.images.values()] }),
    'cri.imageFsInfo': (_, done) => done({ mountpoint: '/', usedBytes: '0', inodesUsed: '0' }),
    'cri.removeImage': ({ image }, done) => {
      for (const [name, { id }] of runtime.images) if (name === image || id === image) runtime.images.delete(name);
      done(null);
    },
    'cri.pullImage': ({ image, auth }, done) => {
      const found = world.registry.get(image);
      const refusal = world.rights.refusal(image, auth);
      if (refusal !== null) throw new RuntimeError('UNKNOWN', `rpc error: code = Unknown desc = ${refusal}`);
      if (!found) throw new RuntimeError('NOT_FOUND', `failed to resolve reference "${image}": not found`);
      runtime.images.set(image, found);
      done({ imageRef: found.id });
    },
  };
}

function hostHandlers(world: PodsWorld): Handlers {
  return {
    'host.preparePod': ({ directories, files }, done) => {
      for (const { path } of directories) world.folders.add(path);
      for (const { path, content } of files) {
        const text = typeof content === 'object' && content ? content.before + content.known + content.after : content;
        if (text !== null || !world.files.has(path)) world.files.set(path, text ?? '');
      }
      done(null);
    },
    'host.removePod': ({ root, paths }, done) => {
      for (const path of paths) {
        if (!path.startsWith(`${root}/`)) throw new RuntimeError('EPERM', `${path} is not below ${root}`);
        for (const each of world.folders) if (`${each}/`.startsWith(`${path}/`)) world.folders.delete(each);
        for (const each of world.files.keys()) if (each.startsWith(`${path}/`)) world.files.delete(each);
      }
      done(null);
    },
    'host.terminationMessage': ({ file }, done) => done({ message: world.messages.get(file) ?? '' }),
    'host.symlink': (_, done) => done(null),
    'logs.podFolders': (_, done) => done({ pods: world.logFolders }),
    'users.map': (_, done) => done({ hostId: 131_072, length: 65_536 }),
    'logs.unlink': (_, done) => done(null),
    'logs.remove': (_, done) => done(null),
    'cri.reopenContainerLog': (_, done) => done(null),
    'logs.restore': (_, done) => done(null),
    'host.fileSystem': (_, done) => done(world.disk),
    'host.loadPods': (_, done) => done({ pods: [...world.remembered.values()] }),
    'host.savePod': ({ uid, remembered }, done) => {
      if (remembered === null) world.remembered.delete(uid);
      else world.remembered.set(uid, structuredClone<RememberedPod>(remembered));
      done(null);
    },
    'host.loadSoftState': (_, done) => done(world.softState),
    'host.saveSoftState': ({ state }, done) => {
      world.softState = structuredClone<SoftState>(state);
      done(null);
    },
  };
}

function cgroupHandlers(world: PodsWorld): Handlers {
  const { groups } = world;
  const below = (path: string) => [...groups.keys()].filter((each) => each === path || each.startsWith(`${path}/`));
  return {
    'host.tuneKernel': (_, done) => done({ errors: [] }),
    'cgroup.missing': (_, done) => done({ missing: [] }),
    'cgroup.own': (_, done) => done({ path: '/system.slice/kubelet.service' }),
    'cgroup.ensure': ({ path, resources }, done) => {
      groups.set(path, { ...groups.get(path), ...resources });
      done(null);
    },
    'cgroup.update': ({ path, resources }, done) => {
      if (!groups.has(path)) throw new RuntimeError('ENOENT', `cgroup "${path}" has some missing paths`);
      groups.set(path, { ...groups.get(path), ...resources });
      done(null);
    },
    'cgroup.destroy': ({ paths }, done) => {
      for (const each of paths.flatMap(below)) groups.delete(each);
      done(null);
    },
    'cgroup.listPods': ({ parents }, done) => {
      const pods = [...groups.keys()].flatMap((path) => {
        const [, parent = '', uid] = /^(.*)\/pod([^/]+)$/.exec(path) ?? [];
        return uid !== undefined && parents.includes(parent) ? [{ uid, path }] : [];
      });
      done({ pods });
    },
    'cgroup.memoryUsage': ({ containers }, done) =>
      done({
        bytes: world.memoryUsage,
        containers: Object.fromEntries(containers.map((id) => [id, world.memoryUsage])),
      }),
  };
}

function volumeHandlers(world: PodsWorld): Handlers {
  return {
    'volume.setUp': ({ volumes }, done) => {
      const failed = volumes.flatMap(({ name }) => {
        const message = world.volumeFailures.get(name);
        return message === undefined ? [] : [{ name, message }];
      });
      const good = volumes.filter(({ name }) => !world.volumeFailures.has(name));
      for (const volume of good) world.folders.add(volume.kind === 'device' ? volume.link : volume.path);
      done({ failed, ...world.notGiven });
    },
    'volume.bindSubPaths': ({ subPaths }, done) => {
      for (const { target } of subPaths) world.folders.add(target);
      done({ failed: {} });
    },
    'volume.readVariables': ({ variables }, done) => {
      const known = variables.map(({ container, env, key }) => [container, env, world.fileValues.get(key)] as const);
      const missing = known.filter(([, , value]) => value === undefined).map(([container]) => container);
      const unread = { message: "couldn't parse env file", why: 'the test has no such file' };
      const of = (container: string) => known.filter(([owner]) => owner === container);
      const values = known.map(([container]) => [
        container,
        Object.fromEntries(of(container).map(([, env, value]) => [env, value ?? null])),
      ]);
      const failed = Object.fromEntries(missing.map((container) => [container, unread]));
      done({ values: Object.fromEntries(values), failed });
    },
    'volume.sharings': (_, done) => done(world.sharings),
    'volume.podFolders': ({ root }, done) => {
      const below = [...world.folders].flatMap((path) =>
        path.startsWith(`${root}/pods/`) ? [path.split('/')[5]!] : [],
      );
      done({ uids: [...new Set(below)] });
    },
    'volume.tearDown': ({ podDirectory }, done) => {
      for (const path of world.folders) {
        const isOwn = ['volumes', 'volume-subpaths'].some((each) => path.startsWith(`${podDirectory}/${each}/`));
        if (isOwn) world.folders.delete(path);
      }
      done(null);
    },
  };
}
