/**
 * A model of a container runtime and of a node's disk in virtual time: exactly what CRI guarantees.
 *
 * Owns sandboxes, containers, images and files. Names are reserved as in containerd; processes run, exit and ignore
 * signals as their `Program` says. Deterministic: the same calls at the same times give the same world.
 */
import type {
  ContainerConfig,
  ContainerStatus,
  Image,
  ImageSpec,
  LinuxContainerResources,
  PodSandboxConfig,
  PodSandboxStatus,
} from '../../machines/model/api/cri.ts';
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';
import { slimmedContainer, slimmedSandbox } from '../../machines/model/status/runtime-facts.ts';
import type { VirtualTime } from './virtual-time.ts';

/** The behaviour of a container's process. */
export interface Program {
  /** The process exits by itself after this time; `undefined`: never. */
  readonly runsMs?: number;
  /** Why it ended; absent: by its exit code. */
  readonly reason?: string;
  readonly exitCode?: number;
  /** The time from the stop signal to the exit; `undefined`: none. Infinity: only SIGKILL ends the process. */
  readonly stopsMs?: number;
  /** The exit code after the stop signal. */
  readonly stopExitCode?: number;
  /** The runtime's error when the container is started. */
  readonly startError?: string;
}

export interface Sandbox {
  readonly id: string;
  readonly config: PodSandboxConfig;
  state: 'SANDBOX_READY' | 'SANDBOX_NOTREADY';
  readonly createdNs: string;
  readonly ip: string;
}

export interface Container {
  readonly id: string;
  readonly sandbox: Sandbox;
  readonly config: ContainerConfig;
  /** The name of the image: its first tag, or the name in the container's configuration. */
  readonly image: ImageSpec | undefined;
  resources: LinuxContainerResources | undefined;
  state: 'CONTAINER_CREATED' | 'CONTAINER_RUNNING' | 'CONTAINER_EXITED';
  readonly createdNs: string;
  startedNs: string;
  finishedNs: string;
  exitCode: number;
  reason: string;
  message: string;
  program: Program;
  cancel: (() => void) | undefined;
  /** Called when the process has exited. */
  readonly onExit: (() => void)[];
}

export class RuntimeError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

const SIGTERM_EXIT = 143;
const SIGKILL_EXIT = 137;
/** containerd's exit code of a process that was never started. */
const START_ERROR_EXIT = 128;

export class RuntimeModel {
  readonly sandboxes = new Map<string, Sandbox>();
  readonly containers = new Map<string, Container>();
  readonly images = new Map<string, Image>();
  /** By container name: the n-th start runs the n-th program, later starts the last one. */
  readonly programs = new Map<string, Program[]>();
  /** Every process that was ever started: `<pod>/<container>#<attempt>`. */
  readonly started: string[] = [];
  onChange: (uid: string) => void = () => {};
  /** The error of the machine's clock. */
  clockOffsetMs = 0;
  /** The error of the clock when the current agent started. */
  agentOffsetMs = 0;
  /** The program of a container by its configuration; `undefined`: from `programs`. */
  programOf: (container: Container) => Program | undefined = () => undefined;
  private readonly time: VirtualTime;
  private ids = 0;

  constructor(time: VirtualTime) {
    this.time = time;
  }

  private id(kind: string): string {
    this.ids++;
    return `${kind}${String(this.ids).padStart(4, '0')}`.padEnd(64, '0');
  }

  /** Nanoseconds since the epoch; each value is unique. */
  private stamp(): string {
    this.ids++;
    return `${this.time.ms + this.clockOffsetMs}${String(this.ids % 1_000_000).padStart(6, '0')}`;
  }

  private changed(sandbox: Sandbox): void {
    this.onChange(sandbox.config.metadata?.uid ?? '');
  }

  runSandbox(config: PodSandboxConfig): string {
    const key = JSON.stringify(config.metadata);
    const other = [...this.sandboxes.values()].find((sandbox) => JSON.stringify(sandbox.config.metadata) === key);
    if (other) {
      const name = Object.values(config.metadata ?? {}).join('_');
      throw new RuntimeError(
        'UNKNOWN',
        `failed to reserve sandbox name "${name}": name "${name}" is reserved for "${other.id}"`,
      );
    }
    const id = this.id('5a');
    const ip = `10.0.0.${(this.sandboxes.size % 250) + 1}`;
    const sandbox: Sandbox = { id, config, state: 'SANDBOX_READY', createdNs: this.stamp(), ip };
    this.sandboxes.set(id, sandbox);
    this.changed(sandbox);
    return id;
  }

