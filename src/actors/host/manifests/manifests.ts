/**
 * `host.watchManifests`: follows the static pod path and emits when the decoded files, or their errors, changed.
 *
 * inotify is only a hint: the kernel silently drops events when its queue is full, and a watch stays on a removed
 * folder when another takes its name. So the files are listed right after an event, once more after a second without
 * events, and at least every `periodMs`; each listing verifies that the watch is still on the folder at the path.
 *
 * Invariants: one scan at a time; an event during a scan leads to another scan; each emitted set is complete, with
 * unread files in their previous state, and differs from the one before; the first set has every file read; a pod that
 * names ConfigMaps or Secrets is published only with a fully read set; a path that could not be listed yet, or that is
 * one file without good content, is not reported as an empty set (upstream does not mark such a source as seen); a file
 * that disappeared and came back between two scans is reported as gone, so that its pod restarts as with the kubelet;
 * nothing is emitted after the abort.
 */
import { resolve } from 'node:path';
import type { Vault } from '../../../kernel/journal/secrets.ts';
import type { CallOf, Port } from '../../../kernel/operation.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import type { hostOperations, ManifestError } from '../../../machines/model/operations/host.ts';
import { Hints, PathWatch } from '../path-watch.ts';
import { type Scan, scanManifests } from './manifest-files.ts';

type Operation = (typeof hostOperations)['host.watchManifests'];
type Call = CallOf<Operation>;

/** `vault` keeps the values of Secrets, for the ports that write or send them. */
export const manifestPort =
  (vault: Vault): Port<Operation> =>
  async (call) => {
    await new ManifestFollower(call, vault).run();
    return null;
  };

interface Found extends Pick<Scan, 'manifests' | 'objects' | 'errors'> {
  readonly isUnread: boolean;
}

class ManifestFollower {
  readonly #call: Call;
  readonly #vault: Vault;
  readonly #path: string;
  readonly #watch: PathWatch;
  #files: Scan['files'] = new Map();
  readonly #hints: Hints;
  /** How often a file appeared or disappeared since the last scan. */
  readonly #moves = new Map<string, number>();
  #emitted = '';
  /** The path was listed since the stream opened. */
  #isListed = false;

  constructor(call: Call, vault: Vault) {
    this.#call = call;
    this.#vault = vault;
    this.#path = resolve(call.input.path);
    this.#hints = new Hints(call.signal);
    this.#watch = new PathWatch(this.#path, (came) => {
      if (came !== null) this.#moves.set(came, (this.#moves.get(came) ?? 0) + 1);
      this.#hints.give();
    });
  }

  async run(): Promise<void> {
    const { input, signal } = this.#call;
    while (!signal.aborted) {
      this.#hints.take();
      await this.#watch.arm();
      const startedAtMs = performance.now();
      const unfinishedForMs = await this.#scan();
      const endedAtMs = performance.now();
      await this.#hints.wait(Math.min(input.periodMs, unfinishedForMs));
      const restUntilMs = 2 * endedAtMs - startedAtMs;
      if (this.#hints.hasNew) await this.#rest(restUntilMs - performance.now());
    }
    this.#hints.close();
    this.#watch.close();
  }

  /**
   * Waits, whatever events arrive, at least as long as the last listing or partial publication took, so that many
   * events take at most half of the agent's time.
   */
  #rest(ms: number): Promise<void> {
    return new Promise((done) => void (ms > 0 ? setTimeout(done, ms) : setImmediate(done)));
  }

  /**
   * Lists, compares and publishes; if many files changed, the first pods are published while further files are read.
   * Returns the milliseconds after which an incomplete file must be read again.
   */
  async #scan(): Promise<number> {
    try {
      const reader = { nodeName: this.#call.input.nodeName, vault: this.#vault };
      const returned = this.#takeRecreated();
      let unfinishedForMs = Number.POSITIVE_INFINITY;
      for await (const scan of scanManifests(this.#path, reader, this.#files)) {
        if (scan.isWhole) unfinishedForMs = this.#publishWhole(scan, returned);
        else if (this.#emitted !== '') await this.#publishPart(scan, returned);
      }
      return unfinishedForMs;
    } catch (error) {
      const why = messageOf(error);
      const message = `Unable to read config path "${this.#path}": ${why}; the pods read before keep running`;
      const known = [...this.#files.values()];
      this.#emit({
        manifests: known.flatMap(({ manifest }) => manifest ?? []),
        objects: known.flatMap(({ object }) => object ?? []),
        errors: [{ file: this.#path, message } satisfies ManifestError],
        isUnread: !this.#isListed,
      });
      return Number.POSITIVE_INFINITY;
    }
  }

  #publishWhole(scan: Scan, returned: ReadonlySet<string>): number {
    if (returned.size > 0) this.#emit(without(scan, returned));
    this.#isListed ||= !scan.isUnread;
    this.#emit({ ...scan, isUnread: !this.#isListed });
    this.#files = scan.files;
    return scan.unfinishedForMs;
  }

  /** Publishes pods in parts, so that the first pods start before the last ones arrive. */
  async #publishPart(scan: Scan, returned: ReadonlySet<string>): Promise<void> {
    const beganMs = performance.now();
    this.#emit(without(scan, returned));
    await this.#rest(performance.now() - beganMs);
  }

  /** The pods of existing files that disappeared and came back since; replacement by a rename is a single event. */
  #takeRecreated(): ReadonlySet<string> {
    const twice = [...this.#moves].flatMap(([file, times]) => (times > 1 ? [file] : []));
    this.#moves.clear();
    return new Set(twice.flatMap((file) => this.#files.get(file)?.manifest?.uid ?? []));
  }

  #emit({ manifests, objects, errors, isUnread }: Found): void {
    const found = { manifests, objects, errors, ...(isUnread ? { isUnread } : {}) };
    const report = JSON.stringify(found);
    if (report === this.#emitted || this.#call.signal.aborted) return;
    this.#emitted = report;
    this.#call.emit({ type: 'manifests.changed', ...found });
  }
}

const without = (scan: Scan, uids: ReadonlySet<string>): Scan => ({
  ...scan,
  manifests: scan.manifests.filter(({ uid }) => !uids.has(uid)),
});
