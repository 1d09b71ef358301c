/**
 * The operations `cri.*` on a real runtime: CRI v1 over its socket.
 *
 * Invariants: an operation of class `once` with unknown outcome is looked up before it is repeated, and a name that the
 * runtime reserved for us is adopted; after each own change the watchers inspect the pod; sandboxes wait while others
 * start, but not for stuck calls (`StartingCalls`).
 */
import { OperationError } from '../../kernel/json.ts';
import type { InputOf, PortCall, Ports } from '../../kernel/operation.ts';
import { codeOf } from '../../kernel/thrown.ts';
import type { ContainerStatus, Image } from '../../machines/model/api/cri.ts';
import type { criOperations, WatchImagesItem } from '../../machines/model/operations/cri.ts';
import { POD_UID_LABEL } from '../../machines/model/spec/sandbox.ts';
import { watchChanges } from '../pause.ts';
import { Adapter, type CriOptions, isNotFound } from './adapter.ts';
import type { RuntimeClient } from './client.ts';
import { inspectPod } from './inspect.ts';
import { canonical } from './relist.ts';
import {
  authOf,
  markHolder,
  quotableSecrets,
  searchableSecrets,
  shownOutput,
  WITHHELD_OUTPUT,
  withoutLogin,
  withSecrets,
} from './secrets.ts';
import { PodWatcher } from './watch-pods.ts';

/**
 * A user name on Linux has at most 32 characters. An image's longer name would be in each list of images, and in each
 * event.
 */
const USERNAME_MAX_CHARS = 1_024;

const imageOf = (image: Image): Image => canonical({ ...image, username: image.username.slice(0, USERNAME_MAX_CHARS) });

/**
 * Lists images for {@link watchChanges}. A failed list changes nothing: the runtime's state is reported elsewhere, and
 * the next list makes up for it.
 */
async function imagesNow(adapter: Adapter, signal: AbortSignal): Promise<WatchImagesItem | null> {
  const listed = await adapter.client.call('ListImages', {}, adapter.limits({ signal })).catch(() => null);
  if (listed === null) return null;
  const images = listed.images.map((image) => imageOf(image)).sort((a, b) => (a.id < b.id ? -1 : 1));
  return { type: 'images.changed', images };
}

function imagePorts(adapter: Adapter) {
  const { client } = adapter;
  return {
    'cri.imageStatus': async (call) => {
      const request = { image: { image: call.input.image } };
      const { image } = await client.call('ImageStatus', request, adapter.limits(call));
      return { image: image ? imageOf(image) : null };
    },
    'cri.pullImage': async (call) => {
      const { image, annotations, sandboxConfig, auth } = call.input;
      const login = auth && authOf(adapter.vault.open(auth));
      const request = {
        image: { image, annotations },
        ...(login ? { auth: login } : {}),
        ...(sandboxConfig ? { sandbox_config: sandboxConfig } : {}),
      };
      // A pull takes as long as the network; leaving the state cancels it.
      const pull = client.call('PullImage', request, adapter.limits(call, null));
      const { image_ref: imageRef } = await (login ? withoutLogin(pull, login) : pull);
      return { imageRef };
    },
    'cri.listImages': async (call) => {
      const { images } = await client.call('ListImages', {}, adapter.limits(call));
      const known = images.map((image) => imageOf(image));
      return { images: await adapter.sandboxImage.pinnedIn(known, adapter.limits(call)) };
    },
    'cri.watchImages': (call) => {
      const { input, signal } = call;
      const ask = () => imagesNow(adapter, signal);
      return watchChanges({ ask, periodMs: input.periodMs, signal, emit: call.emit.bind(call) });
    },
    'cri.removeImage': async (call) => {
      const removal = client.call('RemoveImage', { image: { image: call.input.image } }, adapter.limits(call));
      await removal.catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
      return null;
    },
    'cri.imageFsInfo': async (call) => {
      const { image_filesystems: found } = await client.call('ImageFsInfo', {}, adapter.limits(call));
      const first = found[0];
      if (!first) throw new OperationError('the runtime reported no image filesystem', { code: 'NOT_FOUND' });
      return {
        mountpoint: first.fs_id?.mountpoint ?? '',
        usedBytes: first.used_bytes?.value ?? '0',
        inodesUsed: first.inodes_used?.value ?? '0',
      };
    },
  } satisfies Partial<Ports<typeof criOperations>>;
}

