/**
 * Ports: the service manager's watchdog. What it wants is in the environment; `WATCHDOG=1` goes over `NOTIFY_SOCKET`.
 *
 * Invariants: the first notification is sent at once, the next in each interval by this process's own loop: a loop
 * that hangs sends none. One that is not accepted is tried again after {@link RETRY_MS}; the machine is informed
 * once, and once more when one is accepted again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { toPlainError } from '../../kernel/json.ts';
import type { Port } from '../../kernel/operation.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';

/** Upstream's wait before the second try. */
const RETRY_MS = 1_000;
/** A shorter interval would keep this process busy with nothing else. */
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
    let isHeard = true;
    while (!signal.aborted) {
      const error = await tryTo(notifyAlive, input.tries, signal);
      if (signal.aborted) break;
      if (error !== null && isHeard) call.emit({ type: 'watchdog.unheard', message: error });
      if (error === null && !isHeard) call.emit({ type: 'watchdog.heard' });
      isHeard = error === null;
      await pause(Math.max(MIN_INTERVAL_MS, input.intervalMs), signal);
    }
    return null;
  };
  return { 'host.watchdogSettings': settings, 'host.feedWatchdog': feed };
}

/** Why none of the tries succeeded; `null` when one did. */
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

/** Ends early, without an error, when the machine loses interest. */
const pause = (ms: number, signal: AbortSignal): Promise<void> => delay(ms, undefined, { signal }).catch(() => {});