  stopSandbox(id: string): void {
    const sandbox = this.sandboxes.get(id);
    if (!sandbox) return;
    for (const container of this.containersOf(sandbox)) this.exit(container, SIGKILL_EXIT);
    sandbox.state = 'SANDBOX_NOTREADY';
    this.changed(sandbox);
  }

  removeSandbox(id: string): void {
    const sandbox = this.sandboxes.get(id);
    if (!sandbox) return;
    this.stopSandbox(id);
    for (const container of this.containersOf(sandbox)) this.containers.delete(container.id);
    this.sandboxes.delete(id);
    this.changed(sandbox);
  }

  containersOf(sandbox: Sandbox): Container[] {
    return [...this.containers.values()].filter((container) => container.sandbox === sandbox);
  }

  createContainer(sandboxId: string, config: ContainerConfig): string {
    const sandbox = this.sandboxes.get(sandboxId);
    if (sandbox?.state !== 'SANDBOX_READY') {
      throw new RuntimeError('NOT_FOUND', `failed to find sandbox id "${sandboxId}": not found`);
    }
    if (!this.images.has(config.image?.user_specified_image ?? '') && !this.hasImageId(config.image?.image ?? '')) {
      throw new RuntimeError('NOT_FOUND', `failed to resolve image "${config.image?.image}": not found`);
    }
    const key = `${JSON.stringify(config.metadata)}${JSON.stringify(sandbox.config.metadata?.uid)}`;
    const other = [...this.containers.values()].find(
      (each) => `${JSON.stringify(each.config.metadata)}${JSON.stringify(each.sandbox.config.metadata?.uid)}` === key,
    );
    if (other) {
      const name = `${config.metadata?.name}_${sandbox.config.metadata?.uid}_${config.metadata?.attempt}`;
      throw new RuntimeError(
        'UNKNOWN',
        `failed to reserve container name "${name}": name "${name}" is reserved for "${other.id}"`,
      );
    }
    const container: Container = {
      id: this.id('c0'),
      sandbox,
      config,
      image: this.namedImage(config),
      resources: config.linux?.resources,
      state: 'CONTAINER_CREATED',
      createdNs: this.stamp(),
      startedNs: '0',
      finishedNs: '0',
      exitCode: 0,
      reason: '',
      message: '',
      program: {},
      cancel: undefined,
      onExit: [],
    };
    this.containers.set(container.id, container);
    this.changed(sandbox);
    return container.id;
  }

  private namedImage({ image: wanted }: ContainerConfig): ImageSpec | undefined {
    const tag = [...this.images.values()].find(({ id }) => id === wanted?.image)?.repo_tags[0];
    return tag === undefined ? wanted : { image: tag };
  }

  private hasImageId(id: string): boolean {
    return [...this.images.values()].some((image) => image.id === id);
  }

  private find(id: string): Container {
    const container = this.containers.get(id);
    if (!container)
      throw new RuntimeError('NOT_FOUND', `an error occurred when try to find container "${id}": not found`);
    return container;
  }

  startContainer(id: string): void {
    const container = this.find(id);
    if (container.state !== 'CONTAINER_CREATED') {
      throw new RuntimeError('UNKNOWN', `container "${id}" is not in created state`);
    }
    const name = container.config.metadata?.name ?? '';
    const programs = this.programs.get(name) ?? [];
    container.program = this.programOf(container) ?? (programs.length > 1 ? programs.shift() : programs[0]) ?? {};
    const { startError } = container.program;
    if (startError !== undefined) {
      this.exit(container, START_ERROR_EXIT);
      Object.assign(container, { reason: 'StartError', message: startError });
      throw new RuntimeError('UNKNOWN', startError);
    }
    container.state = 'CONTAINER_RUNNING';
    container.startedNs = this.stamp();
    this.started.push(`${container.sandbox.config.metadata?.name}/${name}#${container.config.metadata?.attempt ?? 0}`);
    const { runsMs, exitCode = 0 } = container.program;
    if (runsMs !== undefined) {
      container.cancel = this.time.arm(this.time.ms + runsMs, () => this.exit(container, exitCode));
    }
    this.changed(container.sandbox);
  }

