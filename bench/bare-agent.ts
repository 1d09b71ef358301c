/**
 * A minimal agent: the control for the duration of our start and for our memory.
 *
 *   node bench/bare-agent.ts healthz PORT
 *   node bench/bare-agent.ts start ENDPOINT FILE     the three calls for the pod whose requests are in the file
 *   node bench/bare-agent.ts inspect ENDPOINT        the status of every pod and container, once; then it waits
 *
 * Prints `ready` when its work is done, and then runs until it is killed.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const [, , what, target = '', file = ''] = process.argv;

async function connect() {
  const { connectRuntime } = await import('../src/actors/cri/client.ts');
  return connectRuntime({ endpoint: target });
}

async function inspect(): Promise<void> {
  const client = await connect();
  const call = { timeoutMs: 30_000 };
  const [{ items }, { containers }] = await Promise.all([
    client.call('ListPodSandbox', {}, call),
    client.call('ListContainers', {}, call),
  ]);
  await Promise.all([
    ...items.map(({ id }) => client.call('PodSandboxStatus', { pod_sandbox_id: id }, call)),
    ...containers.map(({ id }) => client.call('ContainerStatus', { container_id: id }, call)),
  ]);
}

async function start(): Promise<void> {
  const { startRaw } = await import('./control.ts');
  await startRaw(await connect(), JSON.parse(readFileSync(file, 'utf8')) as never);
}

if (what === 'healthz') {
  const server = createServer((_request, response) => response.end('ok'));
  await new Promise<void>((resolve) => server.listen(Number(target), '127.0.0.1', resolve));
} else if (what === 'start') await start();
else if (what === 'inspect') await inspect();
else throw new Error(`bench/bare-agent.ts cannot ${JSON.stringify(what)}`);
console.log('ready');
setInterval(() => {}, 60_000);
