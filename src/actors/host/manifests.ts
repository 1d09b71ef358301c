/**
 * `host.watchManifests`: follows the static pod path and speaks when the decoded files, or their errors, changed.
 *
 * inotify is only a hint: the kernel drops events without a word when its queue is full, and a watch stays on a folder
 * that was removed when another takes its name. So the files are listed again right after an event, once more when
 * things have been quiet for a second, and at least every `periodMs`; and every listing looks whether the watch still
 * hangs on the folder that the path names.
 *
 * Invariants: one scan at a time; an event during a scan leads to another scan; what is emitted is always the complete
 * set, and never twice the same; nothing is emitted after the abort.
 */
import { resolve } from 'node:path';
import type { Vault } from '../../kernel/journal/index.ts';
import type { InputOf, ItemOf, Port, PortCall } from '../../kernel/operation.ts';
import type { hostOperations, ManifestError } from '../../machines/operations/host.ts';
import { type Scan, scanManifests } from './manifest-files.ts';
import { PathWatch } from './path-watch.ts';

/** From an event to the listing: lets the other events of one rename arrive, and keeps the pod less than 5 ms away. */
const SOON_MS = 1;
/** A listing after the last event, for the event that was dropped. */
const QUIET_MS = 1_000;
/** Node turns a longer delay into 1 ms. */
const MAX_TIMER_MS = 2_147_483_647;

type Operation = (typeof hostOperations)['host.watchManifests'];
type Call = PortCall<InputOf<Operation>, ItemOf<Operation>>;

/** `vault` keeps the values of Secrets, for the ports that write or send them. */
export const manifestPort =
  (vault: Vault): Port<Operation> =>
  async (call) => {
    await new ManifestFollower(call, vault).run();
    return null;
  };

class ManifestFollower {
  readonly #call: Call;
  readonly #vault: Vault;
  readonly #path: string;
  readonly #watch: PathWatch;
  #files: Scan['files'] = new Map();
  #emitted = '';
  #lastEventAtMs = Number.NEGATIVE_INFINITY;
  #hinted = false;
  /** Ends the wait between two scans. */
  #wake: () => void = () => {};

  constructor(call: Call, vault: Vault) {
    this.#call = call;
    this.#vault = vault;
    this.#path = resolve(call.input.path);
    this.#watch = new PathWatch(this.#path, () => this.#hint());
  }

  async run(): Promise<void> {
    const { input, signal } = this.#call;
    const onAbort = () => this.#wake();
    signal.addEventListener('abort', onAbort, { once: true });
    while (!signal.aborted) {
      this.#hinted = false;
      await this.#watch.arm();
      const startedAtMs = performance.now();
      const unfinishedForMs = await this.#scan();
      const endedAtMs = performance.now();
      if (!this.#hinted) await this.#sleep(Math.min(input.periodMs, unfinishedForMs, this.#quietInMs()));
      const restUntilMs = 2 * endedAtMs - startedAtMs;
      if (this.#hinted) await this.#rest(Math.max(SOON_MS, restUntilMs - performance.now()));
    }
    signal.removeEventListener('abort', onAbort);
    this.#watch.close();
  }

  #hint(): void {
    this.#lastEventAtMs = performance.now();
    this.#hinted = true;
    this.#wake();
  }

  #quietInMs(): number {
    const leftMs = this.#lastEventAtMs + QUIET_MS - performance.now();
    return leftMs > 0 ? leftMs : Number.POSITIVE_INFINITY;
  }

  /** Waits until the time is over, an event came or the machine lost interest. */
  #sleep(ms: number): Promise<void> {
    const { signal } = this.#call;
    return new Promise((done) => {
      if (signal.aborted || this.#hinted) return done();
      const timer = setTimeout(() => this.#wake(), Math.min(ms, MAX_TIMER_MS));
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = () => {};
        done();
      };
    });
  }

  /**
   * Waits whatever happens, at least as long as a listing took, so that a storm of events cannot keep the agent listing
   * for more than half of its time.
   */
  #rest(ms: number): Promise<void> {
    return new Promise((done) => void setTimeout(done, ms));
  }

  /** Lists, compares, speaks. Returns after how many ms a file that may still be written to must be read again. */
  async #scan(): Promise<number> {
    try {
      const reader = { nodeName: this.#call.input.nodeName, vault: this.#vault };
      const scan = await scanManifests(this.#path, reader, this.#files);
      this.#files = scan.files;
      this.#emit(scan);
      return scan.unfinishedForMs;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      const message = `Unable to read config path "${this.#path}": ${why}; the pods read before keep running`;
      const known = [...this.#files.values()];
      this.#emit({
        manifests: known.flatMap(({ manifest }) => manifest ?? []),
        objects: known.flatMap(({ object }) => object ?? []),
        errors: [{ file: this.#path, message } satisfies ManifestError],
      });
      return Number.POSITIVE_INFINITY;
    }
  }

  #emit({ manifests, objects, errors }: Pick<Scan, 'manifests' | 'objects' | 'errors'>): void {
    const said = JSON.stringify([manifests, objects, errors]);
    if (said === this.#emitted || this.#call.signal.aborted) return;
    this.#emitted = said;
    this.#call.emit({ type: 'manifests.changed', manifests, objects, errors });
  }
}
