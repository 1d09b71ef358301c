/**
 * `server.healthz`: tells the service manager and its probes whether the agent is alive, on a port of its own.
 *
 * Decides: nothing but /healthz answers here, as GET or HEAD, with the Go kubelet's texts. A port that cannot be had is
 * said once for each reason and tried again every {@link RETRY_MS}; it never ends the node. The reason of a failed
 * check is withheld from the overview and given only by the check's own path.
 */
import type { FastifyInstance } from 'fastify';
import type { Port } from '../../kernel/operation.ts';
import type { hostOperations } from '../../machines/operations/host.ts';

/** Between two tries to listen: the Go kubelet's. */
const RETRY_MS = 5_000;
/** A probe has no body, and its headers are small. */
const MAX_BODY_BYTES = 1_024;
/** A client that is slower than this is not a probe. */
const REQUEST_TIMEOUT_MS = 10_000;

/** By name: why the check fails, or `null` while all is well. */
export type Checks = Readonly<Record<string, () => string | null>>;

type Operation = (typeof hostOperations)['server.healthz'];
type Item = Parameters<Parameters<Port<Operation>>[0]['emit']>[0];

export function healthzPorts(checks: Checks = {}): { readonly 'server.healthz': Port<Operation> } {
  return {
    'server.healthz': async (call) => {
      const { input, signal } = call;
      let said = '';
      while (!signal.aborted) {
        const server = await healthzServer({ ping: () => null, ...checks });
        const item = await listen(server, input);
        if (signal.aborted || item.type === 'healthz.failed') await server.close();
        if (signal.aborted) return null;
        if (item.type === 'healthz.failed' && item.message !== said) call.emit(item);
        if (item.type === 'healthz.listening') {
          call.emit(item);
          await aborted(signal);
          await server.close();
          return null;
        }
        said = item.message;
        await aborted(signal, RETRY_MS);
      }
      return null;
    },
  };
}

async function listen(server: FastifyInstance, { address, port }: { address: string; port: number }): Promise<Item> {
  try {
    await server.listen({ host: address, port });
    const bound = server.server.address();
    return {
      type: 'healthz.listening',
      address,
      port: typeof bound === 'object' && bound !== null ? bound.port : port,
    };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { type: 'healthz.failed', message: `Failed to start healthz server on ${address}:${port}: ${why}` };
  }
}

/** Resolves when the machine lost interest, or after the time. */
function aborted(signal: AbortSignal, withinMs?: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = withinMs === undefined ? undefined : setTimeout(resolve, withinMs);
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    if (signal.aborted) done();
    else signal.addEventListener('abort', done, { once: true });
  });
}

async function healthzServer(checks: Checks): Promise<FastifyInstance> {
  const { fastify } = await import('fastify');
  const server = fastify({
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    forceCloseConnections: true,
    exposeHeadRoutes: true,
  });
  server.addHook('onRequest', async (_request, reply) => {
    reply.headers({ 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' });
  });
  server.setNotFoundHandler(async (_request, reply) => reply.code(404).send('404 page not found\n'));
  server.get<{ Querystring: Query }>('/healthz', async ({ query }, reply) => {
    const { healthy, text } = overview(checks, query);
    return reply.code(healthy ? 200 : 500).send(text);
  });
  for (const [name, check] of Object.entries(checks)) {
    server.get(`/healthz/${name}`, async (_request, reply) => {
      const problem = check();
      return problem === null ? reply.send('ok') : reply.code(500).send(`internal server error: ${problem}\n`);
    });
  }
  return server;
}

interface Query {
  readonly verbose?: string;
  readonly exclude?: string | readonly string[];
}

function overview(checks: Checks, { verbose, exclude = [] }: Query): { healthy: boolean; text: string } {
  const excluded = new Set([exclude].flat());
  const results = Object.entries(checks).map(([name, check]) => {
    if (excluded.has(name)) return { healthy: true, line: `[+]${name} excluded: ok\n` };
    const healthy = check() === null;
    return { healthy, line: healthy ? `[+]${name} ok\n` : `[-]${name} failed: reason withheld\n` };
  });
  const healthy = results.every((result) => result.healthy);
  if (healthy && verbose === undefined) return { healthy, text: 'ok' };
  const lines = results.map(({ line }) => line).join('');
  return { healthy, text: `${lines}healthz check ${healthy ? 'passed' : 'failed'}\n` };
}
