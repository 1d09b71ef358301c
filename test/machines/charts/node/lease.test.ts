import { expect, it } from 'vitest';
import { leaseMachine, microTime } from '../../../../src/machines/charts/node/lease.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';

const input = { behavior: NEWEST_BEHAVIOR, nodeName: 'node1', durationSeconds: 40 };

interface LeaseBody {
  readonly metadata: { readonly resourceVersion?: string; readonly ownerReferences?: unknown };
  readonly spec: { readonly renewTime: string; readonly holderIdentity: string; readonly leaseDurationSeconds: number };
}

/** An API server that stores one lease. */
function leaseStore(existing: LeaseBody | null = null) {
  let lease = existing;
  let version = 1;
  const writes: LeaseBody[] = [];
  const put = ({ body }: { body: LeaseBody }) => {
    version += 1;
    lease = { ...body, metadata: { ...body.metadata, resourceVersion: String(version) } };
    writes.push(body);
    return ok(lease);
  };
  const answers = {
    'kube.get': () => (lease ? ok(lease) : fail('leases "node1" not found', 'NotFound')),
    'kube.create': put,
    'kube.update': put,
  };
  return { answers, writes };
}

it('makes the lease when there is none, and renews it four times in its life', () => {
  const { answers, writes } = leaseStore();
  const world = runUnder(leaseMachine, input, answers);
  expect(world.asked()).toEqual(['kube.get', 'kube.create']);
  expect(writes[0]!.spec).toEqual({
    holderIdentity: 'node1',
    leaseDurationSeconds: 40,
    renewTime: microTime(1_000_000),
  });
  world.time.advanceTo(1_000_000 + 42_000);
  expect(world.asked().filter((name) => name === 'kube.update')).toHaveLength(4);
  expect(world.divergence()).toBeNull();
});

it('keeps an owner that is there, and names the Node once it is known', () => {
  const { answers, writes } = leaseStore();
  const world = runUnder(leaseMachine, input, answers);
  world.send({ type: 'node.registered', uid: 'u1' });
  world.time.advanceTo(1_000_000 + 11_000);
  expect(writes.at(-1)!.metadata.ownerReferences).toEqual([
    { apiVersion: 'v1', kind: 'Node', name: 'node1', uid: 'u1' },
  ]);
});

it.each([
  ['leaves the holder of a lease that is there', NEWEST_BEHAVIOR, 'someone'],
  ['held it itself, as 0.2.0 did', 0, 'node1'],
])('%s', (_, behavior, holder) => {
  const spec = { holderIdentity: 'someone', leaseDurationSeconds: 7, renewTime: microTime(0) };
  const { answers, writes } = leaseStore({ metadata: { resourceVersion: '1' }, spec });
  runUnder(leaseMachine, { ...input, behavior }, answers);
  expect(writes.at(-1)!.spec).toMatchObject({ holderIdentity: holder, leaseDurationSeconds: 40 });
});

it('reads again after a conflict and makes a deleted lease again', () => {
  const { answers } = leaseStore();
  const codes = ['Conflict', 'NotFound'];
  const refusing = {
    ...answers,
    'kube.update': (asked: { body: LeaseBody }) => {
      const code = codes.shift();
      return code ? fail('refused', code) : answers['kube.update'](asked);
    },
  };
  const world = runUnder(leaseMachine, input, refusing);
  world.time.advanceTo(1_000_000 + 11_000);
  expect(world.asked()).toEqual(['kube.get', 'kube.create', 'kube.update', 'kube.get', 'kube.update', 'kube.create']);
  expect(world.state()).toBe('holding');
});

it('tries five times at once, then with the next period, for ever', () => {
  const { answers } = leaseStore();
  const refusing = { 'kube.update': fail('the lease is locked'), 'kube.closeConnections': ok(null) };
  const world = runUnder(leaseMachine, input, { ...answers, ...refusing });
  const count = (operation: string) => world.asked().filter((name) => name === operation).length;
  world.time.advanceTo(1_000_000 + 11_000);
  // Five renewals of the created lease, then five of the lease that was read.
  expect([count('kube.update'), count('kube.get')]).toEqual([10, 2]);
  expect(world.logged().at(-1)).toBe('Failed to update lease using latest lease, fallback to ensure lease');
  world.time.advanceTo(1_000_000 + 22_000);
  expect([count('kube.update'), count('kube.get')]).toEqual([20, 3]);
  expect(world.divergence()).toBeNull();
});

it.each([
  ['renews it as soon as the API server answers again', NEWEST_BEHAVIOR, 7_000],
  ['renewed it with the next period, as 0.2.0 did', 0, 11_000],
])('%s', (_, behavior, withinMs) => {
  const { answers, writes } = leaseStore();
  let isAway = false;
  const away = fail('connect ECONNREFUSED', 'ECONNREFUSED');
  const world = runUnder(
    leaseMachine,
    { ...input, behavior },
    {
      ...answers,
      'kube.get': () => (isAway ? away : answers['kube.get']()),
      'kube.update': (asked: { body: LeaseBody }) => (isAway ? away : answers['kube.update'](asked)),
      'kube.closeConnections': ok(null),
    },
  );
  isAway = true;
  world.time.advanceTo(1_000_000 + 31_000);
  isAway = false;
  const before = writes.length;
  world.time.advanceTo(1_000_000 + 31_000 + withinMs);
  expect(writes.length).toBeGreaterThan(before);
  expect(world.divergence()).toBeNull();
});

it('waits longer and longer while the API server is away', () => {
  const world = runUnder(leaseMachine, input, { 'kube.get': fail('connect ECONNREFUSED', 'ECONNREFUSED') });
  world.time.advanceTo(1_000_000 + 60_000);
  // Pauses of 100, 200, ... 6,400 and then 7,000 ms: 7 attempts in the first 12.7 s, then one every 7 s.
  expect(world.asked()).toHaveLength(14);
});

it('is not made while there is no Node, and belongs to the one that is made again', () => {
  const { answers, writes } = leaseStore();
  let isGone = false;
  const collected = {
    ...answers,
    'kube.get': () => (isGone ? fail('leases "node1" not found', 'NotFound') : answers['kube.get']()),
    'kube.update': (asked: { body: LeaseBody }) =>
      isGone ? fail('leases "node1" not found', 'NotFound') : answers['kube.update'](asked),
  };
  const world = runUnder(leaseMachine, input, collected);
  world.send({ type: 'node.registered', uid: 'u1' });
  world.send({ type: 'node.gone' });
  isGone = true;
  world.time.advanceTo(1_000_000 + 60_000);
  expect(world.state()).toBe('withoutNode');
  expect(world.asked().filter((name) => name === 'kube.create')).toHaveLength(1);
  expect(world.logged()).toContain('Failed to get node when trying to set owner ref to the node lease');
  world.send({ type: 'node.registered', uid: 'u2' });
  isGone = false;
  world.time.advanceTo(1_000_000 + 60_000);
  expect(world.asked().filter((name) => name === 'kube.create')).toHaveLength(2);
  expect(writes.at(-1)!.metadata.ownerReferences).toMatchObject([{ uid: 'u2' }]);
  expect(world.divergence()).toBeNull();
});
