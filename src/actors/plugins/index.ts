/**
 * Ports for `plugins.*`, `devices.*` and `dra.*`: the plugin registration folder, and the calls to plugins.
 *
 * `plugins.watch`: follows the sockets below `plugins_registry` and emits their set when it changed.
 *
 * inotify is only a hint, folder by folder; the tree is scanned after each hint, once more after a quiet second, and at
 * least every {@link PERIOD_MS}. Names that begin with a dot are ignored, and no symbolic link is followed out of the
 * folder.
 *
 * Invariants: one scan at a time; each emitted set is complete and differs from the previous one; nothing is emitted
 * after the abort. Upstream: pkg/kubelet/pluginmanager/pluginwatcher/plugin_watcher.go.
 */

import type { Dirent } from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { OperationError, toPlainError } from '../../kernel/json.ts';
import type { CallOf, Port, Ports } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { deviceOperations } from '../../machines/model/operations/devices.ts';
import type { draOperations } from '../../machines/model/operations/dra.ts';
import type { CSINodeInfo, PluginSocket, pluginOperations } from '../../machines/model/operations/plugins.ts';
import { callDriver } from '../csi/volumes.ts';
import { devicePorts } from '../devices/devices.ts';
import { draPorts } from '../dra/index.ts';
import { Hints, PathWatch } from '../host/path-watch.ts';
import { pause, watchChanges } from '../pause.ts';
import { TokenBucket } from '../token-bucket.ts';
import { connected, methodOf, unary } from './connection.ts';

export const pluginPorts = (): Ports<typeof pluginOperations & typeof deviceOperations & typeof draOperations> => ({
  ...devicePorts(),
  ...draPorts(),
  'plugins.watch': watchPlugins,
  'plugins.getInfo': getInfo,
  'plugins.notifyRegistrationStatus': notifyRegistrationStatus,
  'plugins.csiNodeGetInfo': csiNodeGetInfo,
  'plugins.followNodeInfo': followNodeInfo,
});

/** Upstream's timeouts of the handshake. */
const GET_INFO_TIMEOUT_MS = 1_000;
const NOTIFY_TIMEOUT_MS = 5_000;

const REGISTRATION = 'pluginregistration.Registration';

/** The same error, prefixed with the attempted action. */
function prefixedError(what: string, thrown: unknown): OperationError {
  const { message, code, retriable } = toPlainError(thrown);
  return new OperationError(`RegisterPlugin error -- ${what}, err: ${message}`, {
    ...(code ? { code } : {}),
    retriable,
  });
}

interface InfoReply {
  readonly type: string;
  readonly name: string;
  readonly endpoint: string;
  readonly supported_versions: readonly string[];
}

/** The begin of a registration. Upstream: pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go. */
const getInfo: Port<(typeof pluginOperations)['plugins.getInfo']> = async ({ input: { socket }, signal }) => {
  let failure = `dial failed at socket ${socket}`;
  try {
    return await connected(socket, signal, async (client) => {
      failure = `failed to get plugin info using RPC GetInfo at socket ${socket}`;
      const method = methodOf<object, InfoReply>(REGISTRATION, 'GetInfo');
      const reply = await unary(client, method, {}, GET_INFO_TIMEOUT_MS);
      const { type, name, endpoint, supported_versions: versions } = reply;
      return { type, name, endpoint, versions };
    });
  } catch (error) {
    throw prefixedError(failure, error);
  }
};

const notifyRegistrationStatus: Port<(typeof pluginOperations)['plugins.notifyRegistrationStatus']> = async ({
  input: { socket, registered, error },
  signal,
}) => {
  const method = methodOf<object, object>(REGISTRATION, 'NotifyRegistrationStatus');
  const status = { plugin_registered: registered, error };
  await connected(socket, signal, (client) => unary(client, method, status, NOTIFY_TIMEOUT_MS));
  return null;
};

interface NodeInfoReply {
  readonly node_id: string;
  readonly max_volumes_per_node: string;
  readonly accessible_topology: { readonly segments: Readonly<Record<string, string>> } | null;
}

async function askNodeInfo(endpoint: string, signal: AbortSignal): Promise<CSINodeInfo> {
  const reply = await callDriver<NodeInfoReply>(endpoint, 'NodeGetInfo', {}, signal);
  const topology = reply.accessible_topology?.segments ?? {};
  const topologyKeys = Object.keys(topology).toSorted();
  return { nodeID: reply.node_id, maxVolumes: reply.max_volumes_per_node, topologyKeys, topology };
}

const csiNodeGetInfo: Port<(typeof pluginOperations)['plugins.csiNodeGetInfo']> = ({ input: { endpoint }, signal }) =>
  askNodeInfo(endpoint, signal);

const followNodeInfo: Port<(typeof pluginOperations)['plugins.followNodeInfo']> = async (call) => {
  const { endpoint, periodMs } = call.input;
  const { signal } = call;
  const ask = () =>
    askNodeInfo(endpoint, signal).then(
      (info) => ({ info, error: '' }),
      (error: unknown) => ({ info: null, error: messageOf(error) }),
    );
  // The driver was already asked at its registration.
  await pause(periodMs, signal);
  return await watchChanges({
    ask,
    periodMs,
    signal,
    emit: (answer) => call.emit({ type: 'plugin.nodeInfo', ...answer }),
  });
};

