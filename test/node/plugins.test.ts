/** A CSI driver registers on a running node: its sidecar is notified, and the cluster shows it in the CSINode. */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { type CsiDriver, startCsiDriver } from '../fakes/csi-driver.ts';
import { eventually, TestNode } from '../support/daemon.ts';

let node: TestNode;
let driver: CsiDriver | undefined;
let nodeInfo: Record<string, unknown>;
beforeEach(() => {
  nodeInfo = {
    node_id: 'id-of-node1',
    max_volumes_per_node: '7',
    accessible_topology: { segments: { 'topology.example.test/zone': 'a' } },
  };
  node = new TestNode();
});
afterEach(async () => {
  driver?.close();
  await node.close();
});

/** The kubelet's own folder, which it creates at its start. */
const registry = () => {
  const folder = join(node.rootDir, 'plugins_registry');
  return eventually('the folder of plugins', () => (existsSync(folder) ? folder : undefined));
};

async function startDriver(): Promise<CsiDriver> {
  const own = join(node.rootDir, 'plugins/csi.example.test');
  mkdirSync(own, { recursive: true });
  return await startCsiDriver({
    socket: join(await registry(), 'csi.example.test-reg.sock'),
    endpoint: join(own, 'csi.sock'),
    nodeInfo,
  });
}
const statusOf = (plugin: CsiDriver) => eventually('the status of the registration', () => plugin.statuses.at(0));

it('alone: a driver is registered, and the journal replays', async () => {
  await node.start();
  driver = await startDriver();
  expect(await statusOf(driver)).toEqual({ plugin_registered: true, error: '' });
  expect(await node.stop()).toBe(0);
  expect(node.statelet('replay', node.journal)).toMatchObject({ code: 0 });
});

it('alone: a plugin that is of no kind that a node knows is told so', async () => {
  await node.start();
  const socket = join(await registry(), 'device.sock');
  driver = await startCsiDriver({ socket, type: 'Whatever' });
  expect(await statusOf(driver)).toEqual({
    plugin_registered: false,
    error: `RegisterPlugin error -- no handler registered for plugin type: Whatever at socket ${socket}`,
  });
});

describe('in a cluster', () => {
  let server: ApiServer;
  beforeEach(async () => {
    server = await startApiServer();
  });
  afterEach(() => server.close());

  const drivers = () =>
    (server.store.get('storage.k8s.io/v1', 'csinodes', 'node1') as { spec?: { drivers?: unknown[] } } | undefined)?.spec
      ?.drivers;

  const nodeMetadata = () =>
    (server.store.get('v1', 'nodes', 'node1') as { metadata: Record<'labels' | 'annotations', Record<string, string>> })
      .metadata;
  const NODE_IDS = 'csi.volume.kubernetes.io/nodeid';

  it('CSINode and Node have the driver for as long as its socket is there', async () => {
    await node.start([`--kubeconfig=${await server.kubeconfig('system:node:node1')}`]);
    driver = await startDriver();
    expect(await statusOf(driver)).toEqual({ plugin_registered: true, error: '' });
    expect(drivers()).toEqual([
      {
        name: 'csi.example.test',
        nodeID: 'id-of-node1',
        topologyKeys: ['topology.example.test/zone'],
        allocatable: { count: 7 },
      },
    ]);
    expect(nodeMetadata().labels).toMatchObject({ 'topology.example.test/zone': 'a' });
    expect(nodeMetadata().annotations).toMatchObject({ [NODE_IDS]: '{"csi.example.test":"id-of-node1"}' });
    const spec = { nodeAllocatableUpdatePeriodSeconds: 1 };
    const metadata = { name: 'csi.example.test' };
    server.create({ apiVersion: 'storage.k8s.io/v1', kind: 'CSIDriver', metadata, spec });
    nodeInfo['max_volumes_per_node'] = '8';
    await eventually('the new limit', () => JSON.stringify(drivers()).includes('"allocatable":{"count":8}'));
    driver.close();
    await eventually('the driver to be gone', () => (drivers()?.length ? undefined : true));
    expect(nodeMetadata().annotations[NODE_IDS]).toBeUndefined();
    expect(nodeMetadata().labels).toMatchObject({ 'topology.example.test/zone': 'a' });
  });
});
