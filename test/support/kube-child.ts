/**
 * Cancels a write at each moment between its call and the connection, and then a watch on the same connection; ends by
 * itself if nothing hangs.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { bench, pod, pods, settings } from '../actors/kube/support.ts';
import { startApiServer } from '../fakes/api-server/index.ts';

/** More steps than there are between the call and the connection. */
const MOMENTS = 40;

const server = await startApiServer();
const node = bench();
await node.ask('kube.connect', settings(await server.kubeconfig('n1'), { qps: 0 }));
const resourceVersion = server.store.resourceVersion;
for (let moment = 0; moment < MOMENTS; moment += 1) {
  const [watching, writing] = [new AbortController(), new AbortController()];
  const watch = node.ask('kube.watch', { ...pods(), resourceVersion }, { signal: watching.signal });
  while (server.load.watches === 0) await sleep(1);
  const body = pod(`a${moment}`);
  const write = node.ask('kube.create', { ...pods(), body }, { signal: writing.signal });
  for (let step = 0; step < moment; step += 1) await Promise.resolve();
  writing.abort();
  watching.abort();
  await Promise.allSettled([watch, write]);
  while (server.load.watches > 0) await sleep(1);
}
await node.connection.close();
await server.close();