/** The longest time between two scans, in case a hint was dropped. */
const PERIOD_MS = 30_000;
/** The delay from a hint to the scan: the other events of a plugin's start arrive in the meantime. */
const SOON_MS = 10;
/** Nesting of folders; a plugin is at most a folder or two deep. */
const DEPTH_MAX = 8;
/** The limit of folders: each has an inotify watch, of which a user has a few thousand. */
const FOLDERS_MAX = 128;
/** The limit of sockets, far above the plugins of any node; each socket has an actor. */
const SOCKETS_MAX = 256;
/** The limit of entries per folder; further entries are ignored. */
const ENTRIES_MAX = 4_096;
/** Sets published at once, as when plugins start one by one, and then per second: each costs a turn. */
const [CHANGES_BURST, CHANGES_PER_SECOND] = [20, 2];

type Operation = (typeof pluginOperations)['plugins.watch'];
type Call = CallOf<Operation>;

const watchPlugins: Port<Operation> = async (call) => {
  await new SocketFollower(call).run();
  return null;
};

interface Scan {
  readonly sockets: PluginSocket[];
  readonly folders: string[];
  /** One sentence for each exceeded limit, because each sentence is a log line. */
  readonly errors: Set<string>;
}

class SocketFollower {
  readonly #call: Call;
  readonly #watches = new Map<string, PathWatch>();
  readonly #hints: Hints;
  readonly #changes = new TokenBucket(CHANGES_PER_SECOND, CHANGES_BURST);
  #emitted = '';

  constructor(call: Call) {
    this.#call = call;
    this.#hints = new Hints(call.signal);
  }

  async run(): Promise<void> {
    const { input, signal } = this.#call;
    while (!signal.aborted) {
      this.#hints.take();
      const found = await scan(input.path);
      // A new folder may have been filled before it was watched.
      if (await this.#watch(found.folders)) this.#hints.give();
      await this.#publish(found).catch(() => {});
      await this.#hints.wait(PERIOD_MS);
      if (this.#hints.hasNew) await setTimeout(SOON_MS, undefined, { signal }).catch(() => {});
    }
    this.#hints.close();
    for (const watch of this.#watches.values()) watch.close();
  }

  /** Watches each folder; true if one is new. */
  async #watch(folders: readonly string[]): Promise<boolean> {
    const folderSet = new Set(folders);
    let isNew = false;
    for (const [folder, watch] of this.#watches) {
      if (folderSet.has(folder)) continue;
      watch.close();
      this.#watches.delete(folder);
    }
    for (const folder of folderSet) {
      isNew ||= !this.#watches.has(folder);
      const watch = this.#watches.get(folder) ?? new PathWatch(folder, () => this.#hints.give());
      this.#watches.set(folder, watch);
      await watch.arm();
    }
    return isNew;
  }

  /** Publishes the set of sockets if it changed. Rejects if the stream is aborted. */
  async #publish({ sockets, errors: noted }: Scan): Promise<void> {
    const errors = [...noted];
    const report = JSON.stringify([sockets, errors]);
    if (report === this.#emitted) return;
    await this.#changes.take(this.#call.signal);
    if (this.#call.signal.aborted) return;
    this.#emitted = report;
    this.#call.emit({ type: 'plugins.changed', sockets, errors });
  }
}

/** Every folder and socket below `root`; unreadable entries are errors, removed ones are not. */
async function scan(root: string): Promise<Scan> {
  const found: Scan = { sockets: [], folders: [root], errors: new Set() };
  await descend(root, 0, found);
  found.sockets.sort((one, other) => (one.path < other.path ? -1 : 1));
  return found;
}

async function descend(folder: string, depth: number, found: Scan): Promise<void> {
  for (const entry of await entriesOf(folder, found)) {
    const path = join(folder, entry.name);
    if (entry.isSocket()) await note(path, found);
    else if (entry.isDirectory() && isWithinLimits(depth, found)) {
      found.folders.push(path);
      await descend(path, depth + 1, found);
    }
  }
}

async function entriesOf(folder: string, { errors }: Scan): Promise<readonly Dirent[]> {
  const entries: Dirent[] = [];
  let entryCount = 0;
  try {
    for await (const entry of await opendir(folder)) {
      if (!entry.name.startsWith('.') && (entry.isSocket() || entry.isDirectory())) entries.push(entry);
      if (++entryCount < ENTRIES_MAX) continue;
      errors.add(`${folder} is not read further: at most ${ENTRIES_MAX} entries of a folder are`);
      break;
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') errors.add(`cannot read the plugin folder: ${message}`);
  }
  return entries.sort((one, other) => (one.name < other.name ? -1 : 1));
}

function isWithinLimits(depth: number, { folders, errors }: Scan): boolean {
  if (depth < DEPTH_MAX && folders.length < FOLDERS_MAX) return true;
  const [root] = folders;
  errors.add(`not all folders below ${root} are read: at most ${FOLDERS_MAX} are, ${DEPTH_MAX} deep`);
  return false;
}

async function note(path: string, { sockets, folders, errors }: Scan): Promise<void> {
  if (sockets.length >= SOCKETS_MAX) {
    const [root] = folders;
    errors.add(`not all sockets below ${root} are asked what they are: at most ${SOCKETS_MAX} plugins are`);
    return;
  }
  const found = await lstat(path, { bigint: true }).catch(() => null);
  if (found) sockets.push({ path, identity: `${found.dev}:${found.ino}:${found.mtimeNs}` });
}
