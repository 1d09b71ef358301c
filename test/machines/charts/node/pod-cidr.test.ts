import { expect, it } from 'vitest';
import { podCIDRMachine, podCIDROf } from '../../../../src/machines/charts/node/pod-cidr.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';

const known = (spec: object) => ({ type: 'node.known', node: { spec } });

it('tells the runtime each change once', () => {
  const reported: unknown[] = [];
  const answers = { 'cri.updateRuntimeConfig': (asked: unknown) => (reported.push(asked), ok(null)) };
  const world = runUnder(podCIDRMachine, undefined, answers);
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
  const world = runUnder(podCIDRMachine, undefined, answers);
  world.send(known({ podCIDR: '10.1.0.0/24' }));
  world.time.advanceTo(world.time.now() + 60_000);
  expect(world.asked()).toHaveLength(3);
  expect(world.state()).toBe('reported');
});

it('reads the single field of an old Node', () => {
  expect(podCIDROf({ spec: { podCIDR: '10.2.0.0/24' } })).toBe('10.2.0.0/24');
  expect(podCIDROf({})).toBe('');
});
