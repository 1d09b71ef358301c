/**
 * `server.healthz`: reports on its own port whether the agent is alive, for service managers and probes.
 *
 * Decides: only /healthz and its checks are served, for any method, with upstream's texts. A port that cannot be opened
 * is reported once per reason and retried every {@link RETRY_MS}; it never ends the node.
 */
import type { Port } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';
import { aborted } from '../aborted.ts';
import { healthEndpoints } from './endpoints/health.ts';
import { ApiServer } from './http/api-server.ts';
import type { Checks } from './node-pods.ts';
import { Listener } from './tls/listener.ts';

/** Between two attempts to listen, as the Go kubelet. */
const RETRY_MS = 5_000;

type Call = Parameters<Port<(typeof hostOperations)['server.healthz']>>[0];
type Item = Parameters<Call['emit']>[0];

/** Every kubelet has the check `ping`; `checks` adds others, or overrides this one. */
export async function healthzPort(call: Pick<Call, 'input' | 'signal' | 'emit'>, checks: Checks = {}): Promise<null> {
  const { input, signal } = call;
  const api = await new ApiServer({
    endpoints: healthEndpoints({ ping: () => null, ...checks }),
    gate: async () => null,
  }).open();
  let reported = '';
  while (!signal.aborted) {
    const listener = new Listener({ ...input, accept: (socket) => api.accept(socket), tls: null });
    const item = await listened(listener, input);
    const isListening = item.type === 'healthz.listening';
    if (!signal.aborted && (isListening || item.message !== reported)) call.emit(item);
    reported = isListening ? '' : item.message;
    await aborted(signal, isListening ? undefined : RETRY_MS);
    if (isListening) await listener.close();
  }
  await api.close();
  return null;
}

async function listened(listener: Listener, { address, port }: { address: string; port: number }): Promise<Item> {
  try {
    return { type: 'healthz.listening', address, port: await listener.listen() };
  } catch (error) {
    const why = messageOf(error);
    return { type: 'healthz.failed', message: `Failed to start healthz server on ${address}:${port}: ${why}` };
  }
}