/** A sandbox gets twice the usual time, as in the Go kubelet: its network plug-ins may be slow. */
const SANDBOX_TIMEOUT_FACTOR = 2;
const CGROUP_DRIVERS = { SYSTEMD: 'systemd', CGROUPFS: 'cgroupfs' } as const;

/** The driver in a reply. A number is a value that this version of the contract does not have. */
function knownDriver(driver: keyof typeof CGROUP_DRIVERS | number): 'systemd' | 'cgroupfs' {
  if (typeof driver !== 'number') return CGROUP_DRIVERS[driver];
  throw new OperationError(`runtime returned an unknown cgroup driver ${driver}`);
}

export interface CriPorts {
  readonly ports: Ports<typeof criOperations>;
  /** Any call of the contract, for ports whose results no machine needs (statistics, streaming URLs). */
  readonly call: RuntimeClient['call'];
  /** Closes the connection; calls in progress fail. */
  readonly close: () => void;
}

/** containerd and CRI-O report this with different texts and codes. */
const isNameReserved = (error: unknown) => error instanceof OperationError && /reserved/.test(error.message);

/** Creates a sandbox or container, unless the runtime already has one of this name. */
async function createOnce(
  resume: boolean,
  find: () => Promise<string | undefined>,
  create: () => Promise<string>,
): Promise<string> {
  const existing = resume ? await find() : undefined;
  if (existing !== undefined) return existing;
  try {
    return await create();
  } catch (error) {
    const adopted = isNameReserved(error) ? await find() : undefined;
    if (adopted === undefined) throw error;
    return adopted;
  }
}

function sandboxPorts(adapter: Adapter) {
  const { client } = adapter;
  return {
    'cri.runPodSandbox': async (call) => {
      const { config, runtimeHandler } = call.input;
      const { uid, attempt = 0 } = config.metadata ?? {};
      const limits = adapter.limits(call, adapter.timeoutMs * SANDBOX_TIMEOUT_FACTOR);
      /** An adopted sandbox may have containers: its pod has to be inspected. */
      let isAdopted = false;
      const find = async () => {
        const filter = { state: { state: 'SANDBOX_READY' }, label_selector: { [POD_UID_LABEL]: uid ?? '' } } as const;
        const { items } = await client.call('ListPodSandbox', { filter }, adapter.limits(call));
        const found = items.find(({ metadata }) => metadata?.attempt === attempt)?.id;
        isAdopted = found !== undefined;
        return found;
      };
      const create = () => client.call('RunPodSandbox', { config, runtime_handler: runtimeHandler }, limits);
      return adapter.own.making(uid ?? '', async () => {
        const podSandboxId = await adapter.making('sandboxIds', uid, () =>
          createOnce(call.resume, find, () => adapter.starts.queued(async () => (await create()).pod_sandbox_id)),
        );
        if (isAdopted) adapter.changed(podSandboxId, 'changed');
        return { podSandboxId, status: isAdopted ? null : await adapter.after('sandbox', podSandboxId, 'running') };
      });
    },
    'cri.stopPodSandbox': (call) => {
      const { podSandboxId: id } = call.input;
      return adapter.stopping(
        'sandbox',
        id,
        client.call('StopPodSandbox', { pod_sandbox_id: id }, adapter.limits(call)),
      );
    },
    'cri.removePodSandbox': async (call) => {
      const { podSandboxId: id } = call.input;
      await adapter.removing(id, () => client.call('RemovePodSandbox', { pod_sandbox_id: id }, adapter.limits(call)));
      adapter.secrets.forget(id);
      return null;
    },
  } satisfies Partial<Ports<typeof criOperations>>;
}

type CreateInput = InputOf<(typeof criOperations)['cri.createContainer']>;

async function createContainer(adapter: Adapter, call: PortCall<CreateInput>) {
  const { podSandboxId, config, sandboxConfig, secrets = [], written = [], words = [] } = call.input;
  const { name, attempt = 0 } = config.metadata ?? {};
  const find = async () => {
    const filter = { pod_sandbox_id: podSandboxId };
    const { containers } = await adapter.client.call('ListContainers', { filter }, adapter.limits(call));
    return containers.find(({ metadata }) => metadata?.name === name && metadata?.attempt === attempt)?.id;
  };
  const opened = withSecrets(config, [...secrets, ...written, ...words], adapter.vault);
  const withheld = [...quotableSecrets(secrets, adapter.vault), ...searchableSecrets(written, adapter.vault)];
  if (secrets.length > 0) await markHolder(sandboxConfig, config);
  const request = { pod_sandbox_id: podSandboxId, config: opened, sandbox_config: sandboxConfig };
  const made = () => adapter.client.call('CreateContainer', request, adapter.limits(call));
  const create = async () => (await adapter.starts.counted(made)).container_id;
  const uid = sandboxConfig.metadata?.uid;
  const containerId = await adapter.own.making(uid ?? '', () =>
    adapter.making('containerIds', uid, () => adapter.redactingErrors(withheld, createOnce(call.resume, find, create))),
  );
  adapter.secrets.remember(containerId, podSandboxId, withheld);
  return { containerId };
}

