/**
 * `/healthz` and its checks, as endpoints of the kubelet's API and on a port of their own (`server.healthz`), for
 * service managers and probes. The reason of a failure is only in its own response.
 *
 * Decides: the port serves only /healthz and its checks, for any method, with upstream's texts. A port that cannot be
 * opened is reported once per reason and retried every {@link RETRY_MS}; it never ends the node.
 */

import type { Port } from '../../../kernel/operation.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import type { hostOperations } from '../../../machines/model/operations/host.ts';
import { quote } from '../../../machines/model/values/go-text.ts';
import { aborted } from '../../pause.ts';
import { ApiServer } from '../http/api-server.ts';
import { type Answer, type ApiRequest, type Endpoint, refusal, type Subresource, text } from '../http/endpoint.ts';
import type { Checks } from '../node-pods.ts';
import { Listener } from '../tls/listener.ts';

const RIGHTS: readonly Subresource[] = ['healthz', 'proxy'];

/** Receives the result of each check that a client of all checks causes. */
export type OnChecked = (name: string, healthy: boolean) => void;

export function healthEndpoints(checks: Checks, seen: OnChecked): Endpoint[] {
  return [
    { path: '/healthz', methods: 'any', subresources: RIGHTS, answer: (request) => overview(checks, seen, request) },
    ...Object.entries(checks).map(
      ([name, check]): Endpoint => ({
        path: `/healthz/${name}`,
        methods: 'any',
        subresources: RIGHTS,
        answer: async () => single(await check()),
      }),
    ),
  ];
}

function single(problem: string | null): Answer {
  return problem === null ? text(200, 'ok') : refusal(500, `internal server error: ${problem}`);
}

async function overview(checks: Checks, seen: OnChecked, { query }: ApiRequest): Promise<Answer> {
  const excluded = new Set(query.get('exclude') ?? []);
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      if (excluded.has(name)) return { healthy: true, line: `[+]${name} excluded: ok\n` };
      const healthy = (await check()) === null;
      seen(name, healthy);
      return { healthy, line: healthy ? `[+]${name} ok\n` : `[-]${name} failed: reason withheld\n` };
    }),
  );
  const healthy = results.every((result) => result.healthy);
  const headers = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' };
  if (healthy && !query.has('verbose')) return { status: 200, headers, body: 'ok' };
  const unknown = [...excluded]
    .filter((name) => !Object.hasOwn(checks, name))
    .toSorted()
    .map(quote);
  const why = 'warn: some health checks cannot be excluded: no matches for';
  const warning = unknown.length === 0 ? '' : `${why} ${unknown.join(',')}\n`;
  const lines = results.map(({ line }) => line).join('') + warning;
  const body = `${lines}healthz check ${healthy ? 'passed' : 'failed'}\n`;
  return { status: healthy ? 200 : 500, headers, body };
}

/** The pause between two attempts to listen, as in the Go kubelet. */
const RETRY_MS = 5_000;

type Call = Parameters<Port<(typeof hostOperations)['server.healthz']>>[0];
type Item = Parameters<Call['emit']>[0];

/** Every kubelet has the check `ping`; `checks` adds others, or overrides this one. */
export async function healthzPort(
  call: Pick<Call, 'input' | 'signal' | 'emit'>,
  checks: Checks = {},
  seen: OnChecked = () => {},
): Promise<null> {
  const { input, signal } = call;
  const api = await new ApiServer({
    endpoints: healthEndpoints({ ping: () => null, ...checks }, seen),
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
