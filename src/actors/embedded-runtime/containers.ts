/**
 * The lifecycles of containers (created, running, exited, removed) and of sandboxes (ready, not ready, removed): each
 * RPC in each state, with containerd's error texts. A sandbox has no process; its containers only refer to it.
 *
 * Invariants: a container starts at most once; it is removed only when none of its processes runs; a stop signal is
 * sent once, however often the caller requests it; there is one sandbox per name, uid, namespace and attempt; a sandbox
 * that is not ready has no running container; removing a sandbox removes its containers.
 */
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import type { ContainerConfig, CreateContainerRequest, PodSandboxConfig } from '../../machines/model/api/cri.ts';
import { nowNanos } from './clock.ts';
import { CriError, invalid, notFound, unimplemented, wrongState } from './errors.ts';
import { isAlive, killMembers, sendSignal, signalNumber } from './process/proc.ts';
import { planProcess } from './process/process-spec.ts';
import type { Supervisor } from './process/supervisor.ts';
import { stateOf } from './status.ts';
import type { Images } from './store/images.ts';
import type { ContainerRecord, SandboxRecord } from './store/records.ts';
import { isLogRecord, isProcessIdentity, RECORD_VERSION, readJson } from './store/records.ts';
import type { Container, Store } from './store/store.ts';

/** Milliseconds for Node to start and the process to be executed; a busy machine needs a second or two. */
const START_TIMEOUT_MS = 20_000;
/** Milliseconds for a killed process to end; longer only if the kernel is stuck. */
const KILL_TIMEOUT_MS = 10_000;
const REOPEN_TIMEOUT_MS = 5_000;
/** Containers on one node, including dead ones: far above what a node agent keeps, and each costs a folder. */
const MAX_CONTAINERS = 5_000;

export interface ContainerHooks {
  readonly created: (container: Container) => void;
  readonly deleted: (container: Container) => void;
  readonly log: (text: string, fields: Readonly<Record<string, unknown>>) => void;
}

export class Containers {
  readonly #store: Store;
  readonly #images: Images;
  readonly #supervisor: Supervisor;
  readonly #hooks: ContainerHooks;

  constructor(store: Store, images: Images, supervisor: Supervisor, hooks: ContainerHooks) {
    this.#store = store;
    this.#images = images;
    this.#supervisor = supervisor;
    this.#hooks = hooks;
  }