function containerPorts(adapter: Adapter) {
  const { client } = adapter;
  return {
    'cri.createContainer': (call) => createContainer(adapter, call),
    'cri.startContainer': async (call) => {
      const { containerId } = call.input;
      if (call.resume && (await hasStarted(adapter, call, containerId))) return { status: null };
      const begin = () => client.call('StartContainer', { container_id: containerId }, adapter.limits(call));
      const secrets = adapter.secrets.of(containerId) ?? [];
      return adapter.own.starting(containerId, async () => {
        await adapter.attempt(containerId, adapter.redactingErrors(secrets, adapter.starts.counted(begin)));
        return { status: await adapter.after('container', containerId, 'running') };
      });
    },
    'cri.stopContainer': (call) => {
      const { containerId, timeoutSeconds } = call.input;
      const limits = adapter.limits(call, timeoutSeconds * 1000 + adapter.timeoutMs);
      const request = { container_id: containerId, timeout: String(timeoutSeconds) };
      return adapter.stopping('container', containerId, client.call('StopContainer', request, limits));
    },
    'cri.removeContainer': (call) => {
      const { containerId } = call.input;
      adapter.secrets.forget(containerId);
      return adapter.removing(containerId, () =>
        client.call('RemoveContainer', { container_id: containerId }, adapter.limits(call)),
      );
    },
    'cri.reopenContainerLog': async (call) => {
      await client.call('ReopenContainerLog', { container_id: call.input.containerId }, adapter.limits(call));
      return null;
    },
    'cri.execSync': (call) => execSync(adapter, call),
  } satisfies Partial<Ports<typeof criOperations>>;
}

function resourcePorts(adapter: Adapter) {
  const { client } = adapter;
  return {
    'cri.updateContainerResources': async (call) => {
      const { containerId, linux } = call.input;
      const request = { container_id: containerId, linux };
      await client.call('UpdateContainerResources', request, adapter.limits(call));
      return null;
    },
    'cri.updatePodSandboxResources': async (call) => {
      const { podSandboxId, overhead, resources } = call.input;
      const request = { pod_sandbox_id: podSandboxId, overhead, resources };
      try {
        await client.call('UpdatePodSandboxResources', request, adapter.limits(call));
        return { isSupported: true };
      } catch (error) {
        if (codeOf(error) === 'UNIMPLEMENTED') return { isSupported: false };
        throw error;
      }
    },
  } satisfies Partial<Ports<typeof criOperations>>;
}

async function statusOf(adapter: Adapter, call: PortCall<unknown>, containerId: string) {
  const request = { container_id: containerId };
  return (await adapter.client.call('ContainerStatus', request, adapter.limits(call))).status;
}

async function hasStarted(adapter: Adapter, call: PortCall<unknown>, containerId: string): Promise<boolean> {
  const started: readonly (ContainerStatus['state'] | undefined)[] = ['CONTAINER_RUNNING', 'CONTAINER_EXITED'];
  return started.includes((await statusOf(adapter, call, containerId))?.state);
}

type ExecInput = { containerId: string; command: readonly string[]; timeoutSeconds: number };

async function execSync(adapter: Adapter, call: PortCall<ExecInput>) {
  const { containerId, command, timeoutSeconds } = call.input;
  if (call.resume) {
    throw new OperationError(
      `exec of ${JSON.stringify(command[0])} in container ${containerId} was cut off by a restart of the node agent; ` +
        'it may have run, so it is not run again',
      { code: 'ABORTED' },
    );
  }
  const limits = adapter.limits(call, timeoutSeconds === 0 ? null : timeoutSeconds * 1000 + adapter.timeoutMs);
  const request = { container_id: containerId, cmd: command, timeout: String(timeoutSeconds) };
  const withheld = adapter.secrets.of(containerId) ?? [];
  const run = adapter.client.call('ExecSync', request, limits);
  const { exit_code: exitCode, stdout, stderr } = await adapter.redactingErrors(withheld, run);
  const isSilent = stdout.length + stderr.length === 0;
  const areUnknown =
    !isSilent && (await adapter.secrets.areUnknown(containerId, () => statusOf(adapter, call, containerId)));
  const shown = (bytes: Uint8Array): string => {
    if (areUnknown && bytes.length > 0) return WITHHELD_OUTPUT;
    return shownOutput(bytes, withheld, adapter.vault);
  };
  return { exitCode, stdout: shown(stdout), stderr: shown(stderr) };
}

