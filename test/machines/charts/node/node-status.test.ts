/** Proves O1 to O3: what is reported about the node, when, and that nothing is reported twice. */
import { describe, expect, it } from 'vitest';
import { nodeStatusMachine } from '../../../../src/machines/charts/node/node-status.ts';
import {
  NOTHING_REPORTED,
  type NodeFacts,
  type NodeReports,
} from '../../../../src/machines/charts/node/object/facts.ts';
import { newNode, nodeStatus } from '../../../../src/machines/charts/node/object/node.ts';
import type { Node } from '../../../../src/machines/model/api/pod.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { fail, late, ok, runUnder } from '../../../support/answering-world.ts';
import { nodeBefore } from '../pods/support.ts';

const facts: NodeFacts = {
  nodeName: 'node1',
  hostname: 'node1',
  addresses: [{ type: 'Hostname', address: 'node1' }],
  info: { architecture: 'amd64', operatingSystem: 'linux', bootID: 'boot-2' } as NodeFacts['info'],
  port: 10250,
  labels: {},
  taints: [],
  providerID: '',
  externalCloud: false,
  providedNodeIP: '',
  enableControllerAttachDetach: true,
  declaredFeatures: [],
};
const capacity = { cpu: '2', memory: '1Gi', pods: '110', 'ephemeral-storage': '1Gi' };
const input = {
  facts,
  behavior: NEWEST_BEHAVIOR,
  reports: { capacity, allocatable: capacity },
  register: true,
  updateFrequencyMs: 10_000,
  reportFrequencyMs: 300_000,
  maxImages: 50,
};
const READY: Partial<NodeReports> = { runtimeErrors: [], storageError: '' };
const reported = (reports: Partial<NodeReports>) => ({ type: 'node.reported', reports });
const siblings = [
  'deviceManager',
  'eviction',
  'runtimeState',
  'eventRecorder',
  'lease',
  'csiNode',
  'allocation',
  'podCIDR',
  'objects',
];

type Patch = { readonly status?: Record<string, unknown> };

/** An API server that stores one Node and merges the fields that the tests compare. */
function cluster(existing: Node | null, watchMs: number) {
  const patches: Patch[] = [];
  let [refusals, patchMs] = [0, 0];
  let node = existing;
  const merged = (patch: Patch): Node => {
    const { conditions: changed = [], addresses, ...others } = patch.status ?? {};
    const replaced = (addresses as NodeFacts['addresses'] | undefined)?.filter((each) => !('$patch' in each));
    const fields = { ...others, ...(replaced === undefined ? {} : { addresses: replaced }) };
    const conditions = new Map((node!.status?.conditions ?? []).map((condition) => [condition.type, condition]));
    for (const each of changed as NonNullable<NonNullable<Node['status']>['conditions']>) {
      conditions.set(each.type, { ...conditions.get(each.type), ...each });
    }
    return { ...node!, status: { ...node!.status, ...fields, conditions: [...conditions.values()] } };
  };
  const answers = {
    'kube.create': ({ body }: { body: Node }) => {
      if (node) return fail('nodes "node1" already exists', 'AlreadyExists');
      node = { ...body, metadata: { ...body.metadata, uid: 'u1' } };
      return ok(node);
    },
    'kube.get': () => ok(node),
    'kube.patch': ({ body }: { body: Patch }) => {
      if (node === null) return fail('nodes "node1" not found', 'NotFound');
      if (refusals-- > 0) return fail('etcdserver: leader changed');
      patches.push(body);
      if (patchMs > 0) return late(patchMs, ok(merged(body)));
      node = merged(body);
      return ok(node);
    },
    'kube.list': () => ok({ items: node === null ? [] : [node], resourceVersion: '5', continue: '' }),
    'kube.watch': () => (watchMs === 0 ? ('stream' as const) : late(watchMs, fail('too old', 'Expired'))),
    'cri.watchImages': 'stream' as const,
  };
  const put = (now: Node | null) => void (node = now);
  return {
    answers,
    patches,
    put,
    node: () => node,
    refuse: (times: number) => void (refusals = times),
    delay: (ms: number) => void (patchMs = ms),
  };
}

