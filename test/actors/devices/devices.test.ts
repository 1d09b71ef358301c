/** Calls to device plugins, and their registration, over real sockets. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import { expect, it, onTestFinished } from 'vitest';
import { pluginPorts } from '../../../src/actors/plugins/index.ts';
import { type DevicePluginBehaviour, FakeDevicePlugin } from '../../fakes/device-plugin.ts';
import { openStream, perform, temporaryFolder } from '../../support/host-ports.ts';

const GPU = 'example.com/gpu';

async function plugin(folder: string, behaviour: DevicePluginBehaviour, name = 'gpu.sock'): Promise<FakeDevicePlugin> {
  const started = await FakeDevicePlugin.start(join(folder, name), behaviour);
  onTestFinished(() => started.close());
  return started;
}

/** A plugin whose devices are followed. */
async function followed(behaviour: DevicePluginBehaviour) {
  const ports = pluginPorts();
  const folder = await temporaryFolder();
  const fake = await plugin(folder, behaviour);
  const endpoint = join(folder, 'gpu.sock');
  const options = await perform(ports['devices.getOptions'], { endpoint });
  const stream = openStream(ports['devices.listAndWatch'], { resource: GPU, endpoint, options });
  await stream.until(() => true);
  return { ports, fake, stream, options };
}

const failure = (details: string) => ({ code: grpc.status.INTERNAL, details });

it('devices are told as they change, with their health and their place', async () => {
  const { fake, stream, options } = await followed({
    devices: [{ ID: 'b', nodes: [1, 0] }, { ID: 'a' }, { ID: 'c', nodes: [] }],
    options: { pre_start_required: true },
  });
  expect(options).toEqual({ preStart: true, prefers: false });
  const [a, b, c] = [
    { id: 'a', isHealthy: true, nodes: null },
    { id: 'b', isHealthy: true, nodes: [0, 1] },
    { id: 'c', isHealthy: true, nodes: [] },
  ];
  expect(stream.items).toEqual([{ type: 'devices.listed', devices: [a, b, c] }]);
  fake.send([{ ID: 'a' }, { ID: 'b', nodes: [0, 1] }, { ID: 'c', nodes: [] }]);
  fake.send([{ ID: 'a', health: 'Unhealthy' }]);
  await stream.until(({ devices }) => devices.length === 1);
  expect(stream.items).toHaveLength(2);
  expect(stream.items[1]!.devices).toEqual([{ id: 'a', isHealthy: false, nodes: null }]);
});

const listOf = (count: number, name: string) => Array.from({ length: count }, (_, at) => ({ ID: `${name}${at}` }));

it('a plugin that never stops sending lists is heard a few times a second', async () => {
  const { fake, stream } = await followed({ devices: [] });
  const began = performance.now();
  for (let at = 0; at < 400; at++) fake.send(listOf(10, at % 2 === 0 ? 'a' : 'b'));
  await stream.until(() => stream.items.length > 22);
  const seconds = (performance.now() - began) / 1_000;
  expect(seconds).toBeGreaterThan(0.9);
  expect(stream.items.length).toBeLessThan(22 + 3 * seconds);
});

it('a plugin with more devices than a turn can take is given up', async () => {
  const { fake, stream } = await followed({ devices: listOf(8_192, 'd') });
  expect(stream.last?.devices).toHaveLength(8_192);
  fake.send(listOf(8_193, 'd'));
  await expect(stream.ended).rejects.toThrow('the plugin has 8193 devices: a node takes at most 8192 of one resource');
});

it('all plugins together have no more devices than a report of the node can take', async () => {
  const ports = pluginPorts();
  const folder = await temporaryFolder();
  const options = { preStart: false, prefers: false };
  const streams = [];
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    const fake = await plugin(folder, { devices: listOf(0, name) }, `${name}.sock`);
    const endpoint = join(folder, `${name}.sock`);
    const stream = openStream(ports['devices.listAndWatch'], { resource: `example.com/${name}`, endpoint, options });
    await stream.until(() => true);
    fake.send(listOf(8_192, name));
    if (name !== 'e') await stream.until(({ devices }) => devices.length === 8_192);
    streams.push(stream);
  }
  const limit = 'a node takes at most 32768 of all resources, and would have 40960';
  await expect(streams.at(-1)!.ended).rejects.toThrow(`the plugin has 8192 devices: ${limit}`);
});

