/**
 * sd_notify: reports the state of this process to the service manager (`READY=1`, `STOPPING=1`) over `NOTIFY_SOCKET`,
 * and feeds the manager's watchdog (`WATCHDOG=1`), whose settings are in the environment.
 *
 * A slow manager is awaited without blocking this process. Without the variable nothing is sent. Without FFI
 * `systemd-notify` sends on behalf of this process, because the manager accepts only the service's main process.
 *
 * Invariants: the first watchdog notification is sent at once, and then one in each interval by this process's own
 * loop: a hanging loop sends none. A rejected notification is retried after {@link RETRY_MS}; the machine is informed
 * at the first rejection, and when notifications are accepted again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { OperationError, toPlainError } from '../../kernel/json.ts';
import type { Port } from '../../kernel/operation.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';
import { runCommand, type SystemCalls } from './kernel/syscall.ts';

/** The pause between two attempts to send a datagram to a manager whose queue (of ten) is full. */
const FULL_RETRY_MS = 50;
/** A manager that reads nothing for this long hangs. */
const FULL_LIMIT_MS = 30_000;

export function notifyPort(
  environment: NodeJS.ProcessEnv,
  system: SystemCalls | null,
): Port<(typeof hostOperations)['host.notify']> {
  return async ({ input: { state }, signal }) => {
    const address = environment['NOTIFY_SOCKET'];
    if (address === undefined || address === '') return null;
    if (!/^[/@]./.test(address)) {
      throw new OperationError(`NOTIFY_SOCKET "${address}" is neither an absolute path nor an abstract name`);
    }
    if (system) await send(system, address, state, signal);
    else await runCommand('systemd-notify', [`--pid=${process.pid}`, ...state.split('\n')], environment);
    return null;
  };
}

async function send(system: SystemCalls, address: string, state: string, signal: AbortSignal): Promise<void> {
  for (const giveUpAt = performance.now() + FULL_LIMIT_MS; ; await delay(FULL_RETRY_MS, undefined, { signal })) {
    try {
      return system.sendDatagram(address, Buffer.from(state));
    } catch (error) {
      const isFull = error instanceof OperationError && error.code === 'EAGAIN';
      if (!isFull || performance.now() > giveUpAt) throw error;
    }
  }
}

/** Upstream's wait before the second try. */
const RETRY_MS = 1_000;
/** A shorter interval would keep this process fully busy. */
const MIN_INTERVAL_MS = 1;

type Operations = typeof hostOperations;
type Notify = Port<Operations['host.notify']>;

export function watchdogPorts(environment: NodeJS.ProcessEnv, notify: Notify) {
  const settings: Port<Operations['host.watchdogSettings']> = async () => ({
    usec: environment['WATCHDOG_USEC'] ?? '',
    pid: environment['WATCHDOG_PID'] ?? '',
    ownPid: process.pid,
  });
  const feed: Port<Operations['host.feedWatchdog']> = async (call) => {
    const { id, input, signal } = call;
    const notifyAlive = () => notify({ id, input: { state: 'WATCHDOG=1' }, resume: false, signal, emit: () => {} });
    let isDelivered = true;
    while (!signal.aborted) {
      const error = await tryTo(notifyAlive, input.tries, signal);
      if (signal.aborted) break;
      if (error !== null && isDelivered) call.emit({ type: 'watchdog.unheard', message: error });
      if (error === null && !isDelivered) call.emit({ type: 'watchdog.heard' });
      isDelivered = error === null;
      await pause(Math.max(MIN_INTERVAL_MS, input.intervalMs), signal);
    }
    return null;
  };
  return { 'host.watchdogSettings': settings, 'host.feedWatchdog': feed };
}

/** Why every attempt failed; `null` if an attempt succeeded. */
async function tryTo(act: () => Promise<null>, tries: number, signal: AbortSignal): Promise<string | null> {
  let last = '';
  for (let attempt = 0; attempt < tries && !signal.aborted; attempt++) {
    if (attempt > 0) await pause(RETRY_MS * 2 ** (attempt - 1), signal);
    try {
      return await act();
    } catch (error) {
      last = toPlainError(error).message;
    }
  }
  return last;
}

/** Ends early, without an error, when the machine cancels the operation. */
const pause = (ms: number, signal: AbortSignal): Promise<void> => delay(ms, undefined, { signal }).catch(() => {});