/** `watchMs`: the duration of watches, which then end because the version is too old; 0: they do not end. */
function start(existing: Node | null = null, watchMs = 0, given: Partial<typeof input> = {}) {
  const api = cluster(existing, watchMs);
  const run = runUnder(nodeStatusMachine, { ...input, ...given }, api.answers, siblings);
  const settle = (ms = 0) => run.time.advanceTo(run.time.now() + ms);
  settle();
  const events = () =>
    run.sent().flatMap((message) => {
      const { type, reason } = message as unknown as { type: string; reason: string };
      return type === 'event.recorded' ? [reason] : [];
    });
  return { ...run, ...api, settle, events };
}

const amounts = (run: ReturnType<typeof start>) => {
  const { capacity: all = {}, allocatable = {} } = run.node()!.status!;
  return [all['example.com/gpu'], allocatable['example.com/gpu']];
};
const withGpus = (): Node => {
  const status = nodeStatus(facts, { ...NOTHING_REPORTED, ...input.reports, ...READY }, {}, 0);
  const own = { ...capacity, 'example.com/gpu': '4' };
  return { ...newNode(facts, { ...status, capacity: own, allocatable: own }), metadata: { name: 'node1', uid: 'u1' } };
};

it('resources of a machine that was replaced are zero, until another client advertises them again', () => {
  const run = start(withGpus());
  run.send(reported({ deviceCapacity: {}, deviceAllocatable: {}, isRecreated: true }));
  run.send(reported(READY));
  run.settle();
  expect(amounts(run)).toEqual(['0', '0']);
  run.put({ ...run.node()!, status: withGpus().status! });
  run.emit('kube.watch', { type: 'watch.changed', change: 'MODIFIED', object: run.node()! });
  run.settle(60_000);
  expect(amounts(run)).toEqual(['4', '4']);
  expect(run.divergence()).toBeNull();
});

it('resources of the old machine that the new one has, too, keep their amounts', () => {
  const run = start(withGpus());
  const devices = { 'example.com/gpu': '2' };
  run.send(reported({ deviceCapacity: devices, deviceAllocatable: devices, isRecreated: true }));
  run.send(reported(READY));
  run.settle(10_000);
  expect(amounts(run)).toEqual(['2', '2']);
  run.send(reported({ deviceCapacity: {}, deviceAllocatable: {} }));
  run.settle(60_000);
  expect(amounts(run)).toEqual(['0', '0']);
  expect(run.divergence()).toBeNull();
});

it('asks for the reports of devices and pressure at its start; a node of 0.2.0 did not', () => {
  const asked = (behavior: number) => {
    const run = start(null, 0, { behavior });
    return run.sent().flatMap(({ type }) => (/(amounts|conditions)Wanted$/.test(type) ? [type] : []));
  };
  expect(asked(NEWEST_BEHAVIOR)).toEqual(['devices.amountsWanted', 'eviction.conditionsWanted']);
  expect(asked(nodeBefore('managersAsKubelet'))).toEqual([]);
});

it('reports other addresses of the machine with the next period', () => {
  const run = start();
  run.send(reported(READY));
  run.settle(60_000);
  const before = run.patches.length;
  const addresses = [
    { type: 'InternalIP', address: '192.0.2.99' },
    { type: 'Hostname', address: 'node1' },
  ];
  run.send({ type: 'node.addressed', addresses });
  run.settle(10_000);
  expect(run.patches.slice(before).map(({ status }) => status!['addresses'])).toEqual([
    [...addresses, { $patch: 'replace' }],
  ]);
  expect(run.divergence()).toBeNull();
});

it.each([
  ['where a cloud provider sets them', true, NEWEST_BEHAVIOR, ['192.0.2.7', '192.0.2.8']],
  ['only there', false, NEWEST_BEHAVIOR, []],
  ['not in an earlier journal', true, nodeBefore('configurationAsKubelet'), []],
])('tells the addresses of the Node for pods: %s', (_, externalCloud, behavior, expected) => {
  const existing = newNode(facts, {});
  const at = (address: string) => ({ ...existing, status: { addresses: [{ type: 'InternalIP', address }] } });
  const run = start(at('192.0.2.7'), 0, { behavior, facts: { ...facts, externalCloud } });
  run.send(reported(READY));
  run.settle(1);
  for (const address of ['192.0.2.8', '192.0.2.8']) {
    run.put(at(address));
    run.emit('kube.watch', { type: 'watch.changed', change: 'MODIFIED', object: at(address) });
  }
  run.settle(1);
  const told = run.sent().flatMap((message) => {
    const { type, hostAddresses = [] } = message as { type: string; hostAddresses?: { address: string }[] };
    return type === 'hostAddresses.changed' ? hostAddresses.map(({ address }) => address) : [];
  });
  expect(told).toEqual(expected);
});

