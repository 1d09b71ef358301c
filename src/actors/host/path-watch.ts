/**
 * inotify hints about changes at a path: in the folder, or of the name itself.
 *
 * Owns two watches: of the folder, and of its parent for the folder's name. A watch belongs to an inode, not to a name,
 * so {@link PathWatch.arm} compares the inode and watches the current folder of this name.
 *
 * A watch that cannot be created (the path is missing, the inotify limit is reached) is retried by the next `arm`;
 * until then only the caller's own period finds changes.
 */
import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { TIMER_MAX_MS } from '../pause.ts';

interface Armed {
  readonly inode: string;
  readonly watcher: FSWatcher;
}

export class PathWatch {
  readonly #path: string;
  readonly #onHint: (came: string | null) => void;
  #folder: Armed | null = null;
  #parent: Armed | null = null;
  #closed = false;

  /**
   * `came`: the path that appeared, disappeared or was replaced; `null` if a file was written, or the path is unknown.
   */
  constructor(path: string, onHint: (came: string | null) => void) {
    this.#path = path;
    this.#onHint = onHint;
  }

  async arm(): Promise<void> {
    const parent = dirname(this.#path);
    const [folderInode, parentInode] = await Promise.all([folderInodeOf(this.#path), folderInodeOf(parent)]);
    if (this.#closed) return;
    this.#folder = this.#hang(this.#folder, this.#path, folderInode, () => true);
    const name = basename(this.#path);
    this.#parent = this.#hang(this.#parent, parent, parentInode, (changed) => changed === null || changed === name);
  }

  close(): void {
    this.#closed = true;
    this.#folder?.watcher.close();
    this.#parent?.watcher.close();
  }

  #hang(
    armed: Armed | null,
    path: string,
    inode: string | null,
    concerns: (name: string | null) => boolean,
  ): Armed | null {
    if (armed?.inode === inode) return armed;
    armed?.watcher.close();
    if (inode === null) return null;
    try {
      const watcher = watch(path, { persistent: true }, (event, name) => {
        if (this.#closed || !concerns(name)) return;
        this.#onHint(event === 'rename' && name !== null ? join(path, name) : null);
      });
      watcher.on('error', () => watcher.close());
      return { inode, watcher };
    } catch {
      return null;
    }
  }
}

async function folderInodeOf(path: string): Promise<string | null> {
  try {
    const found = await stat(path);
    return found.isDirectory() ? `${found.dev}:${found.ino}` : null;
  } catch {
    return null;
  }
}

/** The delay of one more inspection after the last hint, in case an event was dropped. */
const QUIET_MS = 1_000;

/**
 * Hints that something may have changed, and the wait between two inspections. The wait ends with a hint, a second
 * after the last hint (an event may have been dropped), after the caller's period, or with the watch.
 */
export class Hints {
  readonly #signal: AbortSignal;
  readonly #onAbort = (): void => this.#wake();
  #hasNew = false;
  #lastAtMs = Number.NEGATIVE_INFINITY;
  #wake: () => void = () => {};

  /** `signal`: of the operation that waits for hints; aborting it ends the wait. */
  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  close(): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
  }

  give(): void {
    this.#lastAtMs = performance.now();
    this.#hasNew = true;
    this.#wake();
  }

  /** Whether there were hints since the last inspection. */
  get hasNew(): boolean {
    return this.#hasNew;
  }

  /** Marks the start of an inspection, which covers all earlier hints. */
  take(): void {
    this.#hasNew = false;
  }

  /** Waits at most `ms`; returns at once if there are new hints. */
  wait(ms: number): Promise<void> {
    if (this.#signal.aborted || this.#hasNew) return Promise.resolve();
    const quietMs = this.#lastAtMs + QUIET_MS - performance.now();
    const limitMs = Math.min(ms, quietMs > 0 ? quietMs : TIMER_MAX_MS, TIMER_MAX_MS);
    return new Promise((done) => {
      const timer = setTimeout(() => this.#wake(), limitMs);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = () => {};
        done();
      };
    });
  }
}
