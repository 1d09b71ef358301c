/** Pods that an API server gives to a daemon, as a user of the cluster sees them. */
import { afterEach, describe, expect, it } from 'vitest';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { eventually, TestNode } from '../support/daemon.ts';

const NODE = 'node1';
let server: ApiServer;
let node: TestNode;

afterEach(async () => {
  await node.close();
  await server.close();
});

async function boot(): Promise<void> {
  server = await startApiServer();
  const kubeconfig = await server.kubeconfig(`system:node:${NODE}`);
  node = new TestNode({ flags: [`--kubeconfig=${kubeconfig}`] });
  await node.start();
}

// oxlint-disable-next-line typescript/no-explicit-any -- objects of any kind
const pod = (name: string, namespace = 'default'): any => server.store.get('v1', 'pods', name, namespace);
const isRunning = (name: string) => () => pod(name)?.status?.phase === 'Running';

const createPod = (name: string, spec = {}) =>
  server.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      nodeName: NODE,
      terminationGracePeriodSeconds: 2,
      containers: [{ name: 'app', image: 'busybox', command: ['sleep', '3600'] }],
      ...spec,
    },
  });

const requests = (method: string, path: RegExp) =>
  server.requests.filter((request) => request.method === method && path.test(request.path));

describe('a pod that is bound to the node', () => {
  it('runs with its token and the address of the API server, and is gone when it is deleted', async () => {
    await boot();
    server.create({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'kubernetes', namespace: 'default' },
      spec: { clusterIP: '10.96.0.1', ports: [{ name: 'https', port: 443, protocol: 'TCP' }] },
    });
    createPod('web');
    await eventually('Running', isRunning('web'));
    expect(requests('PATCH', /pods\/web\/status/).length).toBeLessThanOrEqual(2);
    expect(requests('GET', /pods\/web/)).toEqual([]);
    await eventually('events', () =>
      server.store.list('v1', 'events', 'default').some(({ reason }) => reason === 'Started'),
    );
    server.delete('v1', 'pods', 'web');
    await eventually('gone', () => pod('web') === undefined);
  });
});