it('registers, tells who waits for that, and says when it is ready, at once', () => {
  const run = start();
  run.send(reported(READY));
  run.settle();
  expect(run.patches.at(-1)!.status!.conditions).toMatchObject([{ type: 'Ready', reason: 'KubeletReady' }]);
  expect(run.events()).toEqual([
    'NodeHasSufficientMemory',
    'NodeHasNoDiskPressure',
    'NodeHasSufficientPID',
    'NodeReady',
  ]);
  expect(run.sent()).toContainEqual({ to: 'parent/lease', type: 'node.registered', uid: 'u1' });
  expect(run.divergence()).toBeNull();
});

it('says once that it is ready, also if the Node changes before that is written, and again after it was not', () => {
  const run = start();
  run.delay(5);
  run.send(reported(READY));
  const label = (x: string) => ({ ...run.node()!, metadata: { ...run.node()!.metadata, labels: { x } } });
  for (const x of ['1', '2']) {
    run.settle(1);
    run.emit('kube.watch', { type: 'watch.changed', change: 'MODIFIED', object: label(x) });
  }
  run.settle(5);
  expect(run.patches).toHaveLength(3);
  expect(run.events().filter((reason) => reason === 'NodeReady')).toHaveLength(1);
  for (const storageError of ['gone', '']) {
    run.send(reported({ storageError }));
    run.settle(10);
  }
  expect(run.events().slice(-3)).toEqual(['NodeReady', 'NodeNotReady', 'NodeReady']);
  expect(run.divergence()).toBeNull();
});

describe('a Node that is under pressure when an agent begins', () => {
  const short = (): Node => ({
    ...newNode(facts, {}),
    metadata: { name: 'node1', uid: 'u1' },
    status: { conditions: [{ type: 'DiskPressure', status: 'True', reason: 'KubeletHasDiskPressure' }] },
  });
  const pressure = (run: ReturnType<typeof start>) =>
    run.node()?.status?.conditions?.find(({ type }) => type === 'DiskPressure')?.status;

  it('stays so until eviction sees otherwise', () => {
    const run = start(short(), 60_000);
    run.send(reported(READY));
    run.settle(5_000);
    expect(run.events()).toContain('NodeHasDiskPressure');
    expect(run.events()).not.toContain('NodeHasNoDiskPressure');
    expect(pressure(run)).toBe('True');
    run.send({ type: 'eviction.conditions', conditions: ['DiskPressure'] });
    run.settle(30_000);
    expect(pressure(run)).toBe('True');
    run.send({ type: 'eviction.conditions', conditions: [] });
    run.settle();
    expect(pressure(run)).toBe('False');
    expect(run.divergence()).toBeNull();
  });

  it('is free of it when eviction sees none in time', () => {
    const run = start(short(), 60_000);
    run.send(reported(READY));
    run.settle(9_000);
    expect(pressure(run)).toBe('True');
    run.settle(2_000);
    expect(pressure(run)).toBe('False');
    expect(run.events().at(-1)).toBe('NodeHasNoDiskPressure');
    expect(run.divergence()).toBeNull();
  });
});

it('tells objects its labels and how long they are good enough, when that changed', () => {
  const noted = (annotations: Record<string, string>): Node => ({
    ...newNode(facts, {}),
    metadata: { name: 'node1', labels: { a: 'b' }, annotations },
  });
  const run = start(noted({ other: 'x' }), 60_000);
  run.send(reported(READY));
  run.settle();
  run.put(noted({ other: 'y', 'node.alpha.kubernetes.io/ttl': '300' }));
  run.settle(120_000);
  const sent = run.sent().flatMap((message) => {
    const { type, objectTtl } = message as unknown as { type: string; objectTtl: string | null };
    return type === 'node.labels' ? [objectTtl] : [];
  });
  expect(sent).toEqual([null, '300']);
});

