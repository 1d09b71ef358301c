/** Counters of plugins: CSI drivers, device plugins, and credential provider plugins. */
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import { Registry } from 'prom-client';
import { afterEach, expect, it } from 'vitest';
import { pluginPorts } from '../../../../../src/actors/plugins/index.ts';
import { countDriverCalls, credentialPluginRuns } from '../../../../../src/actors/server/metrics/calls/plugin-work.ts';
import { volumeCounts } from '../../../../../src/actors/server/metrics/volumes/storage.ts';
import { startCsiDriver } from '../../../../fakes/csi-driver.ts';
import { perform, temporaryFolder } from '../../../../support/host-ports.ts';
import { API, credentialsIn, plugin, response, writeProviders } from '../../../image/support.ts';
import { answered, asked, reading, recording, sent } from '../../metrics-recording.ts';

const closing: (() => unknown)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

it('calls of a driver count by its name, the method and what came of it', async () => {
  const registry = new Registry();
  const value = reading(registry);
  const socket = join(await temporaryFolder(), 'driver.sock');
  const info = { type: 'CSIPlugin', name: 'disk.example.com', endpoint: '', versions: ['1.0.0'] };
  countDriverCalls(registry, {
    contexts: <Context>() =>
      [
        { socket: '/other', info: null },
        { socket, info },
      ] as Context[],
  });
  const ports = pluginPorts();
  const count = (grpc_status_code: string) => {
    const labels = { driver_name: info.name, method_name: '/csi.v1.Node/NodeGetInfo', grpc_status_code };
    return value('csi_operations_seconds', { ...labels, migrated: 'false' }, '_count');
  };
  const working = await startCsiDriver({ socket });
  await perform(ports['plugins.csiNodeGetInfo'], { endpoint: socket });
  await perform(ports['plugins.getInfo'], { socket });
  working.close();
  const nodeInfo = { code: grpc.status.FAILED_PRECONDITION, details: 'no' };
  const failing = await startCsiDriver({ socket, nodeInfo });
  closing.push(() => failing.close());
  await expect(perform(ports['plugins.csiNodeGetInfo'], { endpoint: socket })).rejects.toThrow('no');
  expect(await count('OK')).toBe(1);
  expect(await count('FailedPrecondition')).toBe(1);
  expect(await value('csi_operations_seconds', {}, '_count')).toBe(1);
});

it('volumes of a driver are mounted and unmounted under its name, whatever became of their actor', async () => {
  const { contexts, turn, value } = recording();
  const actor = 'kubelet/csiVolumes/mount-1';
  contexts[actor] = { pod: { uid: 'u1' }, volume: { name: 'data', driver: 'disk.example.com' } };
  turn(0, asked(1, 'csi.publish', `${actor}/publish`));
  turn(100, { k: 'result', id: 1, error: { message: 'no' } }, asked(2, 'csi.unpublish', `${actor}/unpublish`));
  contexts[actor] = undefined;
  turn(300, answered(2));
  const sum = (operation_name: string, status: string) => {
    const labels = { volume_plugin: 'kubernetes.io/csi:disk.example.com', operation_name, status };
    return value('storage_operation_duration_seconds', labels, '_sum');
  };
  expect(await sum('volume_mount', 'fail-unknown')).toBe(0.1);
  expect(await sum('volume_unmount', 'success')).toBe(0.2);
});

it.each([
  ['csi.publish', 'publish', { block: {} }, 'map_volume'],
  ['csi.unpublish', 'unpublish', { block: {} }, 'unmap_volume'],
  ['csi.publish', 'publish', { block: null }, 'volume_mount'],
  ['csi.expand', 'expansion/expand', {}, 'volume_fs_resize'],
])('%s (%s) is counted as upstream counts it: %j', async (name, part, input, operation_name) => {
  const { contexts, turn, value } = recording();
  const actor = 'kubelet/csiVolumes/mount-1';
  contexts[actor] = { pod: { uid: 'u1' }, volume: { name: 'data', driver: 'disk.example.com' } };
  turn(0, { ...asked(1, name, `${actor}/${part}`), input });
  turn(100, answered(1));
  const labels = { volume_plugin: 'kubernetes.io/csi:disk.example.com', operation_name, status: 'success' };
  expect(await value('storage_operation_duration_seconds', labels, '_count')).toBe(1);
});

