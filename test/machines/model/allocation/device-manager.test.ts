/** The devices of containers, and the requests to their plugins, compared with the Go kubelet's device manager. */

import { describe, expect, it } from 'vitest';
import { deviceCallsMachine } from '../../../../src/machines/charts/pods/allocation/device-calls.ts';
import { deviceHints, unusableDevices, withAnswer } from '../../../../src/machines/model/allocation/device-manager.ts';
import { type Devices, deviceHealth, deviceSetup } from '../../../../src/machines/model/allocation/device-state.ts';
import { type ExclusiveRequest, exclusiveRequests } from '../../../../src/machines/model/allocation/request.ts';
import { assign, type DeviceKnowledge } from '../../../../src/machines/model/allocation/resource-assignment.ts';
import type { Device } from '../../../../src/machines/model/operations/devices.ts';
import type { DeviceHoldings, NumaSet } from '../../../../src/machines/model/operations/grants.ts';
import type { ResourceManagers, TopologyPolicy } from '../../../../src/machines/model/settings/node-settings.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';

const GPU = 'example.com/gpu';
const response = (envs = {}) => ({ envs, mounts: [], devices: [], annotations: {}, cdiDevices: [] });
const device = (id: string, nodes: NumaSet | null = null, isHealthy = true): Device => ({ id, isHealthy, nodes });
const offer = (devices: readonly Device[], prefers = false): Devices => ({ [GPU]: { devices, prefers } });
const request = (container: string, count: number, isInit = false): ExclusiveRequest => ({
  container,
  isInit,
  devices: { [GPU]: count },
});
const held = (...ids: readonly string[]): DeviceHoldings => ({
  x: { [GPU]: { nodes: { '-1': ids }, response: response() } },
});

function give(
  devices: Devices,
  requests: readonly ExclusiveRequest[],
  {
    others = [],
    answers = {},
    managers = {},
    hintsOnAllNodes = false,
  }: { others?: DeviceHoldings[]; managers?: ResourceManagers } & Partial<DeviceKnowledge> = {},
) {
  return assign(
    managers,
    requests,
    others.map((each) => ({ devices: each })),
    { devices, answers, hintsOnAllNodes },
  );
}

/** By container. */
function idsIn(answer: ReturnType<typeof give>): unknown {
  if (!('devices' in answer)) return answer;
  const ids = Object.entries(answer.devices ?? {}).map(([name, own]) => [name, own[GPU]!.nodes]);
  return Object.fromEntries(ids);
}

const refused = (cause: string) => ({
  rejection: { reason: 'UnexpectedAdmissionError', message: `Allocate failed due to ${cause}, which is unexpected` },
});

const FOUR = offer(['a', 'b', 'c', 'd'].map((id) => device(id)));

describe('a pod that starts again with its devices', () => {
  const IMPOSSIBLE = 'cannot allocate unhealthy devices example.com/gpu';
  const noHealthy = refused(`no healthy devices present; ${IMPOSSIBLE}`).rejection;
  it.each<[string, DeviceHoldings, Devices, unknown]>([
    ['may, while they are healthy', held('a', 'b'), FOUR, null],
    ['may, without any', { x: {} }, {}, null],
    ['may not, while their resource is unknown', held('a'), {}, noHealthy],
    ['may not, while no plugin offers them', held('a'), { [GPU]: { devices: [], prefers: false } }, noHealthy],
    [
      'may not, when one is not healthy',
      held('a', 'b'),
      offer([device('a'), device('b', null, false)]),
      refused(`previously allocated devices are no longer healthy; ${IMPOSSIBLE}`).rejection,
    ],
  ])('%s', (_what, holdings, devices, rejection) => {
    expect(unusableDevices(holdings, devices)).toEqual(rejection);
  });
});

