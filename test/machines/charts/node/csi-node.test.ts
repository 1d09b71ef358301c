import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { JsonEvent } from '../../../../src/kernel/json.ts';
import { csiNodeMachine } from '../../../../src/machines/charts/node/csi-node.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';

const INPUT = { nodeName: 'node1', behavior: NEWEST_BEHAVIOR };
const registered = { type: 'node.registered', uid: '<uid:node1>' } as JsonEvent;
const recorded = readFileSync(new URL('../../../golden/pods/cases/node-register/api.ndjson', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((text) => JSON.parse(text) as { path: string; body: Record<string, unknown> })
  .find(({ path }) => path.endsWith('/csinodes'))!.body;

/** The number of the behavior `driversWithoutTopology`. */
const WITHOUT_TOPOLOGY = 19;

const toPlugins = (sent: readonly { readonly to: string }[]) =>
  sent.filter(({ to }) => to === 'parent/pluginManager').map(({ to: _to, ...event }) => event);

it('posts what the recorded kubelet posted, once the Node is there', () => {
  const bodies: unknown[] = [];
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    {
      'kube.get': fail('csinodes "node1" not found', 'NotFound'),
      'kube.create': ({ body }: { body: unknown }) => {
        bodies.push(body);
        return ok(body);
      },
    },
    ['nodeStatus'],
  );
  expect(world.asked()).toEqual([]);
  world.send(registered);
  world.time.advanceTo(world.time.now());
  expect(bodies).toEqual([recorded]);
  expect(world.sent().map((message) => (message as { reports?: unknown }).reports)).toEqual([
    { storageError: 'CSINode is not yet initialized' },
    { storageError: '' },
  ]);
  expect(world.divergence()).toBeNull();
});

it('is content with the `null` by which a real API server says that there are no drivers', () => {
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    {
      'kube.get': fail('csinodes "node1" not found', 'NotFound'),
      'kube.create': ok({ ...recorded, spec: { drivers: null } }),
    },
    ['nodeStatus'],
  );
  world.send(registered);
  world.time.advanceTo(world.time.now());
  expect(world.state()).toBe('initialized');
});

it.each([
  [NEWEST_BEHAVIOR, 'initialized', 1],
  [WITHOUT_TOPOLOGY - 1, 'backingOff', 0],
])('of behavior %i, with the `null` for no topology keys, is %s', (behavior, state, written) => {
  const driver = { name: 'a.csi', nodeID: 'n', topologyKeys: [] };
  const answered = { ...recorded, spec: { drivers: [{ ...driver, topologyKeys: null }] } };
  const answers = { 'kube.get': ok(recorded), 'kube.patch': ok(answered) };
  const world = runUnder(csiNodeMachine, { ...INPUT, behavior }, answers, ['nodeStatus', 'pluginManager']);
  world.send({ type: 'csi.driverRegistered', driver });
  world.send(registered);
  world.time.advanceTo(world.time.now());
  expect(world.state()).toBe(state);
  expect(toPlugins(world.sent())).toHaveLength(written);
});

it('does not ask at once again for what the server did not take', () => {
  let patches = 0;
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    {
      'kube.get': ok({ ...recorded, metadata: { name: 'node1' } }),
      'kube.patch': () => {
        patches += 1;
        return ok({ ...recorded, metadata: { name: 'node1' } });
      },
    },
    ['nodeStatus'],
  );
  world.send(registered);
  world.time.advanceTo(world.time.now() + 10_000);
  expect(patches).toBe(5);
});

it('adds a driver that registers and keeps those of others', () => {
  const others = { ...recorded, spec: { drivers: [{ name: 'other', nodeID: 'o', topologyKeys: null }] } };
  const bodies: unknown[] = [];
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    {
      'kube.get': ok(others),
      'kube.patch': ({ body }: { body: { spec: { drivers: unknown[] } } }) => {
        bodies.push(body);
        return ok({ ...others, spec: { drivers: [...others.spec.drivers, ...body.spec.drivers] } });
      },
    },
    ['nodeStatus', 'pluginManager'],
  );
  world.send(registered);
  world.time.advanceTo(world.time.now());
  const driver = { name: 'csi.example.test', nodeID: 'n', topologyKeys: [], count: 3 };
  world.send({ type: 'csi.driverRegistered', driver });
  world.time.advanceTo(world.time.now());
  expect(bodies).toEqual([
    {
      spec: {
        '$setElementOrder/drivers': [{ name: 'other' }, { name: 'csi.example.test' }],
        drivers: [{ name: 'csi.example.test', nodeID: 'n', topologyKeys: [], allocatable: { count: 3 } }],
      },
    },
  ]);
  expect(world.state()).toBe('initialized');
  expect(toPlugins(world.sent())).toEqual([{ type: 'csi.driversWritten', names: ['csi.example.test'] }]);
});

it('says after four tries that a driver cannot be written, and goes on trying', () => {
  const world = runUnder(csiNodeMachine, INPUT, { 'kube.get': fail('away') }, ['nodeStatus', 'pluginManager']);
  world.send({ type: 'csi.driverRegistered', driver: { name: 'csi.example.test', nodeID: 'n', topologyKeys: [] } });
  world.send(registered);
  world.time.advanceTo(world.time.now() + 1_499);
  expect(toPlugins(world.sent())).toEqual([]);
  world.time.advanceTo(world.time.now() + 2_001);
  const error =
    'error updating CSINode object with CSI driver node info: error updating CSINode: ' +
    'timed out waiting for the condition; caused by: away';
  expect(toPlugins(world.sent())).toEqual([{ type: 'csi.driversUnwritten', names: ['csi.example.test'], error }]);
  world.send({ type: 'csi.driverGone', name: 'csi.example.test' });
  world.time.advanceTo(world.time.now() + 60_000);
  expect(toPlugins(world.sent())).toHaveLength(1);
  expect(world.asked().length).toBeGreaterThan(6);
  expect(world.divergence()).toBeNull();
});

it('tries again for as long as the API server is away', () => {
  const world = runUnder(csiNodeMachine, INPUT, { 'kube.get': fail('away') }, ['nodeStatus']);
  world.send(registered);
  world.time.advanceTo(world.time.now() + 10_000);
  expect(world.asked()).toHaveLength(5);
  expect(world.logged()).toContain('Failed to initialize CSINode');
});

it('takes back the entry of a driver that is gone, and of no other', () => {
  const entry = (name: string) => ({ name, nodeID: 'n', topologyKeys: [] });
  let known = { ...recorded, spec: { drivers: [entry('other'), entry('csi.example.test')] } };
  const bodies: unknown[] = [];
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    {
      'kube.get': () => ok(known),
      'kube.patch': ({ body }: { body: unknown }) => {
        bodies.push(body);
        known = { ...known, spec: { drivers: [entry('other')] } };
        return ok(known);
      },
    },
    ['nodeStatus'],
  );
  world.send(registered);
  world.send({ type: 'csi.driverRegistered', driver: entry('csi.example.test') });
  world.time.advanceTo(world.time.now());
  expect(bodies).toEqual([]);
  world.send({ type: 'csi.driverGone', name: 'csi.example.test' });
  world.time.advanceTo(world.time.now());
  expect(bodies).toEqual([
    {
      spec: {
        '$setElementOrder/drivers': [{ name: 'other' }],
        drivers: [{ $patch: 'delete', name: 'csi.example.test' }],
      },
    },
  ]);
  expect(world.state()).toBe('initialized');
  expect(world.divergence()).toBeNull();
});
