/**
 * The lock file: `flock(LOCK_EX)`, compatible with the Go kubelet, so that either excludes the other; and the watch for
 * another process that wants it.
 *
 * Owns the descriptors of held locks, which stay open until the process ends.
 *
 * Waiting never blocks the event loop: the lock is retried every {@link RETRY_MS}. A file deleted or replaced in the
 * meantime is no longer the lock, so it is reopened. Without FFI, util-linux's `flock` holds the lock in a child whose
 * standard input closes with this process, and the kernel's list of waiters (`/proc/locks`) replaces inotify; it shows
 * processes that wait for the lock, not those that only open the file.
 */
import { spawn } from 'node:child_process';
import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { OperationError } from '../../kernel/json.ts';
import type { Port, PortCall } from '../../kernel/operation.ts';
import { codeOf } from '../../kernel/thrown.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';
import { reasonOf } from '../go-errors.ts';
import type { SystemCalls } from './kernel/syscall.ts';

/** The pause between two attempts to lock, and between two checks for a contender: a hand-over may take this long. */
const RETRY_MS = 100;
/** Fits many inotify events: each has 16 bytes and no name. */
const EVENT_BUFFER_BYTES = 4_096;
/** Exit code of `flock` when another process holds the lock. */
const CONFLICT_EXIT_CODE = 75;

type Operations = typeof hostOperations;
type LockCall = PortCall<{ path: string; wait: boolean }>;

export function lockPorts(system: SystemCalls | null) {
  const heldLocks = new Map<string, unknown>();
  const acquireLock: Port<Operations['host.acquireLock']> = async (call) => {
    const { path } = call.input;
    if (heldLocks.has(path)) return null;
    heldLocks.set(path, system ? await lockBySystemCall(call, system) : await lockByChild(call));
    return null;
  };
  const watchLock: Port<Operations['host.watchLock']> = async (call) => {
    const { input, signal } = call;
    const waiters = system ? watchOpens(input.path, system) : watchWaiters(input.path);
    try {
      while (!signal.aborted) {
        if (await waiters.contended()) call.emit({ type: 'lock.contended' });
        await delay(RETRY_MS, undefined, { signal }).catch(() => {});
      }
    } finally {
      waiters.close();
    }
    return null;
  };
  return { 'host.acquireLock': acquireLock, 'host.watchLock': watchLock };
}

const isHeldByAnother = (path: string): OperationError =>
  new OperationError(`${path} is locked by another process`, { code: 'EWOULDBLOCK', retriable: true });

async function lockBySystemCall({ input, signal }: LockCall, system: SystemCalls): Promise<number> {
  for (;;) {
    const fd = opened(input.path);
    try {
      while (!system.tryLock(fd)) {
        if (!input.wait) throw isHeldByAnother(input.path);
        await delay(RETRY_MS, undefined, { signal });
      }
      if (isSameFile(fstatSync(fd), input.path)) return fd;
      closeSync(fd);
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }
}

function opened(path: string): number {
  try {
    return openSync(path, constants.O_CREAT | constants.O_RDWR, 0o600);
  } catch (error) {
    throw new OperationError(reasonOf(error), { code: codeOf(error) ?? '' });
  }
}

function isSameFile(own: Stats, path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.ino === own.ino && found.dev === own.dev;
}

/** The child holds the lock until its standard input closes, at the end of this process. */
function lockByChild({ input, signal }: LockCall): Promise<unknown> {
  const mode = input.wait ? [] : ['--nonblock'];
  const args = ['--exclusive', ...mode, `--conflict-exit-code=${CONFLICT_EXIT_CODE}`, input.path];
  return new Promise((resolve, reject) => {
    const child = spawn('flock', [...args, 'sh', '-c', 'echo held && exec cat'], { stdio: ['pipe', 'pipe', 'pipe'] });
    let output = '';
    child.stderr.on('data', (chunk) => (output += String(chunk)));
    child.once('error', (error) =>
      reject(new OperationError(`cannot run flock: ${error.message}`, { code: 'ENOENT' })),
    );
    child.once('exit', (code) => {
      if (code === CONFLICT_EXIT_CODE) return reject(isHeldByAnother(input.path));
      reject(new OperationError(`flock ended: ${output.trim() || `exit code ${code}`}`));
    });
    child.stdout.once('data', () => {
      child.unref();
      resolve(child);
    });
    signal.addEventListener('abort', () => child.stdin.destroy(), { once: true });
  });
}

interface OpenWatch {
  /** True when another process opened the lock file since the last check. */
  contended(): Promise<boolean> | boolean;
  close(): void;
}

function watchOpens(path: string, system: SystemCalls): OpenWatch {
  const opens = system.watchOpens(path);
  const events = Buffer.alloc(EVENT_BUFFER_BYTES);
  return {
    contended() {
      try {
        return readSync(opens.fd, events) > 0;
      } catch (error) {
        if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return false;
        throw error;
      }
    },
    close: () => opens.close(),
  };
}

function watchWaiters(path: string): OpenWatch {
  const { ino } = statSync(path);
  const waiting = new RegExp(`-> FLOCK .*:${ino} `);
  let wasContended = false;
  return {
    async contended() {
      const found = await stat(path).catch(() => null);
      const isContended = found?.ino !== ino || waiting.test(await readFile('/proc/locks', 'utf8'));
      const isNew = isContended && !wasContended;
      wasContended = isContended;
      return isNew;
    },
    close() {},
  };
}
