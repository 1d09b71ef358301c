/** The folder of plugins and the calls to them, over real sockets. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import { expect, it, onTestFinished } from 'vitest';
import { pluginPorts } from '../../../src/actors/plugins/index.ts';
import { type CsiDriverOptions, startCsiDriver } from '../../fakes/csi-driver.ts';
import { openStream, perform, temporaryFolder } from '../../support/host-ports.ts';

const ports = pluginPorts();
const follow = (path: string) => openStream(ports['plugins.watch'], { path });
type Item = ReturnType<typeof follow>['items'][number];
const paths = ({ sockets }: Item) => sockets.map(({ path }) => path);

async function driver(options: CsiDriverOptions) {
  const started = await startCsiDriver(options);
  onTestFinished(() => started.close());
  return started;
}

function listen(path: string): Promise<() => void> {
  const server = createServer();
  onTestFinished(() => void server.close());
  return new Promise((done) => server.listen(path, () => done(() => void server.close())));
}

const times = (count: number) => new Promise((resolve) => setTimeout(resolve, count));

it('an empty folder is said once', async () => {
  const stream = follow(await temporaryFolder());
  expect(await stream.until(() => true)).toEqual({ type: 'plugins.changed', sockets: [], errors: [] });
  await times(1_300);
  expect(stream.items).toHaveLength(1);
});

it('a socket is said when it appears, in a new folder too, and when it is gone', async () => {
  const folder = await temporaryFolder();
  const stream = follow(folder);
  await stream.until(() => true);
  mkdirSync(join(folder, 'below/it'), { recursive: true });
  const close = await listen(join(folder, 'below/it/b.sock'));
  await stream.until((item) => paths(item).length === 1);
  await listen(join(folder, 'a.sock'));
  const both = await stream.until((item) => paths(item).length === 2);
  expect(paths(both)).toEqual([join(folder, 'a.sock'), join(folder, 'below/it/b.sock')]);
  const known = stream.items.length;
  close();
  await stream.until((item) => stream.items.indexOf(item) >= known && paths(item).length === 1);
});

it('hidden names, files and folders that end like sockets are not plugins', async () => {
  const folder = await temporaryFolder();
  writeFileSync(join(folder, 'file.sock'), '');
  mkdirSync(join(folder, '.hidden'));
  await listen(join(folder, '.hidden/a.sock'));
  await listen(join(folder, '.b.sock'));
  await listen(join(folder, 'c.sock'));
  expect(paths(await follow(folder).until(() => true))).toEqual([join(folder, 'c.sock')]);
});

it('a socket that listens anew under its name is another one', async () => {
  const folder = await temporaryFolder();
  const path = join(folder, 'a.sock');
  const stream = follow(folder);
  await listen(path);
  const first = await stream.until((item) => item.sockets.length === 1);
  rmSync(path);
  await listen(path);
  await stream.until((item) => item.sockets.length === 1 && item.sockets[0]!.identity !== first.sockets[0]!.identity);
});

it('a folder that is missing is followed from when it is there', async () => {
  const folder = join(await temporaryFolder(), 'plugins_registry');
  const stream = follow(folder);
  expect(await stream.until(() => true)).toMatchObject({ sockets: [], errors: [] });
  mkdirSync(folder);
  await listen(join(folder, 'a.sock'));
  await stream.until((item) => item.sockets.length === 1);
});

it('of more sockets than a node asks the first are said, and one sentence of the others', async () => {
  const folder = await temporaryFolder();
  mkdirSync(join(folder, 'p'));
  for (let at = 0; at < 300; at++) await listen(join(folder, `p/${at}.sock`));
  const item = await follow(folder).until(() => true);
  expect(item.sockets).toHaveLength(256);
  expect(item.errors).toEqual([`not all sockets below ${folder} are asked what they are: at most 256 plugins are`]);
});

it('folders without end are one sentence', async () => {
  const folder = await temporaryFolder();
  for (let at = 0; at < 200; at++) mkdirSync(join(folder, `${at}`));
  const { errors } = await follow(folder).until(() => true);
  expect(errors).toEqual([`not all folders below ${folder} are read: at most 128 are, 8 deep`]);
});

it('a folder with continuous changes is reported a few times a second', async () => {
  const folder = await temporaryFolder();
  const stream = follow(folder);
  await stream.until(() => true);
  const began = performance.now();
  while (performance.now() - began < 2_500) {
    const close = await listen(join(folder, 'a.sock'));
    await times(20);
    close();
    await times(20);
  }
  expect(stream.items.length).toBeGreaterThan(10);
  expect(stream.items.length).toBeLessThan(20 + 2 * 3.5);
});

it('a plugin says what it is and hears what became of it', async () => {
  const folder = await temporaryFolder();
  const socket = join(folder, 'reg.sock');
  const endpoint = join(folder, 'csi.sock');
  const plugin = await driver({ socket, endpoint, versions: ['1.0.0', '1.9.0'] });
  expect(await perform(ports['plugins.getInfo'], { socket })).toEqual({
    type: 'CSIPlugin',
    name: 'csi.example.test',
    endpoint,
    versions: ['1.0.0', '1.9.0'],
  });
  await perform(ports['plugins.notifyRegistrationStatus'], { socket, registered: false, error: 'no' });
  await perform(ports['plugins.notifyRegistrationStatus'], { socket, registered: true, error: '' });
  expect(plugin.statuses).toEqual([
    { plugin_registered: false, error: 'no' },
    { plugin_registered: true, error: '' },
  ]);
});

it('a driver says what it calls the node, with its topology in order', async () => {
  const socket = join(await temporaryFolder(), 'csi.sock');
  const accessible_topology = { segments: { zone: 'b', rack: '4' } };
  await driver({ socket, nodeInfo: { node_id: 'n', max_volumes_per_node: '9007199254740993', accessible_topology } });
  expect(await perform(ports['plugins.csiNodeGetInfo'], { endpoint: socket })).toEqual({
    nodeID: 'n',
    maxVolumes: '9007199254740993',
    topologyKeys: ['rack', 'zone'],
    topology: { rack: '4', zone: 'b' },
  });
});

it('a driver is called periodically, and a changed answer is published', async () => {
  const socket = join(await temporaryFolder(), 'csi.sock');
  const nodeInfo = { node_id: 'n', max_volumes_per_node: '5', accessible_topology: null };
  const plugin = await driver({ socket, nodeInfo });
  const stream = openStream(ports['plugins.followNodeInfo'], { endpoint: socket, periodMs: 20 });
  const known = (maxVolumes: string) => ({
    type: 'plugin.nodeInfo',
    info: { nodeID: 'n', maxVolumes, topologyKeys: [], topology: {} },
    error: '',
  });
  expect(await stream.until(() => true)).toEqual(known('5'));
  await times(200);
  expect(stream.items).toHaveLength(1);
  nodeInfo.max_volumes_per_node = '8';
  expect(await stream.until(({ info }) => info?.maxVolumes === '8')).toEqual(known('8'));
  plugin.close();
  const { error } = await stream.until(({ info }) => info === null);
  expect(error).toContain('rpc error: code = Unavailable');
});

it('a driver that does not know gives its own words', async () => {
  const socket = join(await temporaryFolder(), 'csi.sock');
  await driver({ socket, nodeInfo: { code: grpc.status.INTERNAL, details: 'no metadata' } });
  const asked = perform(ports['plugins.csiNodeGetInfo'], { endpoint: socket });
  await expect(asked).rejects.toThrow('rpc error: code = Internal desc = no metadata');
});

it.each([
  [99, 'Code(99)'],
  [-1, 'Code(-1)'],
])('a driver that answers with the code %d fails its call alone', async (code, name) => {
  const socket = join(await temporaryFolder(), 'csi.sock');
  await driver({ socket, nodeInfo: { code, details: 'odd' } });
  const asked = perform(ports['plugins.csiNodeGetInfo'], { endpoint: socket });
  await expect(asked).rejects.toMatchObject({ message: `rpc error: code = ${name} desc = odd`, code: 'UNKNOWN' });
});

it('a socket that speaks something else fails in the words of upstream', async () => {
  const folder = await temporaryFolder();
  const mute = join(folder, 'mute.sock');
  await listen(mute);
  const other = join(folder, 'other.sock');
  const server = new grpc.Server();
  await new Promise((done) => server.bindAsync(`unix://${other}`, grpc.ServerCredentials.createInsecure(), done));
  onTestFinished(() => server.forceShutdown());
  const [silent, stranger] = await Promise.allSettled(
    [mute, other].map((socket) => perform(ports['plugins.getInfo'], { socket })),
  );
  expect(silent).toMatchObject({
    reason: {
      message: `RegisterPlugin error -- dial failed at socket ${mute}, err: failed to dial socket ${mute}, err: context deadline exceeded`,
    },
  });
  expect((stranger as PromiseRejectedResult).reason.message).toContain(
    `RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket ${other}, err: rpc error: code = Unimplemented`,
  );
});