it('a plugin says what a container needs for its devices', async () => {
  const { ports, fake } = await followed({
    devices: [{ ID: 'a' }],
    allocate: (ids) => ({
      envs: { GPUS: ids.join() },
      mounts: [{ container_path: '/lib/gpu', host_path: '/opt/gpu', read_only: true }],
      devices: [{ container_path: '/dev/gpu0', host_path: '/dev/null', permissions: 'rw' }],
      annotations: { 'gpu.example.com': 'yes' },
      cdi_devices: [{ name: 'example.com/gpu=a' }],
    }),
  });
  expect(await perform(ports['devices.allocate'], { resource: GPU, ids: ['a', 'b'] })).toEqual({
    envs: { GPUS: 'a,b' },
    mounts: [{ containerPath: '/lib/gpu', hostPath: '/opt/gpu', readOnly: true }],
    devices: [{ containerPath: '/dev/gpu0', hostPath: '/dev/null', permissions: 'rw' }],
    annotations: { 'gpu.example.com': 'yes' },
    cdiDevices: ['example.com/gpu=a'],
  });
  expect(fake.asked).toEqual(['Allocate a,b']);
});

it('a plugin is asked which devices go together, and before containers start, if it wants to', async () => {
  const { ports, fake } = await followed({
    devices: [{ ID: 'a' }],
    options: { pre_start_required: true, get_preferred_allocation_available: true },
    prefer: (available, size) => available.slice(-size),
    preStart: (ids) => (ids.includes('bad') ? failure('it is broken') : null),
  });
  const question = { resource: GPU, available: ['a', 'b', 'c'], mustInclude: [], size: 2 };
  expect(await perform(ports['devices.getPreferredAllocation'], question)).toEqual({ ids: ['b', 'c'] });
  const containers = [
    { name: 'good', devices: { [GPU]: ['a'] } },
    { name: 'broken', devices: { [GPU]: ['bad'] } },
    { name: 'other', devices: { 'example.com/nic': ['n'] } },
  ];
  expect(await perform(ports['devices.preStartContainers'], { containers })).toEqual({
    failed: {
      broken: 'device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = it is broken',
      other: 'endpoint not found in cache for a registered resource: example.com/nic',
    },
  });
  expect(fake.asked).toEqual(['GetPreferredAllocation a,b,c', 'PreStartContainer a', 'PreStartContainer bad']);
});

it('a plugin that refuses is quoted, and one that is gone ends its stream', async () => {
  const { ports, fake, stream } = await followed({ devices: [{ ID: 'a' }], allocate: () => failure('no more') });
  const asked = () => perform(ports['devices.allocate'], { resource: GPU, ids: ['a'] });
  await expect(asked()).rejects.toThrow('rpc error: code = Internal desc = no more');
  fake.close();
  await expect(stream.ended).rejects.toThrow('rpc error: code = ');
  await expect(asked()).rejects.toThrow('endpoint example.com/gpu has been stopped');
});

it('containers begin again without their plugin, unless it wants to be asked before', async () => {
  const started = async (options: object) => {
    const { ports, fake, stream } = await followed({ devices: [{ ID: 'a' }], options });
    fake.close();
    await expect(stream.ended).rejects.toThrow('rpc error: code = ');
    const containers = [{ name: 'c', devices: { [GPU]: ['a'] } }];
    return await perform(ports['devices.preStartContainers'], { containers });
  };
  expect(await started({})).toEqual({ failed: {} });
  expect(await started({ pre_start_required: true })).toEqual({
    failed: { c: 'device plugin PreStartContainer rpc failed with err: endpoint example.com/gpu has been stopped' },
  });
});

