/**
 * sd_notify: reports the state of this process to the service manager (`READY=1`, `STOPPING=1`) over `NOTIFY_SOCKET`.
 *
 * A manager that reads too slowly is waited for, without holding up anything else of this process. Without the variable
 * there is no manager, and nothing is sent. Without FFI systemd's own program sends; it gives our
 * process as the sender, because the manager believes only the main process of the service.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { OperationError } from '../../kernel/json.ts';
import type { Port } from '../../kernel/operation.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';
import { runCommand } from './commands.ts';
import type { SystemCalls } from './kernel/syscall.ts';

/** Between two tries to give a word to a manager that has not read the ten before it. */
const FULL_RETRY_MS = 50;
/** A manager that reads nothing for so long hangs. */
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
  for (const giveUpAt = performance.now() + FULL_LIMIT_MS; ; await sleep(FULL_RETRY_MS, undefined, { signal })) {
    try {
      return system.sendDatagram(address, Buffer.from(state));
    } catch (error) {
      const isFull = error instanceof OperationError && error.code === 'EAGAIN';
      if (!isFull || performance.now() > giveUpAt) throw error;
    }
  }
}
