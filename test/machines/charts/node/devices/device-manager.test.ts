/**
 * The device manager in a world whose plugins are controlled by the test: proves R1 to R5 of `device-manager.ts`, D1 of
 * its plugins.
 */

import { expect, it } from 'vitest';
import { deviceManagerMachine } from '../../../../../src/machines/charts/node/devices/device-manager.ts';
import { devicePluginMachine } from '../../../../../src/machines/charts/node/devices/device-plugin.ts';
import {
  announcementProblem,
  registrationProblem,
  rememberedResources,
} from '../../../../../src/machines/model/allocation/device-policy.ts';
import {
  type Devices,
  deviceHealth,
  deviceStateText,
  readDeviceState,
} from '../../../../../src/machines/model/allocation/device-state.ts';
import type { Device } from '../../../../../src/machines/model/operations/devices.ts';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { type Answers, fail, late, ok, runUnder } from '../../../../support/answering-world.ts';

const GPU = 'example.com/gpu';
const FOLDER = '/var/lib/kubelet/device-plugins';
const options = { preStart: false, prefers: true };
const gpu = (id: string, isHealthy = true): Device => ({ id, isHealthy, nodes: null });
const registered = (endpoint = 'gpu.sock') => ({ type: 'devices.registered', resource: GPU, endpoint, options });

interface Written {
  readonly path: string;
  readonly entries: readonly { readonly podUid: string }[];
  readonly registered: Readonly<Record<string, readonly string[]>>;
}

function run(answers: Answers = {}, behavior = NEWEST_BEHAVIOR) {
  const written: Written[] = [];
  const world = runUnder(
    deviceManagerMachine,
    { behavior, folder: FOLDER },
    {
      'host.readCheckpoints': ok({ contents: [null] }),
      'devices.isNewFolder': ok({ isNew: false }),
      'devices.serveRegistration': 'stream',
      'devices.listAndWatch': 'stream',
      'devices.writeCheckpoint': (input: never) => {
        written.push(input);
        return ok(null);
      },
      ...answers,
    },
    ['allocation', 'nodeStatus'],
  );
  const settle = (ms = 0) => world.time.advanceTo(world.time.now() + ms);
  const all = () => world.sent() as readonly { type: string; devices?: Devices; reports?: object }[];
  return {
    ...world,
    written,
    settle,
    register: (endpoint?: string) => {
      world.emit('devices.serveRegistration', registered(endpoint));
      settle();
    },
    list: (...devices: readonly Device[]) => {
      world.emit('devices.listAndWatch', { type: 'devices.listed', devices });
      settle();
    },
    devices: () => all().findLast(({ type }) => type === 'devices.changed')?.devices,
    reported: () => all().findLast(({ type }) => type === 'node.reported')?.reports,
  };
}

const counts = (capacity: string, allocatable: string) => ({
  deviceCapacity: { [GPU]: capacity },
  deviceAllocatable: { [GPU]: allocatable },
});

it('the devices of a plugin are published to the allocation and to the cluster, and stored', () => {
  const world = run();
  world.register();
  expect(world.devices()).toEqual({ [GPU]: { devices: [], isUnlisted: true, prefers: true } });
  world.list(gpu('a'), gpu('b', false));
  expect(world.devices()).toEqual({ [GPU]: { devices: [gpu('a'), gpu('b', false)], prefers: true } });
  expect(world.reported()).toEqual(counts('2', '1'));
  expect(world.written.at(-1)).toEqual({
    path: `${FOLDER}/kubelet_internal_checkpoint`,
    entries: [],
    registered: { [GPU]: ['a'] },
  });
  expect(world.divergence()).toBeNull();
});

it('the newest plugin of a resource has it, and what an older one says is not heard', () => {
  const world = run();
  world.register('old.sock');
  world.list(gpu('a'));
  const [old] = world
    .records()
    .flatMap((record) => (record.k === 'effect' && record.name.endsWith('Watch') ? [record] : []));
  world.register('new.sock');
  expect(world.devices()).toMatchObject({ [GPU]: { devices: [gpu('a')] } });
  world.list(gpu('b'));
  expect(world.devices()).toMatchObject({ [GPU]: { devices: [gpu('b')] } });
  world.send({ type: 'device.listed', id: 'device-plugin-0', resource: GPU, devices: [gpu('z')] });
  world.send({ type: 'device.stopped', id: 'device-plugin-0', resource: GPU });
  world.send({ type: 'devices.withdrawn', resource: GPU, endpoint: 'old.sock' });
  expect(world.devices()).toMatchObject({ [GPU]: { devices: [gpu('b')] } });
  expect(old?.input).toMatchObject({ endpoint: 'old.sock' });
  expect(world.divergence()).toBeNull();
});