  /** Calls `done` when the process has ended by the stop signal, or by SIGKILL after the grace period. */
  stopContainer(id: string, timeoutSeconds: number, done: () => void): void {
    const container = this.containers.get(id);
    if (container?.state !== 'CONTAINER_RUNNING') {
      done();
      return;
    }
    container.onExit.push(done);
    const { stopsMs = 0 } = container.program;
    const graceMs = timeoutSeconds * 1_000;
    const endsByItself = stopsMs <= graceMs;
    const code = endsByItself ? (container.program.stopExitCode ?? SIGTERM_EXIT) : SIGKILL_EXIT;
    this.time.arm(this.time.ms + Math.min(stopsMs, graceMs), () => this.exit(container, code));
  }

  exit(container: Container, exitCode: number): void {
    if (container.state === 'CONTAINER_EXITED') return;
    container.cancel?.();
    container.state = 'CONTAINER_EXITED';
    container.finishedNs = this.stamp();
    container.exitCode = exitCode;
    container.reason = container.program.reason ?? (exitCode === 0 ? 'Completed' : 'Error');
    for (const done of container.onExit.splice(0)) done();
    this.changed(container.sandbox);
  }

  removeContainer(id: string): void {
    const container = this.containers.get(id);
    if (!container) return;
    this.exit(container, SIGKILL_EXIT);
    this.containers.delete(id);
    this.changed(container.sandbox);
  }

  resizeContainer(id: string, linux: LinuxContainerResources): void {
    const container = this.containers.get(id);
    if (!container) throw new RuntimeError('NOT_FOUND', `container ${id} not found`);
    container.resources = { ...container.resources, ...linux };
    this.changed(container.sandbox);
  }

  running(name: string): Container | undefined {
    return [...this.containers.values()].find(
      (each) => each.config.metadata?.name === name && each.state === 'CONTAINER_RUNNING',
    );
  }

  /** The status as the real port returns it. */
  statusOfSandbox(sandbox: Sandbox): PodSandboxStatus {
    return slimmedSandbox(sandboxStatus(sandbox));
  }

  statusOfContainer(container: Container): ContainerStatus {
    return slimmedContainer(containerStatus(container));
  }

  get uids(): string[] {
    return [...new Set([...this.sandboxes.values()].map(({ config }) => config.metadata?.uid ?? ''))];
  }

  inspect(uid: string): PodRuntimeStatus {
    const sandboxes = [...this.sandboxes.values()].filter(({ config }) => config.metadata?.uid === uid).toReversed();
    const containers = [...this.containers.values()].filter(({ sandbox }) => sandboxes.includes(sandbox)).toReversed();
    const metadata = sandboxes[0]?.config.metadata;
    return {
      uid,
      name: metadata?.name ?? '',
      namespace: metadata?.namespace ?? '',
      sandboxes: sandboxes.map((each) => this.statusOfSandbox(each)),
      containers: containers.map((each) => this.statusOfContainer(each)),
      observedAtMs: this.time.ms + this.agentOffsetMs,
    };
  }
}

const sandboxStatus = (sandbox: Sandbox): PodSandboxStatus => ({
  id: sandbox.id,
  state: sandbox.state,
  created_at: sandbox.createdNs,
  labels: sandbox.config.labels ?? {},
  annotations: sandbox.config.annotations ?? {},
  runtime_handler: '',
  ...(sandbox.config.metadata ? { metadata: sandbox.config.metadata } : {}),
  network: { ip: sandbox.state === 'SANDBOX_READY' ? sandbox.ip : '', additional_ips: [] },
  linux: { namespaces: { options: sandbox.config.linux?.security_context?.namespace_options ?? {} } },
});

const containerStatus = (container: Container): ContainerStatus => ({
  id: container.id,
  ...(container.resources ? { resources: { linux: container.resources } } : {}),
  state: container.state,
  created_at: container.createdNs,
  started_at: container.startedNs,
  finished_at: container.finishedNs,
  exit_code: container.exitCode,
  image_ref: container.config.image?.image ?? '',
  image_id: container.config.image?.image ?? '',
  reason: container.reason,
  message: container.message,
  labels: container.config.labels ?? {},
  annotations: container.config.annotations ?? {},
  mounts: container.config.mounts ?? [],
  log_path: `${container.sandbox.config.log_directory}/${container.config.log_path}`,
  stop_signal: 'SIGTERM',
  ...(container.config.metadata ? { metadata: container.config.metadata } : {}),
  ...(container.image ? { image: container.image } : {}),
});
