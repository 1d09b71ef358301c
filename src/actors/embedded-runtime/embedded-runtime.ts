/**
 * The embedded runtime: a CRI v1 server inside this process that runs containers as plain host processes.
 *
 * Owns its root folder: one runtime serves a root at a time. Invariant: containers do not depend on it. They survive
 * `close`, a crash and `kill -9`, and the next start on the same root finds them, with all changes in between. Under
 * systemd that needs `KillMode=process`.
 */
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import type { ContainerEventResponse } from '../../machines/model/api/cri.ts';
import { nowNanos } from './clock.ts';
import { Containers, Sandboxes } from './containers.ts';
import { Events, Faults, serve } from './grpc-server.ts';
import { identify, isAlive, killMembers } from './process/proc.ts';
import { Supervisor } from './process/supervisor.ts';
import { imageMethods, type RuntimeParts, runtimeMethods } from './service.ts';
import { containerStatus, NO_ISOLATION, Stats, sandboxStatus } from './status.ts';
import { Images } from './store/images.ts';
import { claim, isProcessIdentity, readJson } from './store/records.ts';
import { Store } from './store/store.ts';
import { StreamServer } from './streaming/stream-server.ts';

export interface EmbeddedRuntimeOptions {
  /** Absolute path of the unix socket, in a folder that only the owner can enter (created if missing). */
  readonly socket: string;
  /** Absolute path of the folder that keeps sandboxes and containers. */
  readonly rootDir: string;
  /** JSON file of injected faults (see `grpc-server.ts`); read again when it changes. */
  readonly faultsFile?: string;
  readonly log?: RuntimeLog;
}

export type RuntimeLog = (level: 'info' | 'warn', text: string, fields?: Readonly<Record<string, unknown>>) => void;

export interface EmbeddedRuntime {
  /** `unix:///…`, for `--container-runtime-endpoint`. */
  readonly endpoint: string;
  /**
   * Stops serving. Containers keep running unless `stopContainers` is set; then they are stopped with a short grace
   * period.
   */
  close(options?: { readonly stopContainers: boolean }): Promise<void>;
}

type EventType = ContainerEventResponse['container_event_type'];

const EVENT_OF = {
  created: 'CONTAINER_CREATED_EVENT',
  started: 'CONTAINER_STARTED_EVENT',
  stopped: 'CONTAINER_STOPPED_EVENT',
  deleted: 'CONTAINER_DELETED_EVENT',
} as const satisfies Readonly<Record<string, EventType>>;

/** Seconds between the stop signal and the kill when the runtime closes together with its containers. */
const CLOSE_GRACE_SECONDS = 5;

export async function startEmbeddedRuntime(options: EmbeddedRuntimeOptions): Promise<EmbeddedRuntime> {
  const { socket, rootDir: root, faultsFile, log = () => {} } = options;
  for (const path of [socket, root]) if (!isAbsolute(path)) throw new Error(`${path} must be an absolute path`);
  mkdirSync(root, { recursive: true });
  // The folder holds the environments of containers, and possibly the socket.
  chmodSync(root, 0o700);
  const release = lockRoot(root);
  try {
    const { parts, events, supervisor } = compose(root, log);
    await adopt(parts.store, supervisor, log);
    const server = await serve({
      socket,
      runtimeMethods: runtimeMethods(parts),
      imageMethods: imageMethods(parts),
      events,
      faults: new Faults(faultsFile, (text) => log('warn', text)),
    }).catch((thrown: unknown) => {
      supervisor.close();
      throw thrown;
    });
    log('warn', `Embedded runtime serves ${socket}: ${NO_ISOLATION}`);
    const close: EmbeddedRuntime['close'] = async ({ stopContainers } = { stopContainers: false }) => {
      await server.close();
      await parts.streams.close();
      if (stopContainers) await stopAll(parts);
      supervisor.close();
      release();
    };
    return { endpoint: `unix://${socket}`, close };
  } catch (thrown) {
    release();
    throw thrown;
  }
}

function compose(root: string, log: RuntimeLog) {
  const store = new Store(root);
  const images = new Images(root);
  const stats = new Stats(root);
  const events = new Events();
  const emitEvent = (id: string, sandboxId: string, type: EventType): void => {
    const sandbox = store.sandboxes.get(sandboxId);
    events.send({
      container_id: id,
      container_event_type: type,
      created_at: String(nowNanos()),
      ...(sandbox ? { pod_sandbox_status: sandboxStatus(sandbox) } : {}),
      containers_statuses: store.containersOf(sandboxId).map(containerStatus),
    });
  };
  const supervisor = new Supervisor(root, {
    changed: ({ id, record }, change) => emitEvent(id, record.sandboxId, EVENT_OF[change]),
    failed: (text, { id }) => log('warn', `Container is not well: ${text}`, { containerId: id }),
  });
  const containers = new Containers(store, images, supervisor, {
    created: ({ id, record }) => emitEvent(id, record.sandboxId, EVENT_OF.created),
    deleted: ({ id, record }) => {
      stats.forget(id);
      emitEvent(id, record.sandboxId, EVENT_OF.deleted);
    },
    log: (text, fields) => log('info', text, fields),
  });
  const sandboxes = new Sandboxes(store, containers, ({ id }, change) => emitEvent(id, id, EVENT_OF[change]));
  const streams = new StreamServer();
  return { parts: { root, store, images, containers, sandboxes, stats, streams }, events, supervisor };
}

async function adopt(store: Store, supervisor: Supervisor, log: RuntimeLog): Promise<void> {
  for (const id of store.load()) {
    log('warn', 'A container whose record cannot be read is killed and forgotten', { containerId: id });
    await killMembers(id, undefined);
    store.forgetUnusable(id);
  }
  for (const container of store.containers.values()) await supervisor.adopt(container);
}

async function stopAll({ store, containers }: RuntimeParts): Promise<void> {
  await Promise.all([...store.containers.values()].map((one) => containers.stop(one, CLOSE_GRACE_SECONDS)));
}

/** Locks the root: a second runtime on it would start containers twice. Returns a function that releases the root. */
function lockRoot(root: string): () => void {
  const file = join(root, 'runtime.json');
  const holder = readJson(file, isProcessIdentity);
  if (holder && isAlive(holder)) {
    throw new Error(
      `process ${holder.pid} already serves the runtime folder ${root}: stop it or choose another folder`,
    );
  }
  rmSync(file, { force: true });
  if (!claim(file, identify(process.pid))) throw new Error(`another runtime just took the runtime folder ${root}`);
  return () => rmSync(file, { force: true });
}
