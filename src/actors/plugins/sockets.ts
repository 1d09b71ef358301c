/**
 * `plugins.watch`: follows the sockets below `plugins_registry` and emits the set of them when it changed.
 *
 * inotify is only a hint, folder by folder; the tree is scanned again after each, once more when it has
 * been quiet for a second, and at least every {@link PERIOD_MS}. Names that begin with a dot are ignored, and no
 * symbolic link is followed out of the folder.
 *
 * Invariants: one scan at a time; what is emitted is always the complete set, and never twice the same; nothing is
 * emitted after the abort. Upstream: pkg/kubelet/pluginmanager/pluginwatcher/plugin_watcher.go.
 */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { InputOf, ItemOf, Port, PortCall } from '../../kernel/operation.ts';
import type { PluginSocket, pluginOperations } from '../../machines/model/operations/plugins.ts';
import { Hints } from '../host/hints.ts';
import { PathWatch } from '../host/path-watch.ts';

/** Safety net for the hint that was dropped. */
const PERIOD_MS = 30_000;
/** From a hint to the scan: the other events of one plugin's start arrive meanwhile. */
const SOON_MS = 10;
/** Folders below each other; a plugin is at most a folder or two deep. */
const DEPTH_MAX = 8;
/** Each holds an inotify watch, of which a user has some thousands. */
const FOLDERS_MAX = 128;
/** Far above the plugins of any node; each is an actor. */
const SOCKETS_MAX = 256;

type Operation = (typeof pluginOperations)['plugins.watch'];
type Call = PortCall<InputOf<Operation>, ItemOf<Operation>>;

export const watchPlugins: Port<Operation> = async (call) => {
  await new SocketFollower(call).run();
  return null;
};

interface Scan {
  readonly sockets: PluginSocket[];
  readonly folders: string[];
  readonly errors: string[];
}

class SocketFollower {
  readonly #call: Call;
  readonly #watches = new Map<string, PathWatch>();
  readonly #hints: Hints;
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
      this.#say(found);
      await this.#hints.wait(PERIOD_MS);
      if (this.#hints.areNew) await setTimeout(SOON_MS, undefined, { signal }).catch(() => {});
    }
    this.#hints.close();
    for (const watch of this.#watches.values()) watch.close();
  }

  /** Hangs a watch on each folder; true when one is new. */
  async #watch(folders: readonly string[]): Promise<boolean> {
    const wanted = new Set(folders);
    let isNew = false;
    for (const [folder, watch] of this.#watches) {
      if (wanted.has(folder)) continue;
      watch.close();
      this.#watches.delete(folder);
    }
    for (const folder of wanted) {
      isNew ||= !this.#watches.has(folder);
      const watch = this.#watches.get(folder) ?? new PathWatch(folder, () => this.#hints.give());
      this.#watches.set(folder, watch);
      await watch.arm();
    }
    return isNew;
  }

  #say({ sockets, errors }: Scan): void {
    const report = JSON.stringify([sockets, errors]);
    if (report === this.#emitted || this.#call.signal.aborted) return;
    this.#emitted = report;
    this.#call.emit({ type: 'plugins.changed', sockets, errors });
  }
}

/** Every folder and socket below `root`; what cannot be read is an error, what vanished meanwhile is not. */
async function scan(root: string): Promise<Scan> {
  const found: Scan = { sockets: [], folders: [root], errors: [] };
  await descend(root, 0, found);
  found.sockets.sort((one, other) => (one.path < other.path ? -1 : 1));
  return found;
}

async function descend(folder: string, depth: number, found: Scan): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') found.errors.push(`cannot read the plugin folder: ${error.message}`);
    return [];
  });
  for (const entry of entries.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
    if (entry.name.startsWith('.')) continue;
    const path = join(folder, entry.name);
    if (entry.isSocket()) await note(path, found);
    else if (entry.isDirectory() && isWithinLimits(path, depth, found)) {
      found.folders.push(path);
      await descend(path, depth + 1, found);
    }
  }
}

function isWithinLimits(path: string, depth: number, { folders, errors }: Scan): boolean {
  if (depth < DEPTH_MAX && folders.length < FOLDERS_MAX) return true;
  errors.push(`${path} is not read: at most ${FOLDERS_MAX} folders are, ${DEPTH_MAX} deep`);
  return false;
}

async function note(path: string, { sockets, errors }: Scan): Promise<void> {
  if (sockets.length >= SOCKETS_MAX) {
    errors.push(`${path} is not asked what it is: at most ${SOCKETS_MAX} plugins are`);
    return;
  }
  const found = await lstat(path, { bigint: true }).catch(() => null);
  if (found) sockets.push({ path, identity: `${found.dev}:${found.ino}:${found.mtimeNs}` });
}