describe('a container gets', () => {
  it.each<[string, Devices, number, DeviceHoldings[], unknown]>([
    ['what is free', FOUR, 2, [held('a'), held('c')], { c: { '-1': ['b', 'd'] } }],
    ['nothing that is not healthy', offer([device('a', null, false), device('b')]), 1, [], { c: { '-1': ['b'] } }],
    ['its devices by node', offer([device('a', [1]), device('b', [0, 1])]), 2, [], { c: { 0: ['b'], 1: ['a', 'b'] } }],
    ['nothing where nobody has such devices', {}, 1, [], {}],
    ['nothing when it wants none', FOUR, 0, [], {}],
  ])('%s', (_, devices, count, others, expected) => {
    const answer = give(devices, [request('c', count)], { others });
    expect('rejection' in answer || 'question' in answer ? answer : (idsIn(answer) ?? {})).toEqual(expected);
  });

  it.each<[string, Devices, DeviceHoldings[], string]>([
    [
      'too few are left',
      FOUR,
      [held('a', 'b', 'c')],
      'requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1',
    ],
    [
      'none is healthy',
      offer([device('a', null, false)]),
      [],
      'no healthy devices present; cannot allocate unhealthy devices example.com/gpu',
    ],
    ['the plugin is gone', {}, [held('a')], 'cannot allocate unregistered device example.com/gpu'],
  ])('a refusal where %s', (_, devices, others, cause) => {
    expect(give(devices, [request('c', 2)], { others })).toEqual(refused(cause));
  });

  it('again what init containers had, but not what sidecars have', () => {
    const requests = [request('i', 2, true), request('s', 1), request('a', 2)];
    expect(idsIn(give(FOUR, requests))).toEqual({
      i: { '-1': ['a', 'b'] },
      s: { '-1': ['a'] },
      a: { '-1': ['b', 'c'] },
    });
  });
});

describe('a plugin that prefers', () => {
  const devices = offer(
    ['a', 'b', 'c'].map((id) => device(id)),
    true,
  );
  const question = { resource: GPU, available: ['a', 'b', 'c'], mustInclude: [], size: 2 };

  it('is asked, and its answer is taken as far as it can be', () => {
    const requests = [request('c', 2)];
    expect(give(devices, requests)).toEqual({ question });
    const after = (ids: string[]) => idsIn(give(devices, requests, { answers: withAnswer({}, question, ids) }));
    expect(after(['b', 'c'])).toEqual({ c: { '-1': ['b', 'c'] } });
    expect(after(['c', 'z'])).toEqual({ c: { '-1': ['a', 'c'] } });
    expect(after([])).toEqual({ c: { '-1': ['a', 'b'] } });
  });

  it('is asked again when others took some meanwhile', () => {
    const answers = withAnswer({}, question, ['b', 'c']);
    expect(give(devices, [request('c', 2)], { answers, others: [held('c')] })).toEqual({
      question: { ...question, available: ['a', 'b'] },
    });
  });
});

describe('with a topology manager', () => {
  const placed = offer([device('a', [0]), device('b', [1]), device('c', [1]), device('d', [])]);
  const under = (policy: TopologyPolicy): ResourceManagers => ({
    topology: { policy, scope: 'container', nodes: [0, 1] },
  });

  it.each<[TopologyPolicy, number, unknown]>([
    ['single-numa-node', 1, { c: { 0: ['a'] } }],
    ['single-numa-node', 2, { c: { 1: ['b', 'c'] } }],
    ['restricted', 3, { c: { 0: ['a'], 1: ['b', 'c'] } }],
    ['best-effort', 2, { c: { 1: ['b', 'c'] } }],
  ])('%s gives %i of one place', (policy, count, expected) => {
    expect(idsIn(give(placed, [request('c', count)], { managers: under(policy) }))).toEqual(expected);
  });

  it('refuses what is not in one place, and does not care where plugins do not', () => {
    const managers = under('single-numa-node');
    expect(give(placed, [request('c', 3)], { managers })).toMatchObject({
      rejection: { reason: 'TopologyAffinityError' },
    });
    expect(idsIn(give(FOUR, [request('c', 4)], { managers }))).toEqual({ c: { '-1': ['a', 'b', 'c', 'd'] } });
  });
});

it('hints name only nodes that the machine has and that have devices', () => {
  const devices = offer([device('a', [2]), device('b', [5, 7]), device('c', [])]);
  const inventory = { devices, others: [], answers: {}, nodes: [0, 1, 2, 5] };
  const none = { given: {}, reusable: {} };
  const hint = (preferred: boolean, ...nodes: readonly number[]) => ({ nodes, preferred });
  expect(deviceHints(inventory, none, { [GPU]: 1 })[GPU]).toEqual([hint(true, 2), hint(true, 5), hint(false, 2, 5)]);
  expect(deviceHints({ ...inventory, hintsOnAllNodes: true }, none, { [GPU]: 1 })[GPU]).toHaveLength(12);
});