it('tells other news with the next period, and time alone every five minutes', () => {
  const run = start();
  run.send(reported(READY));
  run.settle();
  const before = run.patches.length;
  run.emit('cri.watchImages', {
    type: 'images.changed',
    images: [{ id: 'i', repo_tags: ['a:1'], repo_digests: [], size: '5' }],
  });
  run.settle(9_000);
  expect(run.patches).toHaveLength(before);
  run.settle(1_000);
  expect(run.patches.slice(before).map(({ status }) => status!.images)).toEqual([[{ names: ['a:1'], sizeBytes: 5 }]]);
  run.settle(149_000);
  expect(run.patches).toHaveLength(before + 1);
  run.settle(301_000);
  expect(run.patches.length).toBeGreaterThan(before + 1);
  expect(run.divergence()).toBeNull();
});

const sent = { ...NOTHING_REPORTED, capacity, allocatable: capacity, runtimeErrors: [], storageError: '' };
const existing = (bootID: string): Node => {
  const made = newNode(facts, nodeStatus({ ...facts, info: { ...facts.info, bootID } }, sent, {}, 900_000));
  return { ...made, metadata: { ...made.metadata, uid: 'u1' } };
};

const OWN_CONDITIONS = ['NodeHasSufficientMemory', 'NodeHasNoDiskPressure', 'NodeHasSufficientPID'];

it('after a restart publishes nothing of what did not change, and says how pressure is', () => {
  const run = start(existing('boot-2'));
  expect(run.events()).toEqual(OWN_CONDITIONS);
  run.settle(5_000);
  run.send(reported(READY));
  run.settle(5_000);
  expect(run.patches).toEqual([]);
  run.settle(300_000);
  expect(run.patches).toHaveLength(1);
  expect(run.events()).toEqual(OWN_CONDITIONS);
});

it('after a restart stays ready while only the first relist is missing, for thirty seconds', () => {
  const relisting = reported({ ...READY, runtimeErrors: ['PLEG is not healthy: pleg has yet to be successful'] });
  const run = start(existing('boot-2'));
  run.send(relisting);
  run.settle(20_000);
  expect(run.patches).toEqual([]);
  run.send(reported(READY));
  run.settle(5_000);
  expect(run.events()).toEqual(OWN_CONDITIONS);
  const late = start(existing('boot-2'));
  late.send(relisting);
  late.settle(31_000);
  expect(late.events()).toEqual([...OWN_CONDITIONS, 'NodeNotReady']);
  const down = start(existing('boot-2'));
  down.send(reported({ ...READY, runtimeErrors: ['container runtime is down: gone'] }));
  down.settle();
  expect(down.events()).toEqual([...OWN_CONDITIONS, 'NodeNotReady']);
  for (const each of [run, late, down]) expect(each.divergence()).toBeNull();
});

it('gives back labels and conditions that others took, and says that the conditions are as they were', () => {
  const run = start();
  run.send(reported(READY));
  run.settle(1_000);
  // The watch delivers the published Node before the answer.
  run.emit('kube.watch', { type: 'watch.changed', change: 'MODIFIED', object: run.node()! });
  run.settle(1_000);
  const [known, sentBefore, said] = [run.node()!, run.patches.length, run.events().length];
  const { 'kubernetes.io/os': _os, ...labels } = known.metadata!.labels!;
  const conditions = [{ ...known.status!.conditions!.find(({ type }) => type === 'Ready')!, status: 'Unknown' }];
  const changed = { ...known, metadata: { ...known.metadata, labels }, status: { ...known.status, conditions } };
  run.put(changed);
  run.emit('kube.watch', { type: 'watch.changed', change: 'MODIFIED', object: changed });
  run.settle(12_000);
  expect(run.patches[sentBefore]).toMatchObject({ metadata: { labels: { 'kubernetes.io/os': 'linux' } } });
  expect(run.events().slice(said).toSorted()).toEqual([...OWN_CONDITIONS, 'NodeReady'].toSorted());
});

