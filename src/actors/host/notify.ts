/**
 * sd_notify: tells the service manager the state of this process (`READY=1`, `STOPPING=1`) over `NOTIFY_SOCKET`.
 *
 * Without the variable nobody listens, and nothing is said. Without FFI systemd's own program says it; it gives our
 * process as the sender, because the manager believes only the main process of the service.
 */
import { OperationError } from '../../kernel/json.ts';
import type { Port } from '../../kernel/operation.ts';
import type { hostOperations } from '../../machines/operations/host.ts';
import { runCommand } from './commands.ts';
import type { SystemCalls } from './kernel/syscall.ts';

export function notifyPort(
  environment: NodeJS.ProcessEnv,
  system: SystemCalls | null,
): Port<(typeof hostOperations)['host.notify']> {
  return async ({ input: { state } }) => {
    const address = environment['NOTIFY_SOCKET'];
    if (address === undefined || address === '') return null;
    if (!/^[/@]./.test(address)) {
      throw new OperationError(`NOTIFY_SOCKET "${address}" is neither an absolute path nor an abstract name`);
    }
    if (system) system.sendDatagram(address, Buffer.from(state));
    else await runCommand('systemd-notify', [`--pid=${process.pid}`, ...state.split('\n')], environment);
    return null;
  };
}
