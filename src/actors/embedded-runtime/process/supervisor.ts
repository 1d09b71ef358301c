/**
 * Watches the files of the shims to learn that a container runs or ended, also after a restart of the agent.
 *
 * Owns the watches and the one poll timer. Invariants: a container's exit is reported once; a shim that disappeared
 * without `exit.json` means exit code 255 and reason `Unknown`, after the container's processes were killed (their
 * output has no reader any more). File notifications wake it at once; the poll makes up for lost ones.
 */

import { spawn } from 'node:child_process';
import { closeSync, existsSync, type FSWatcher, openSync, watch } from 'node:fs';
import { extname, join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { messageOf } from '../../../kernel/thrown.ts';
import { limitMs } from '../../pause.ts';
import { nowNanos } from '../clock.ts';
import { CriError } from '../errors.ts';
import {
  claim,
  type ExitRecord,
  isExitRecord,
  isProcessIdentity,
  isProcessRecord,
  readJson,
  START_ERROR_CODE,
  UNKNOWN_CODE,
  writeJson,
} from '../store/records.ts';
import type { Container } from '../store/store.ts';
import { identify, isAlive, killMembers } from './proc.ts';

/** Milliseconds between two inspections of every running container, in case a notification is lost. */
const POLL_MS = 1_000;

/** The shim is beside this file, as source or as bundled script. */
const SHIM = join(import.meta.dirname, `shim${extname(import.meta.filename)}`);
/** A shim holds a few log lines; its heap is small for nodes with many containers. */
const SHIM_FLAGS = ['--max-old-space-size=32', '--max-semi-space-size=1'];

export interface SupervisorHooks {
  readonly changed: (container: Container, change: 'started' | 'stopped') => void;
  /** Called for a failed step, which is retried at the next inspection. */
  readonly failed: (text: string, container: Container) => void;
}

/** Reads the files in the reverse order of writing: if a file is there, all earlier ones are. */
function read({ files, process: known }: Container) {
  const shim = readJson(files.shim, isProcessIdentity);
  const gone = shim !== undefined && !isAlive(shim);
  const exit = readJson(files.exit, isExitRecord);
  return { shim, gone, exit, process: known ?? readJson(files.process, isProcessRecord) };
}

export class Supervisor {
  readonly #cacheDirectory: string;
  readonly #hooks: SupervisorHooks;
  readonly #watched = new Map<Container, FSWatcher | undefined>();
  readonly #poll: NodeJS.Timeout;

  constructor(root: string, hooks: SupervisorHooks) {
    this.#cacheDirectory = join(root, 'shim-cache');
    this.#hooks = hooks;
    this.#poll = setInterval(() => {
      for (const container of this.#watched.keys()) this.#inspect(container);
    }, POLL_MS);
    this.#poll.unref();
  }

  close(): void {
    clearInterval(this.#poll);
    for (const watcher of this.#watched.values()) watcher?.close();
    this.#watched.clear();
  }

  /** Takes over a container of an earlier runtime. Changes in the meantime are not reported. */
  async adopt(container: Container): Promise<void> {
    const { shim, gone, exit, process: leader } = read(container);
    container.exit = exit;
    container.process = leader;
    if (exit || !container.record.startRequested) return;
    if (!shim && claim(container.files.shim, identify(process.pid))) {
      this.#writeExit(
        container,
        START_ERROR_CODE,
        'StartError',
        'context canceled: the runtime ended before it could start the container',
      );
      return;
    }
    if (gone) await this.#endLost(container);
    else this.#watch(container);
  }

  /** Starts the shim, which starts the process. `until` waits for the outcome. */
  launch(container: Container): void {
    this.#watch(container);
    const errors = openSync(container.files.shimErrors, 'a', 0o600);
    try {
      const shim = spawn(process.execPath, [...SHIM_FLAGS, SHIM, container.directory], {
        cwd: '/',
        detached: true,
        env: { NODE_COMPILE_CACHE: this.#cacheDirectory },
        stdio: ['ignore', 'ignore', errors],
      });
      shim.once('error', (thrown) => this.#shimEnded(container, `cannot start its shim: ${messageOf(thrown)}`));
      shim.once('exit', () => this.#shimEnded(container, `its shim ended: see ${container.files.shimErrors}`));
      shim.unref();
    } finally {
      closeSync(errors);
    }
  }

  #shimEnded(container: Container, why: string): void {
    this.#inspect(container);
    if (!this.#watched.has(container) || existsSync(container.files.shim)) return;
    try {
      this.abandonStart(container, why);
    } catch (thrown) {
      this.#hooks.failed(`${why}; cannot record it: ${messageOf(thrown)}`, container);
    }
  }

  /**
   * Abandons a start that took too long: a shim without a claim can no longer claim the container, and a shim with a
   * claim is killed.
   */
  abandonStart(container: Container, why: string): void {
    if (container.exit) return;
    if (claim(container.files.shim, identify(process.pid))) {
      this.#writeExit(container, START_ERROR_CODE, 'StartError', why);
      return;
    }
    const shim = readJson(container.files.shim, isProcessIdentity);
    if (shim && isAlive(shim)) process.kill(shim.pid, 'SIGKILL');
    this.#endLostSoon(container);
  }

  /** Whether the condition became true in time. Rejects if the caller disconnected. */
  until(container: Container, condition: () => boolean, timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    if (condition()) return Promise.resolve(true);
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        clearTimeout(timer);
        container.listeners.delete(check);
        signal?.removeEventListener('abort', gone);
        act();
      };
      const check = (): void => {
        if (condition()) settle(() => resolve(true));
      };
      const gone = (): void => settle(() => reject(new CriError(status.CANCELLED, 'context canceled')));
      const timer = setTimeout(() => settle(() => resolve(false)), limitMs(timeoutMs));
      container.listeners.add(check);
      if (signal?.aborted) gone();
      else signal?.addEventListener('abort', gone);
    });
  }

  /** Stops inspecting a container that is being removed. */
  forget(container: Container): void {
    this.#watched.get(container)?.close();
    this.#watched.delete(container);
  }

  #watch(container: Container): void {
    if (this.#watched.has(container)) return;
    let watcher: FSWatcher | undefined;
    try {
      watcher = watch(container.directory, { persistent: false }, () => this.#inspect(container));
      watcher.on('error', () => watcher?.close());
    } catch {
      // No inotify watches left: polling must suffice.
    }
    this.#watched.set(container, watcher);
    this.#inspect(container);
  }

  /** Called by watches and timers: an error thrown here would end the process. */
  #inspect(container: Container): void {
    try {
      this.#examine(container);
    } catch (thrown) {
      this.#hooks.failed(`cannot supervise it: ${messageOf(thrown)}`, container);
    }
  }

  #examine(container: Container): void {
    if (!this.#watched.has(container) || container.exit) return;
    const { gone, exit, process: leader } = read(container);
    if (leader && !container.process) {
      container.process = leader;
      this.#hooks.changed(container, 'started');
    }
    if (exit) this.#end(container, exit);
    else if (gone) this.#endLostSoon(container);
    for (const listener of container.listeners) listener();
  }

  #endLostSoon(container: Container): void {
    this.#endLost(container).catch((thrown: unknown) => {
      this.#hooks.failed(`cannot end what its lost shim left: ${messageOf(thrown)}`, container);
    });
  }

  async #endLost(container: Container): Promise<void> {
    if (container.losing || container.exit) return;
    container.losing = true;
    const leader = container.process;
    try {
      await killMembers(container.id, leader && isAlive(leader) ? leader.pid : undefined);
    } finally {
      container.losing = false;
    }
    this.#writeExit(container, UNKNOWN_CODE, 'Unknown', 'its shim was killed: how it ended is not known');
  }

  #writeExit(container: Container, exitCode: number, reason: ExitRecord['reason'], message: string): void {
    if (container.exit) return;
    const startedAt = container.process?.startedAt ?? '0';
    const exit: ExitRecord = { exitCode, reason, message, startedAt, finishedAt: String(nowNanos()) };
    writeJson(container.files.exit, exit);
    this.#end(container, exit);
  }

  #end(container: Container, exit: ExitRecord): void {
    container.exit = exit;
    this.forget(container);
    this.#hooks.changed(container, 'stopped');
    for (const listener of container.listeners) listener();
  }
}
