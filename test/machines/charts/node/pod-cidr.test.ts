import { expect, it } from 'vitest';
import { podCIDRMachine, podCIDROf } from '../../../../src/machines/charts/node/pod-cidr.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';

const NOTHING = { behavior: NEWEST_BEHAVIOR, podCIDR: '' };

/** The inputs of all calls. */
const inputs = (world: ReturnType<typeof runUnder>) =>
  world.records().flatMap((record) => (record.k === 'effect' ? [record.input] : []));

const known = (spec: object) => ({ type: 'node.known', node: { spec } });

it('tells the runtime each change once', () => {
  const reported: unknown[] = [];
  const answers = { 'cri.updateRuntimeConfig': (asked: unknown) => (reported.push(asked), ok(null)) };
  const world = runUnder(podCIDRMachine, NOTHING, answers);
  for (const podCIDRs of [[], ['10.1.0.0/24'], ['10.1.0.0/24'], ['10.1.0.0/24', 'fd00::/64']]) {
    world.send(known({ podCIDRs }));
    world.time.advanceTo(world.time.now());
  }
  expect(reported).toEqual([{ podCIDR: '10.1.0.0/24' }, { podCIDR: '10.1.0.0/24,fd00::/64' }]);
  expect(world.divergence()).toBeNull();
});

it('tells it again until the runtime took it', () => {
  let refusals = 2;
  const answers = { 'cri.updateRuntimeConfig': () => (refusals-- > 0 ? fail('busy') : ok(null)) };
  const world = runUnder(podCIDRMachine, NOTHING, answers);
  world.send(known({ podCIDR: '10.1.0.0/24' }));
  world.time.advanceTo(world.time.now() + 60_000);
  expect(world.asked()).toHaveLength(3);
  expect(world.state()).toBe('reported');
});

it('reads the single field of an old Node', () => {
  expect(podCIDROf({ spec: { podCIDR: '10.2.0.0/24' } })).toBe('10.2.0.0/24');
  expect(podCIDROf({})).toBe('');
});

it.each([
  ['without a Node', []],
  ['with a Node without CIDRs', [known({})]],
])('tells the runtime the configured CIDR until it took it: %s', (_, events) => {
  let refusals = 1;
  const answers = { 'cri.updateRuntimeConfig': () => (refusals-- > 0 ? fail('busy') : ok(null)) };
  const world = runUnder(podCIDRMachine, { ...NOTHING, podCIDR: '10.3.0.0/24' }, answers);
  for (const event of events) world.send(event);
  world.time.advanceTo(world.time.now() + 60_000);
  expect(inputs(world)).toEqual([{ podCIDR: '10.3.0.0/24' }, { podCIDR: '10.3.0.0/24' }]);
});

it('prefers the CIDRs of the Node to the configured one', () => {
  const world = runUnder(
    podCIDRMachine,
    { ...NOTHING, podCIDR: '10.3.0.0/24' },
    { 'cri.updateRuntimeConfig': ok(null) },
  );
  world.send(known({ podCIDRs: ['10.1.0.0/24'] }));
  world.time.advanceTo(world.time.now());
  expect(inputs(world)).toEqual([{ podCIDR: '10.3.0.0/24' }, { podCIDR: '10.1.0.0/24' }]);
});

it('of an earlier node has only the CIDRs of the Node', () => {
  const before = { behavior: 0, podCIDR: '10.3.0.0/24' };
  const world = runUnder(podCIDRMachine, before, { 'cri.updateRuntimeConfig': ok(null) });
  world.send(known({}));
  expect(world.asked()).toEqual([]);
});