it('without its plugin no device is given, those given stay as they were, for five minutes', () => {
  const world = run();
  world.register();
  world.list(gpu('a'));
  world.send({ type: 'devices.withdrawn', resource: GPU, endpoint: 'gpu.sock' });
  world.settle();
  expect(world.reported()).toEqual(counts('1', '0'));
  const held = { m: { [GPU]: { nodes: { '-1': ['a'] }, response: null } } };
  expect(deviceHealth(held, world.devices()!)['m']).toEqual([
    { name: GPU, resources: [{ resourceID: 'a', health: 'Healthy' }] },
  ]);
  world.settle(299_000);
  expect(world.reported()).toEqual(counts('1', '0'));
  world.settle(1_000);
  expect(world.devices()).toEqual({});
  expect(world.reported()).toEqual({ deviceCapacity: {}, deviceAllocatable: {} });
  expect(world.written.at(-1)?.registered).toEqual({});
  expect(world.divergence()).toBeNull();
});

it('a plugin that is back in time stays', () => {
  let opened = 0;
  const world = run({ 'devices.listAndWatch': () => (++opened === 1 ? fail('rpc error') : 'stream') });
  world.register();
  world.settle();
  expect(world.logged()).toContain('ListAndWatch ended unexpectedly for device plugin');
  world.settle(200_000);
  world.register();
  expect(world.devices()).toMatchObject({ [GPU]: { isUnlisted: true } });
  world.list(gpu('a'));
  world.settle(300_000);
  expect(world.devices()).toMatchObject({ [GPU]: { devices: [gpu('a')] } });
});

it('what an earlier start knew is there with nothing, until it registers again or five minutes went by', () => {
  const text = deviceStateText([], { [GPU]: ['a'], cpu: [] });
  const world = run({ 'host.readCheckpoints': ok({ contents: [text] }) });
  expect(world.devices()).toEqual({ [GPU]: { devices: [], isUnlisted: true, prefers: false } });
  expect(world.reported()).toEqual(counts('0', '0'));
  world.settle(300_000);
  expect(world.devices()).toEqual({});
  expect(rememberedResources({ entries: [], registered: { cpu: [] } })).toEqual([]);
});

it('tells the publisher of the Node what there is when that starts', () => {
  const text = deviceStateText([], { [GPU]: ['a'] });
  const world = run({ 'host.readCheckpoints': ok({ contents: [text] }) });
  const before = world.sent().length;
  world.send({ type: 'devices.amountsWanted' });
  expect(world.sent().slice(before)).toEqual([
    { to: 'parent/nodeStatus', type: 'node.reported', reports: counts('0', '0') },
  ]);
  expect(world.divergence()).toBeNull();
});

it.each(['host.readCheckpoints', 'devices.isNewFolder'])('answers later when it is asked during %s', (slow) => {
  const answers = { 'devices.isNewFolder': ok({ isNew: true }) };
  const value = slow === 'devices.isNewFolder' ? ok({ isNew: true }) : ok({ contents: [null] });
  const world = run({ ...answers, [slow]: () => late(1_000, value) });
  const told = () => world.sent().filter(({ type }) => type === 'node.reported');
  world.send({ type: 'devices.amountsWanted' });
  expect(told()).toEqual([]);
  world.settle(1_000);
  const reports = { deviceCapacity: {}, deviceAllocatable: {}, isRecreated: true };
  expect(told()).toEqual([{ to: 'parent/nodeStatus', type: 'node.reported', reports }]);
  expect(world.divergence()).toBeNull();
});

it('tells once that no kubelet has run on this disk', () => {
  const told = (answers: Answers, behavior = NEWEST_BEHAVIOR) => {
    const world = run(answers, behavior);
    for (let times = 0; times < 2; times++) world.send({ type: 'devices.amountsWanted' });
    expect(world.divergence()).toBeNull();
    const all = world.sent() as readonly { readonly reports?: { readonly isRecreated?: boolean } }[];
    return all.map(({ reports }) => reports?.isRecreated).filter((is) => is === true).length;
  };
  const isNew = { 'devices.isNewFolder': ok({ isNew: true }) };
  expect(told(isNew)).toBe(1);
  expect(told({})).toBe(0);
  expect(told({ 'devices.isNewFolder': fail('EACCES') })).toBe(0);
  expect(told({ ...isNew, 'host.readCheckpoints': ok({ contents: [deviceStateText([], {})] }) })).toBe(0);
  expect(told(isNew, 2)).toBe(0);
});

/** The file that the Go kubelet left on a node with one pod. */
const LEFT =
  '{"Data":{"PodDeviceEntries":[{"PodUID":"362f2b12-ea17-4790-aa79-194f055926aa","ContainerName":"m","R' +
  'esourceName":"example.com/x","DeviceIDs":{"0":["d1"]},"AllocResp":"CgkKA0RFVhICZDE="}],"RegisteredDe' +
  'vices":{"example.com/x":["d0","d1"]}},"Checksum":4280179160}';