it('plugins register at the socket of the kubelet, where nothing of an earlier start is left', async () => {
  const folder = await temporaryFolder();
  const fake = await plugin(folder, { devices: [] }, 'old.sock');
  const stream = openStream(pluginPorts()['devices.serveRegistration'], { socket: join(folder, 'kubelet.sock') });
  await stream.until(({ type }) => type === 'devices.serving');
  expect(existsSync(join(folder, 'old.sock'))).toBe(false);
  const again = await plugin(folder, { devices: [], options: { get_preferred_allocation_available: true } });
  await again.register(join(folder, 'kubelet.sock'), GPU);
  expect(await stream.until(({ type }) => type === 'devices.registered')).toEqual({
    type: 'devices.registered',
    resource: GPU,
    endpoint: join(folder, 'gpu.sock'),
    options: { preStart: false, prefers: true },
  });
  const refused: [string, object, string][] = [
    [
      GPU,
      { version: 'v1' },
      'requested API version "v1" is not supported by kubelet. Supported version is ["v1beta1"]',
    ],
    ['cpu', {}, 'the ResourceName "cpu" is invalid'],
    ['kubernetes.io/gpu', {}, 'the ResourceName "kubernetes.io/gpu" is invalid'],
    [GPU, { endpoint: '../other.sock' }, 'is not a socket beside the one of the kubelet'],
    [GPU, { endpoint: '/run/other.sock' }, 'is not a socket beside the one of the kubelet'],
  ];
  for (const [resource, change, message] of refused) {
    await expect(fake.register(join(folder, 'kubelet.sock'), resource, change)).rejects.toThrow(message);
  }
  expect(stream.items).toHaveLength(2);
});

it('the checkpoint is the one of the Go kubelet', async () => {
  const path = join(await temporaryFolder(), 'kubelet_internal_checkpoint');
  const response = {
    envs: { NVIDIA_VISIBLE_DEVICES: 'tegra' },
    mounts: [],
    devices: [],
    annotations: {},
    cdiDevices: [],
  };
  const entry = {
    podUid: 'bf52b2cd-b611-4e79-86b1-280b283185c3',
    container: 'check',
    resource: 'nvidia.com/gpu',
    nodes: { '-1': ['tegra'] },
    response,
  };
  await perform(pluginPorts()['devices.writeCheckpoint'], {
    path,
    entries: [entry],
    registered: { 'nvidia.com/gpu': ['tegra'] },
  });
  // The file of a kubelet on a machine with one such device.
  expect(readFileSync(path, 'utf8')).toBe(
    '{"Data":{"PodDeviceEntries":[{"PodUID":"bf52b2cd-b611-4e79-86b1-280b283185c3","ContainerName":"check",' +
      '"ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["tegra"]},' +
      '"AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh"}],' +
      '"RegisteredDevices":{"nvidia.com/gpu":["tegra"]}},"Checksum":3660592824}',
  );
});

it('registrations without end are heard a few times a second, and refused when too many wait', async () => {
  const folder = await temporaryFolder();
  const socket = join(folder, 'kubelet.sock');
  const stream = openStream(pluginPorts()['devices.serveRegistration'], { socket });
  await stream.until(({ type }) => type === 'devices.serving');
  const fake = await plugin(folder, { devices: [] });
  const began = performance.now();
  const refusals: string[] = [];
  for (let at = 0; at < 110; at++) {
    fake.register(socket, `example.com/${at}`).catch(({ message }: Error) => refusals.push(message));
  }
  await stream.until(() => stream.items.length > 34);
  const seconds = (performance.now() - began) / 1_000;
  expect(seconds).toBeGreaterThan(0.9);
  expect(stream.items.length).toBeLessThan(35 + 2 * seconds);
  await expect.poll(() => refusals[0]).toBe('8 RESOURCE_EXHAUSTED: 64 registrations are under way: try again later');
});

it.each([
  ['is missing', null, true],
  ['is empty', [], true],
  ['has an interrupted write', ['.tmp-1'], true],
  ['has a checkpoint', ['kubelet_internal_checkpoint'], false],
  ['has what plugins left', ['gpu.sock'], false],
])('a folder of plugins that %s', async (_, names, isNew) => {
  const folder = join(await temporaryFolder(), 'device-plugins');
  if (names !== null) mkdirSync(folder);
  for (const name of names ?? []) writeFileSync(join(folder, name), '');
  expect(await perform(pluginPorts()['devices.isNewFolder'], { folder })).toEqual({ isNew });
});