it('a volume of a driver counts end to end from the request of its pod, once, and with the group of its files', async () => {
  const { contexts, turn, value } = recording();
  const actor = 'kubelet/csiVolumes/mount-1';
  const driver = 'disk.example.com';
  const plugin = `kubernetes.io/csi:${driver}`;
  const volume = { name: 'data', driver };
  contexts[actor] = { pod: { uid: 'u1' }, volume };
  const wanted = { type: 'csi.wanted', pod: { uid: 'u1' }, volumes: [volume] };
  const publish = (id: number) => ({
    ...asked(id, 'csi.publish', `${actor}/publish`),
    input: { ownership: { groupId: 1 } },
  });
  const count = (operation_name: string, status = 'success') =>
    value('storage_operation_duration_seconds', { volume_plugin: plugin, operation_name, status }, '_count');
  const whole = { plugin_name: plugin, operation_name: 'overall_volume_mount' };
  turn(0, sent('kubelet/csiVolumes', wanted));
  expect(await count('verify_controller_attached_volume')).toBe(1);
  turn(1_000, publish(1));
  turn(2_000, { k: 'result', id: 1, error: { message: 'no' } });
  expect(await count('volume_apply_access_control', 'fail-unknown')).toBe(1);
  turn(3_000, publish(2), sent('kubelet/csiVolumes', wanted));
  turn(4_000, answered(2), publish(3));
  turn(5_000, answered(3));
  expect(await count('volume_apply_access_control')).toBe(2);
  expect(await count('verify_controller_attached_volume')).toBe(1);
  expect([
    await value('volume_operation_total_seconds', whole, '_sum'),
    await value('volume_operation_total_seconds', whole, '_count'),
  ]).toEqual([4, 1]);
  turn(6_000, sent('kubelet/csiVolumes', { type: 'csi.released', uid: 'u1' }), sent('kubelet/csiVolumes', wanted));
  expect(await count('verify_controller_attached_volume')).toBe(2);
});

it('volumes count under what they are of', () => {
  const volumes = [
    { name: 'data', persistentVolumeClaim: { claimName: 'c' } },
    { name: 'here', persistentVolumeClaim: { claimName: 'd' } },
    { name: 'unused', persistentVolumeClaim: { claimName: 'e' } },
    { name: 'far', persistentVolumeClaim: { claimName: 'f' } },
    { name: 'own', nfs: { server: 's', path: '/' } },
  ];
  const volumeMounts = [{ name: 'data' }, { name: 'far' }, { name: 'own' }];
  const containers = [{ volumeMounts, volumeDevices: [{ name: 'here' }] }];
  const pod = {
    uid: 'u1',
    namespace: 'ns',
    name: 'p',
    pod: { spec: { volumes, containers } },
    status: null,
    runtime: null,
    mounted: ['data', 'far'],
    claims: { far: { claim: 'f', path: '/var/lib/kubelet/pods/u1/volumes/kubernetes.io~nfs/pv' } },
  };
  const ofDrivers = [{ pod: { uid: 'u1' }, volume: { name: 'data', driver: 'disk.example.com' } }];
  const counts = volumeCounts([pod as never], ofDrivers).samples.map(({ labels, value }) => [
    labels['plugin_name'],
    labels['state'],
    value,
  ]);
  expect(counts).toEqual([
    ['kubernetes.io/csi:disk.example.com', 'desired_state_of_world', 1],
    ['kubernetes.io/csi:disk.example.com', 'actual_state_of_world', 1],
    ['kubernetes.io/host-path', 'desired_state_of_world', 1],
    ['kubernetes.io/nfs', 'desired_state_of_world', 2],
    ['kubernetes.io/nfs', 'actual_state_of_world', 1],
  ]);
});

it('devices count when their plugin registers and when they are given out', async () => {
  const { turn, value } = recording();
  const resource = 'example.com/gpu';
  turn(0, { k: 'in', to: 'kubelet/devices', event: { type: 'devices.registered', resource } });
  turn(1, asked(1, 'devices.allocate', 'kubelet/devices/allocate', { resource, ids: ['a'] }));
  turn(251, answered(1));
  expect(await value('kubelet_device_plugin_registration_total', { resource_name: resource })).toBe(1);
  expect(await value('kubelet_device_plugin_alloc_duration_seconds', { resource_name: resource }, '_sum')).toBe(0.25);
});

it('a program that knows logins counts each time that it is run, and when it fails', async () => {
  const registry = new Registry();
  const value = reading(registry);
  const { binDir, folder, ports, lookup } = await credentialsIn({ onRun: credentialPluginRuns(registry) });
  plugin(binDir, 'good', `echo '${response({ 'registry.example.com': { username: 'u', password: 'p' } })}'`);
  plugin(binDir, 'bad', 'exit 3');
  const provider = (name: string) => ({
    name,
    apiVersion: API,
    matchImages: ['registry.example.com'],
    defaultCacheDuration: '1h',
  });
  const config = writeProviders(folder, [provider('good'), provider('bad')]);
  await perform(ports['images.registerProviders'], { config, binDir, tokens: false });
  await lookup('registry.example.com/app');
  await lookup('registry.example.com/app');
  const runs = (plugin_name: string) => value('kubelet_credential_provider_plugin_duration', { plugin_name }, '_count');
  const errors = (plugin_name: string) => value('kubelet_credential_provider_plugin_errors_total', { plugin_name });
  expect([await runs('good'), await errors('good')]).toEqual([1, undefined]);
  expect([await runs('bad'), await errors('bad')]).toEqual([2, 2]);
});