const LEFT_UID = '362f2b12-ea17-4790-aa79-194f055926aa';

it('what another kubelet granted to pods is passed to the managers', () => {
  const world = run({ 'host.readCheckpoints': ok({ contents: [LEFT] }) });
  const response = { envs: { DEV: 'd1' }, mounts: [], devices: [], annotations: {}, cdiDevices: [] };
  expect(world.sent()).toContainEqual({
    to: 'parent/allocation',
    type: 'resources.handedOver',
    holdings: { [LEFT_UID]: { devices: { m: { 'example.com/x': { nodes: { '0': ['d1'] }, response } } } } },
  });
});

it.each([
  ['', 'unexpected end of JSON input'],
  ['[]', 'json: cannot unmarshal array into Go value of type checkpoint.Data'],
  ['{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":5}', 'checkpoint is corrupted'],
  [LEFT.replace('"d1"]}', '"d0"]}'), 'checkpoint is corrupted'],
])('a checkpoint that was damaged says nothing: %s', (text, err) => {
  const world = run({ 'host.readCheckpoints': ok({ contents: [text] }) });
  expect(world.logged()).toContain(
    'Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date',
  );
  expect(readDeviceState(text)).toEqual({ error: err });
  expect(JSON.stringify(world.sent())).not.toContain('handedOver');
  expect(world.devices()).toBeUndefined();
});

it('a node takes plugins of 128 resources; one of 0.2.0 took them all', () => {
  const taken = (behavior: number) => {
    const world = run({}, behavior);
    for (let at = 0; at < 130; at++) {
      const resource = `example.com/r${at}`;
      world.emit('devices.serveRegistration', {
        type: 'devices.registered',
        resource,
        endpoint: `${at}.sock`,
        options,
      });
      world.settle();
    }
    const refused = 'A device plugin is not followed: the node has as many resources as it takes';
    return [Object.keys(world.devices()!).length, world.logged().filter((text) => text === refused).length];
  };
  expect(taken(NEWEST_BEHAVIOR)).toEqual([128, 2]);
  expect(taken(2)).toEqual([130, 0]);
});

it('holdings are stored, and stored again after a failure', () => {
  let tries = 0;
  const entries: unknown[] = [];
  const world = run({
    'devices.writeCheckpoint': (input: { entries: unknown }) => {
      entries.push(input.entries);
      return ++tries === 1 ? fail('ENOSPC') : ok(null);
    },
  });
  const response = { envs: {}, mounts: [], devices: [], annotations: {}, cdiDevices: [] };
  const held = { u: { c: { [GPU]: { nodes: { '-1': ['a'] }, response } } } };
  world.send({ type: 'devices.held', held });
  world.settle();
  expect(world.logged()).toContain('Writing checkpoint encountered');
  world.settle(10_000);
  expect(entries).toHaveLength(2);
  expect(entries[1]).toEqual([{ podUid: 'u', container: 'c', resource: GPU, nodes: { '-1': ['a'] }, response }]);
});

it('a server that breaks is served again', () => {
  let served = 0;
  const world = run({ 'devices.serveRegistration': () => (++served === 1 ? fail('EADDRINUSE') : 'stream') });
  world.settle(1_000);
  expect(served).toBe(2);
});

it('a plugin reports its end once', () => {
  const input = { id: 'p', resource: GPU, endpoint: 'gpu.sock', options };
  const world = runUnder(devicePluginMachine, input, { 'devices.listAndWatch': ok(null) });
  expect(world.sent()).toMatchObject([{ type: 'device.stopped', id: 'p', resource: GPU }, {}]);
});

it.each([
  ['v1beta1', GPU, ''],
  ['v1', GPU, 'requested API version "v1" is not supported by kubelet. Supported version is ["v1beta1"]'],
  ['v1beta1', 'gpu', 'the ResourceName "gpu" is invalid'],
  ['v1beta1', 'requests.example.com/gpu', 'the ResourceName "requests.example.com/gpu" is invalid'],
  ['v1beta1', 'example.com/g pu', 'the ResourceName "example.com/g pu" is invalid'],
])('a plugin of %s for %s: %s', (version, resource, problem) => {
  expect(registrationProblem(version, resource)).toBe(problem);
});

it('one that announces itself is judged by its versions and its name', () => {
  expect(announcementProblem(['v1alpha', 'v1beta1'], GPU)).toBe('');
  expect(announcementProblem(['1.0', '2.0'], GPU)).toBe(
    'manager version, v1beta1, is not among plugin supported versions [1.0 2.0]',
  );
  expect(announcementProblem(['v1beta1'], 'x')).toBe(
    'invalid name of device plugin socket: the ResourceName "x" is invalid',
  );
});