it('a plugin whose devices have empty lists of nodes has no preference', () => {
  const devices = offer([device('a', []), device('b', null)]);
  const managers: ResourceManagers = { topology: { policy: 'restricted', scope: 'container', nodes: [0, 1] } };
  expect(idsIn(give(devices, [request('c', 1)], { managers }))).toEqual({ c: { '-1': ['a'] } });
  expect(give(devices, [request('c', 1)], { managers, hintsOnAllNodes: true })).toHaveProperty('rejection');
});

it('only limits of extended resources are requests', () => {
  const limits = { cpu: '1', memory: '1Mi', 'hugepages-2Mi': '2Mi', [GPU]: '2', 'kubernetes.io/x': '1', 'b.io/a': '1' };
  const spec = { containers: [{ name: 'c', image: 'i', resources: { limits, requests: { cpu: '1m' } } }] };
  const pod = { metadata: { uid: 'u', name: 'p', namespace: 'n' }, spec };
  expect(exclusiveRequests(pod, {})).toEqual([{ container: 'c', isInit: false, devices: { 'b.io/a': 1, [GPU]: 2 } }]);
});

it('what several plugins say is put together, and the first has a place that two want', () => {
  const of = (name: string) => ({
    nodes: {},
    response: {
      envs: { WHO: name, [name]: '1' },
      mounts: [{ containerPath: '/m', hostPath: `/${name}`, readOnly: true }],
      devices: [{ containerPath: '/dev/x', hostPath: `/dev/${name}`, permissions: 'rw' }],
      annotations: { who: name },
      cdiDevices: ['v/c=1', `v/c=${name}`],
    },
  });
  expect(deviceSetup({ 'z.io/b': of('b'), 'a.io/a': of('a') })).toEqual({
    envs: { WHO: 'a', a: '1', b: '1' },
    mounts: [{ containerPath: '/m', hostPath: '/a', readOnly: true }],
    devices: [{ containerPath: '/dev/x', hostPath: '/dev/a', permissions: 'rw' }],
    annotations: { who: 'a' },
    cdiDevices: ['v/c=1', 'v/c=a', 'v/c=b'],
  });
});

it('a device has the health that its plugin reports, and is healthy without a report', () => {
  const holdings = { c: { [GPU]: { nodes: { 0: ['b'], 1: ['a', 'b'] }, response: response() } } };
  const of = (devices: Devices) => deviceHealth(holdings, devices)['c'];
  const resources = (a: string, b: string) => [
    { resourceID: 'a', health: a },
    { resourceID: 'b', health: b },
  ];
  expect(of({})).toEqual([{ name: GPU, resources: resources('Healthy', 'Healthy') }]);
  expect(of(offer([device('b', null, false)]))).toEqual([{ name: GPU, resources: resources('Healthy', 'Unhealthy') }]);
});

describe('the talk with plugins', () => {
  const call = (container: string) => ({ container, resource: GPU, ids: ['a'] });
  const sent = (world: ReturnType<typeof runUnder>) => world.sent().filter(({ type }) => type.startsWith('devices.'));

  it('asks for one container after the other, and ends with the first refusal', () => {
    const input = { uid: 'u', question: null, calls: [call('x'), call('y')] };
    const good = runUnder(deviceCallsMachine, input, { 'devices.allocate': ok(response({ A: '1' })) });
    const answers = [call('x'), call('y')].map((each) => ({ ...each, response: response({ A: '1' }) }));
    expect(sent(good)).toMatchObject([{ type: 'devices.allocated', uid: 'u', answers }]);
    const bad = runUnder(deviceCallsMachine, input, { 'devices.allocate': fail('rpc error') });
    expect(bad.asked()).toEqual(['devices.allocate']);
    expect(sent(bad)).toMatchObject([{ type: 'devices.refused', uid: 'u', error: 'rpc error' }]);
    expect(good.divergence()).toBeNull();
  });

  it('asks what goes well together, and quotes why not', () => {
    const question = { resource: GPU, available: ['a'], mustInclude: [], size: 1 };
    const input = { uid: 'u', question, calls: [] };
    const good = runUnder(deviceCallsMachine, input, { 'devices.getPreferredAllocation': ok({ ids: ['a'] }) });
    expect(sent(good)).toMatchObject([{ type: 'devices.preferred', uid: 'u', question, ids: ['a'] }]);
    const bad = runUnder(deviceCallsMachine, input, { 'devices.getPreferredAllocation': fail('no') });
    expect(sent(bad)).toMatchObject([
      { type: 'devices.refused', error: 'device plugin GetPreferredAllocation rpc failed with err: no' },
    ]);
  });
});