it('leaves what others advertise as it is, and as much of it can be had', () => {
  const before = existing('boot-2');
  const dongles = { 'example.com/dongle': '4' };
  const run = start({ ...before, status: { ...before.status, capacity: { ...capacity, ...dongles } } });
  run.send(reported(READY));
  run.settle(10_000);
  const [{ status }] = run.patches as [Patch];
  expect(status).not.toHaveProperty('capacity');
  expect(status!.allocatable).toEqual(dongles);
});

it('keeps a resource at zero whose plugin is gone', () => {
  const run = start(existing('boot-2'));
  const gpus = { 'example.com/gpu': '2' };
  run.send(reported({ ...READY, deviceCapacity: gpus, deviceAllocatable: gpus }));
  run.settle(10_000);
  expect(run.patches.at(-1)!.status).toMatchObject({ capacity: gpus, allocatable: gpus });
  run.send(reported({ deviceCapacity: {}, deviceAllocatable: {} }));
  run.settle(10_000);
  const none = { 'example.com/gpu': '0' };
  expect(run.patches.at(-1)!.status).toMatchObject({ capacity: none, allocatable: none });
});

it('reports that the machine was rebooted, and that the node was cordoned', () => {
  const run = start(existing('boot-1'));
  expect(run.events()).toEqual(['Rebooted', ...OWN_CONDITIONS]);
  run.send(reported(READY));
  run.settle();
  const closed = { ...existing('boot-2'), spec: { unschedulable: true } };
  run.emit('kube.watch', { type: 'watch.changed', change: 'MODIFIED', object: closed });
  expect(run.events().at(-1)).toBe('NodeNotSchedulable');
});

it('tries a report five times and then waits for the next period', () => {
  const run = start();
  run.send(reported(READY));
  run.settle();
  run.refuse(5);
  run.send(reported({ diskPressure: true }));
  run.settle();
  expect(run.logged().filter((text) => text === 'Error updating node status, will retry')).toHaveLength(4);
  expect(run.logged().at(-1)).toBe('Unable to update node status');
  run.settle(10_000);
  expect(run.patches.at(-1)!.status!.conditions).toContainEqual(
    expect.objectContaining({ type: 'DiskPressure', status: 'True' }),
  );
});

it('a deleted Node is not created again: its status is tried with each period', () => {
  const run = start();
  run.send(reported(READY));
  run.settle();
  run.put(null);
  run.emit('kube.watch', { type: 'watch.changed', change: 'DELETED', object: { metadata: { name: 'node1' } } });
  const told = run.events();
  run.send(reported({ diskPressure: true }));
  run.settle(10_000);
  expect(run.events()).toEqual(told);
  const problems = () => run.records().flatMap((record) => (record.k === 'log' ? [record.fields?.['err']] : []));
  expect(problems().filter((err) => err === 'error getting node "node1": nodes "node1" not found')).toHaveLength(4);
  expect(run.logged().at(-1)).toBe('Unable to update node status');
  run.settle(10_000);
  expect(run.logged().filter((text) => text === 'Unable to update node status')).toHaveLength(2);
  expect(run.asked().filter((name) => name === 'kube.create')).toHaveLength(1);
  const again = { metadata: { name: 'node1', uid: 'u2', resourceVersion: '9' } };
  run.put(again);
  run.emit('kube.watch', { type: 'watch.changed', change: 'ADDED', object: again });
  run.settle();
  expect(run.patches.at(-1)!.status!.conditions).toContainEqual(expect.objectContaining({ type: 'Ready' }));
  expect(run.sent().filter(({ to }) => to === 'parent/lease')).toEqual([
    { to: 'parent/lease', type: 'node.registered', uid: 'u1' },
    { to: 'parent/lease', type: 'node.gone' },
    { to: 'parent/lease', type: 'node.registered', uid: 'u2' },
  ]);
  expect(run.divergence()).toBeNull();
});

it('a Node that was deleted while no watch was open is not created again either', () => {
  const run = start(null, 5_000);
  run.send(reported(READY));
  run.settle();
  run.put(null);
  run.settle(30_000);
  expect(run.logged()).toContain('Unable to update node status');
  expect(run.asked().filter((name) => name === 'kube.create')).toHaveLength(1);
});
