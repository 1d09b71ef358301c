/** A daemon joins a cluster: the Node, its status and its lease as users see them, over real connections. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { Rest } from '../support/rest.ts';

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

interface KnownNode {
  readonly status?: {
    readonly conditions?: readonly Condition[];
    readonly capacity?: Readonly<Record<string, string>>;
    readonly allocatable?: Readonly<Record<string, string>>;
  };
}

describe('a node of a cluster', () => {
  let server: ApiServer;
  let node: TestNode;
  beforeEach(async () => {
    server = await startApiServer();
    node = new TestNode();
  });
  afterEach(async () => {
    await node.close();
    await server.close();
  });

  const known = () => server.store.get('v1', 'nodes', 'node1') as KnownNode | undefined;
  const ready = () => known()?.status?.conditions?.find(({ type }) => type === 'Ready');
  const start = async (...flags: readonly string[]) =>
    node.start([`--kubeconfig=${await server.kubeconfig('system:node:node1')}`, ...flags]);
  const untilReady = () => eventually('Ready', () => (ready()?.status === 'True' ? true : undefined));
  const writes = () => server.requests.filter(({ method }) => method !== 'GET');

  it('registers, becomes ready, and holds a lease of its own Node', async () => {
    await start();
    await untilReady();
    expect(ready()).toMatchObject({ reason: 'KubeletReady', message: 'kubelet is posting ready status' });
    const lease = await eventually(
      'the lease',
      () => server.store.get('coordination.k8s.io/v1', 'leases', 'node1', 'kube-node-lease') ?? undefined,
    );
    expect(lease).toMatchObject({ spec: { holderIdentity: 'node1', leaseDurationSeconds: 40 } });
    expect(server.store.get('storage.k8s.io/v1', 'csinodes', 'node1')).toMatchObject({ spec: {} });
  });

  it('after a restart writes nothing of the node but its lease, and deletes the slices of drivers', async () => {
    await start();
    await untilReady();
    await node.stop('SIGKILL');
    const before = writes().length;
    await start();
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    const after = writes().slice(before);
    const others = after.filter(({ path }) => !path.includes('/leases') && !path.includes('/events'));
    // Like the kubelet, it deletes the slices of resource drivers that have not registered yet.
    expect(others.map(({ method, path }) => `${method} ${path.split('?')[0]}`).toSorted()).toEqual([
      'DELETE /apis/resource.k8s.io/v1/resourceslices',
      'POST /api/v1/nodes',
    ]);
  });

  it('is ready without counting local storage', async () => {
    await start('--local-storage-capacity-isolation=false');
    await untilReady();
    expect(known()?.status?.capacity).not.toHaveProperty('ephemeral-storage');
  });

  it('on a new disk has none of what its Node had before, and after a restart what it has since', async () => {
    const dongles = (count: string) => ({
      capacity: { 'example.com/x': count },
      allocatable: { 'example.com/x': count },
    });
    const amounts = () => [
      known()?.status?.capacity?.['example.com/x'],
      known()?.status?.allocatable?.['example.com/x'],
    ];
    const node1 = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } };
    const rest = new Rest(await server.kubeconfig('admin'));
    await rest.post('/api/v1/nodes', { ...node1, status: dongles('4') });
    await start();
    await untilReady();
    await eventually('nothing', () => (amounts().join() === '0,0' ? true : undefined));
    // The watch may deliver this change before the node's own, and the node then reverts it once.
    await eventually('the amounts of another client', async () => {
      await rest.patch('/api/v1/nodes/node1/status', 'application/merge-patch+json', { status: dongles('2') });
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      return amounts()[0] === '2' ? true : undefined;
    });
    await node.stop('SIGTERM');
    await start();
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(amounts()).toEqual(['2', '2']);
  });

  it('starts while the API server is away, and registers when it is back', async () => {
    const kubeconfig = await server.kubeconfig('system:node:node1');
    await server.stop();
    await node.start([`--kubeconfig=${kubeconfig}`]);
    await server.start();
    await untilReady();
  });
});
