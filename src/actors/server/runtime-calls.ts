/** The calls of the runtime for commands, checkpoints and streams of clients, over the connection of the machines. */
import type { RuntimeClient } from '../cri/client.ts';
import type { CheckpointContainer } from './endpoints/pods.ts';
import type { ExecSync, StreamUrls } from './streaming/endpoints.ts';

/** The timeout of a checkpoint: upstream's default of runtimeRequestTimeout. Clients do not wait longer. */
const CHECKPOINT_TIMEOUT_MS = 120_000;
const MS_PER_SECOND = 1_000;

/** The calls, over the connection of the machines. */
export function runtimeCalls(call: RuntimeClient['call']): { execSync: ExecSync; checkpoint: CheckpointContainer } {
  return {
    // Without a timeout: the command ends with its client.
    execSync: async ({ containerId, command }, signal) => {
      const request = { container_id: containerId, cmd: command, timeout: '0' };
      const { exit_code: exitCode, stdout, stderr } = await call('ExecSync', request, { timeoutMs: null, signal });
      return { exitCode, stdout: Buffer.from(stdout), stderr: Buffer.from(stderr) };
    },
    checkpoint: async ({ containerId, location, timeoutSeconds }, signal) => {
      const timeoutMs = timeoutSeconds > 0 ? timeoutSeconds * MS_PER_SECOND : CHECKPOINT_TIMEOUT_MS;
      const request = { container_id: containerId, location, timeout: String(timeoutSeconds) };
      await call('CheckpointContainer', request, { timeoutMs, signal });
    },
  };
}

/** The timeout of a URL, which a working runtime returns at once. */
const URL_TIMEOUT_MS = 30_000;

/** URLs of streams, from the runtime's Exec, Attach and PortForward. */
export function runtimeStreamUrls(call: RuntimeClient['call']): StreamUrls {
  const limits = () => ({ timeoutMs: URL_TIMEOUT_MS, signal: AbortSignal.timeout(URL_TIMEOUT_MS) });
  return {
    exec: async ({ containerId, command, ...streams }) =>
      (await call('Exec', { container_id: containerId, cmd: command, ...streams }, limits())).url,
    attach: async ({ containerId, ...streams }) =>
      (await call('Attach', { container_id: containerId, ...streams }, limits())).url,
    portForward: async ({ podSandboxId, ports }) =>
      (await call('PortForward', { pod_sandbox_id: podSandboxId, port: ports }, limits())).url,
  };
}