  create({ pod_sandbox_id = '', config, sandbox_config }: CreateContainerRequest): Container {
    const sandbox = this.#store.sandboxes.get(pod_sandbox_id);
    if (!sandbox) throw notFound(`failed to find sandbox id "${pod_sandbox_id}": not found`);
    if (!config?.metadata?.name) throw invalid('container config must include metadata with a name');
    if (!sandbox.ready) throw wrongState(`sandbox "${sandbox.id}" is not running: no container can be created in it`);
    if (this.#store.containers.size >= MAX_CONTAINERS) {
      throw new CriError(status.RESOURCE_EXHAUSTED, `${MAX_CONTAINERS} containers exist: remove some first`);
    }
    const logDirectory = sandbox_config?.log_directory || sandbox.logDirectory;
    const container = this.#store.addContainer(this.#record(config, sandbox, logDirectory));
    const { id, ignored, metadata } = container.record;
    this.#hooks.log('Created container as a plain host process', {
      container: metadata.name,
      pod: `${sandbox.metadata.namespace}/${sandbox.metadata.name}`,
      containerId: id,
      ...(ignored.length > 0 ? { notHonoured: ignored } : {}),
    });
    this.#hooks.created(container);
    return container;
  }

  #record(config: ContainerConfig, sandbox: SandboxRecord, logDirectory: string): ContainerRecord {
    const reference = config.image?.image ?? '';
    const image = this.#images.find(reference);
    if (!image) throw notFound(`failed to resolve image "${reference}": not found`);
    const { name = '', attempt = 0 } = config.metadata ?? {};
    const pod = sandbox.metadata;
    const id = this.#store.newId();
    const stopSignal = config.stop_signal ?? 'RUNTIME_DEFAULT';
    if (signalNumber(stopSignal) === undefined) throw invalid(`stop signal ${stopSignal} is not known on this machine`);
    return {
      version: RECORD_VERSION,
      id,
      name: [name, pod.name, pod.namespace, pod.uid, attempt].join('_'),
      sandboxId: sandbox.id,
      metadata: { name, attempt },
      labels: config.labels ?? {},
      annotations: config.annotations ?? {},
      image: image.repo_tags[0] ?? reference,
      imageId: image.id,
      mounts: config.mounts ?? [],
      stopSignal: stopSignal === 'RUNTIME_DEFAULT' ? 'SIGTERM' : stopSignal,
      logPath: config.log_path ? join(logDirectory, config.log_path) : '',
      createdAt: String(nowNanos()),
      startRequested: false,
      ...planProcess(id, config, sandbox.hostname),
    };
  }

  async start(container: Container): Promise<void> {
    const { id } = container;
    if (stateOf(container) !== 'CONTAINER_CREATED')
      throw cannotStart(id, `container is in ${stateOf(container)} state`);
    if (container.removing) throw cannotStart(id, "container is in removing state, can't be started");
    if (container.starting) throw cannotStart(id, 'container is already in starting state');
    if (!this.#store.sandboxes.get(container.record.sandboxId)?.ready) {
      throw wrongState(`sandbox container "${container.record.sandboxId}" is not running`);
    }
    container.starting = true;
    try {
      container.save({ startRequested: true });
      this.#supervisor.launch(container);
      const decided = () => container.process !== undefined || container.exit !== undefined;
      if (!(await this.#supervisor.until(container, decided, START_TIMEOUT_MS))) {
        this.#supervisor.abandonStart(container, `its shim gave no sign for ${START_TIMEOUT_MS} ms`);
        await this.#supervisor.until(container, decided, KILL_TIMEOUT_MS);
      }
    } finally {
      container.starting = false;
    }
    if (!container.process) {
      throw wrongState(`failed to start container "${id}": ${container.exit?.message ?? 'its shim does not answer'}`);
    }
  }

  /** Sends the stop signal to the process group, and kills everything when the grace period is over. */
  async stop(container: Container, timeoutSeconds: number, signal?: AbortSignal): Promise<void> {
    const exited = () => container.exit !== undefined;
    if (!container.record.startRequested || exited()) return;
    await this.#supervisor.until(
      container,
      () => container.process !== undefined || exited(),
      START_TIMEOUT_MS,
      signal,
    );
    const leader = container.process;
    if (!leader || exited()) return;
    if (timeoutSeconds > 0) {
      const number = signalNumber(container.record.stopSignal) ?? 0;
      if (!container.stopSignalSent && isAlive(leader)) sendSignal(-leader.pid, number);
      container.stopSignalSent = true;
      if (await this.#supervisor.until(container, exited, timeoutSeconds * 1_000, signal)) return;
    }
    await killMembers(container.id, isAlive(leader) ? leader.pid : undefined);
    if (await this.#supervisor.until(container, exited, KILL_TIMEOUT_MS, signal)) return;
    throw new CriError(
      status.DEADLINE_EXCEEDED,
      `an error occurs during waiting for container "${container.id}" to be killed: process ${leader.pid} remains`,
    );
  }

  async remove(container: Container): Promise<void> {
    if (container.starting) throw cannotRemove(container.id, "container is in starting state, can't be removed");
    if (container.removing) throw cannotRemove(container.id, 'container is already in removing state');
    container.removing = true;
    try {
      await this.stop(container, 0);
      this.#supervisor.forget(container);
      this.#store.removeContainer(container);
    } finally {
      container.removing = false;
    }
    this.#hooks.deleted(container);
  }

  async reopenLog(container: Container): Promise<void> {
    if (!container.running) throw wrongState('container is not running');
    const shim = readJson(container.files.shim, isProcessIdentity);
    const answer = () => readJson(container.files.log, isLogRecord);
    const before = answer()?.reopened ?? 0;
    if (shim && isAlive(shim)) sendSignal(shim.pid, 'SIGUSR2');
    const answered = () => container.exit !== undefined || (answer()?.reopened ?? 0) > before;
    if (!(await this.#supervisor.until(container, answered, REOPEN_TIMEOUT_MS))) {
      throw new CriError(status.DEADLINE_EXCEEDED, `the shim of container "${container.id}" did not reopen its log`);
    }
    const error = answer()?.error;
    if (error) throw wrongState(`failed to reopen the log of container "${container.id}": ${error}`);
  }
}

function cannotStart(id: string, why: string): CriError {
  return wrongState(`failed to set starting state for container "${id}": ${why}`);
}

function cannotRemove(id: string, why: string): CriError {
  return wrongState(`failed to set removing state for container "${id}": ${why}`);
}

/** Sandboxes on one node, including stopped ones: far above what a node agent keeps. */
const MAX_SANDBOXES = 2_000;

export type SandboxChange = 'created' | 'started' | 'stopped' | 'deleted';

export class Sandboxes {
  readonly #store: Store;
  readonly #containers: Containers;
  readonly #changed: (record: SandboxRecord, change: SandboxChange) => void;

  constructor(store: Store, containers: Containers, changed: (record: SandboxRecord, change: SandboxChange) => void) {
    this.#store = store;
    this.#containers = containers;
    this.#changed = changed;
  }

  run(config: PodSandboxConfig | undefined, runtimeHandler: string): string {
    if (!config?.metadata) throw invalid('sandbox config must include metadata');
    if (runtimeHandler !== '') {
      throw wrongState(`failed to get sandbox runtime: no runtime for "${runtimeHandler}" is configured`);
    }
    const namespaces = config.linux?.security_context?.namespace_options ?? {};
    // Without user namespaces the containers would run as root of the machine, so such a sandbox is rejected.
    if (namespaces.userns_options?.mode === 'POD') {
      throw unimplemented('user namespaces are not supported: containers run as plain host processes');
    }
    if (this.#store.sandboxes.size >= MAX_SANDBOXES) {
      throw new CriError(status.RESOURCE_EXHAUSTED, `${MAX_SANDBOXES} sandboxes exist: remove some first`);
    }
    const { name = '', namespace = '', uid = '', attempt = 0 } = config.metadata;
    const record: SandboxRecord = {
      version: RECORD_VERSION,
      id: this.#store.newId(),
      name: [name, namespace, uid, attempt].join('_'),
      metadata: { name, namespace, uid, attempt },
      labels: config.labels ?? {},
      annotations: config.annotations ?? {},
      hostname: config.hostname ?? '',
      logDirectory: config.log_directory ?? '',
      namespaces,
      createdAt: String(nowNanos()),
      ready: true,
    };
    this.#store.addSandbox(record);
    this.#changed(record, 'created');
    this.#changed(record, 'started');
    return record.id;
  }

  /** Kills running containers: a caller that wants a grace period stops them first. */
  async stop(record: SandboxRecord): Promise<void> {
    if (record.ready) {
      // Saved first, so that nothing new can start in it.
      this.#store.saveSandbox({ ...record, ready: false });
    }
    await Promise.all(this.#store.containersOf(record.id).map((container) => this.#containers.stop(container, 0)));
    if (record.ready) this.#changed(this.#store.sandboxes.get(record.id) ?? record, 'stopped');
  }

  async remove(record: SandboxRecord): Promise<void> {
    await this.stop(record);
    for (const container of this.#store.containersOf(record.id)) await this.#containers.remove(container);
    this.#store.removeSandbox(record);
    this.#changed(record, 'deleted');
  }
}
