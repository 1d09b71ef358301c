/** Where streams can be had: the runtime's Exec, Attach and PortForward. */
import type { RuntimeClient } from '../../cri/client.ts';
import type { StreamUrls } from './endpoints.ts';

/** A runtime answers the request for a URL at once or is stuck. */
const URL_TIMEOUT_MS = 30_000;

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