/** How long a replaced inspection may go on before it is cancelled. */
const CANCEL_DELAY_MS = 1_000;

/**
 * Delays an abort. An inspection makes a dozen calls, and is often repeated before all are answered. Cancelling the
 * calls costs more than receiving their answers, and an HTTP/2 server may close the connection of a client that resets
 * a thousand streams in half a minute. Hanging calls are still cancelled.
 */
function abortedLater(signal: AbortSignal): AbortSignal {
  const later = new AbortController();
  signal.addEventListener('abort', () => void setTimeout(() => later.abort(), CANCEL_DELAY_MS).unref(), { once: true });
  return later.signal;
}

async function podStatus(adapter: Adapter, { input: { uid }, signal }: PortCall<{ uid: string }>) {
  const { client, podIds, onSeen } = adapter;
  const limits = adapter.limits({ signal: abortedLater(signal) });
  const options = { ...limits, podIds, observedAtMs: adapter.now(), onSeen };
  const status = await adapter.inspections.take(uid, () => inspectPod(client, uid, options));
  if (!signal.aborted) adapter.publishOwnInspection(status);
  return status;
}

/** The limit of handlers of a runtime: each is listed in the Node object. */
const HANDLERS_MAX = 1_000;
/** A runtime has two that count. */
const CONDITIONS_MAX = 100;

function runtimePorts(adapter: Adapter) {
  const { client } = adapter;
  return {
    'cri.version': async (call) => {
      const version = await client.call('Version', { version: 'v1' }, adapter.limits(call));
      return {
        runtimeName: version.runtime_name,
        runtimeVersion: version.runtime_version,
        runtimeApiVersion: version.runtime_api_version,
      };
    },
    'cri.status': async (call) => {
      const { status, runtime_handlers, features } = await client.call('Status', {}, adapter.limits(call));
      // containerd 2 lists handlers in a different order each time.
      const handlers = runtime_handlers.slice(0, HANDLERS_MAX).toSorted((a, b) => (a.name < b.name ? -1 : 1));
      const conditions = (status?.conditions ?? []).slice(0, CONDITIONS_MAX);
      return { conditions, handlers, features: features ?? null };
    },
    'cri.updateRuntimeConfig': async (call) => {
      const runtime_config = { network_config: { pod_cidr: call.input.podCIDR } };
      await client.call('UpdateRuntimeConfig', { runtime_config }, adapter.limits(call));
      return null;
    },
    'cri.runtimeConfig': async (call) => {
      try {
        const { linux } = await client.call('RuntimeConfig', {}, adapter.limits(call));
        return { cgroupDriver: linux ? knownDriver(linux.cgroup_driver) : null };
      } catch (error) {
        if (error instanceof OperationError && error.code === 'UNIMPLEMENTED') return { cgroupDriver: null };
        throw error;
      }
    },
    'cri.podStatus': (call) => podStatus(adapter, call),
    'cri.watchPods': async (call) => {
      const { client, inspections, own, podIds, periods, now, warn, onSeen, timeoutMs: requestTimeoutMs } = adapter;
      const { input, signal } = call;
      const emit = call.emit.bind(call);
      const shared = { client, inspections, own, podIds, requestTimeoutMs, periods, now, warn, onSeen };
      const options = { ...input, ...shared, emit, signal };
      const watcher = new PodWatcher(options);
      adapter.watchers.add(watcher);
      await watcher.run().finally(() => adapter.watchers.delete(watcher));
      return null;
    },
  } satisfies Partial<Ports<typeof criOperations>>;
}

/** All operations of the runtime behind these endpoints. No socket is opened before the first call. */
export function criPorts(options: CriOptions): CriPorts {
  const adapter = new Adapter(options);
  return {
    ports: {
      ...runtimePorts(adapter),
      ...sandboxPorts(adapter),
      ...containerPorts(adapter),
      ...resourcePorts(adapter),
      ...imagePorts(adapter),
    },
    call: (name, request, options) => adapter.client.call(name, request, options),
    close: () => adapter.client.close(),
  };
}
