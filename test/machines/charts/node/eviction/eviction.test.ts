/** Proves E1 to E4 of the eviction manager. */

import { describe, expect, it } from 'vitest';
import { evictionMachine } from '../../../../../src/machines/charts/node/eviction/eviction.ts';
import type { NodePod } from '../../../../../src/machines/model/eviction/ranking.ts';
import type {
  EvictionSignal,
  EvictionThreshold,
  Observations,
  PodUse,
} from '../../../../../src/machines/model/operations/stats.ts';
import type { EvictionSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { type Answers, fail, ok, runUnder } from '../../../../support/answering-world.ts';
import { settings as node } from '../../../../support/pods-node.ts';

const MEBIBYTE = 1024 * 1024;
const SIBLINGS = ['pods', 'nodeStatus', 'allocation', 'eventRecorder', 'containerGC', 'imageGC'];

const hard = (signal: EvictionSignal, quantity: string, minReclaim?: string): EvictionThreshold => ({
  signal,
  value: { quantity },
  graceMs: 0,
  minReclaim: minReclaim === undefined ? null : { quantity: minReclaim },
});

const settings = (thresholds: readonly EvictionThreshold[], more: Partial<EvictionSettings> = {}) => ({
  ...node,
  eviction: { thresholds, transitionMs: 300_000, maxPodGraceSeconds: 7, localStorage: true, ...more },
});

const observed = (signal: EvictionSignal, available: number, capacity = 16_384 * MEBIBYTE): Observations => ({
  [signal]: { available: String(available), capacity: String(capacity) },
});

const pod = (name: string, more: Partial<NodePod> = {}): NodePod => ({
  name,
  namespace: 'ns',
  priority: 0,
  isCritical: false,
  graceSeconds: 30,
  requests: { memory: '0', 'ephemeral-storage': '0' },
  podMemoryRequest: null,
  containerRequests: { c: {} },
  localVolumes: [],
  storage: null,
  ...more,
});

const use = (uid: string, mebibytes: number): PodUse => ({
  uid,
  workingSetBytes: String(mebibytes * MEBIBYTE),
  processes: '1',
  containers: [{ name: 'c', workingSetBytes: String(mebibytes * MEBIBYTE), rootfs: null, logs: null }],
  volumes: {},
});

function start(
  thresholds: readonly EvictionThreshold[],
  answers: Answers = {},
  more: Partial<EvictionSettings> = {},
  behavior = node.behavior,
) {
  const world: Answers = {
    'stats.diskLayout': ok({ dedicatedImageFs: false, splitContainerFs: false }),
    'stats.watchSignals': 'stream',
    'stats.watchStorage': 'stream',
    ...answers,
  };
  const run = runUnder(evictionMachine, { ...settings(thresholds, more), behavior }, world, SIBLINGS);
  const sentTo = (id: string) => run.sent().filter(({ to }) => to === `parent/${id}`);
  return {
    ...run,
    add: (uid: string, facts: NodePod | null) => run.send({ type: 'node.podChanged', uid, pod: facts }),
    free: (uid: string) => run.send({ type: 'node.podChanged', uid, pod: null, isReclaimed: true }),
    see: (observations: Observations) => run.emit('stats.watchSignals', { type: 'signals.changed', observations }),
    kills: () => sentTo('pods').filter(({ type }) => type === 'pods.kill'),
    killed: () => sentTo('pods').flatMap((message) => ('uid' in message ? [message.uid] : [])),
    events: () => sentTo('eventRecorder'),
    conditions: () => sentTo('nodeStatus').map((message) => (message as { conditions?: string[] }).conditions),
    pass: (ms: number) => run.time.advanceTo(run.time.now() + ms),
  };
}

const LOW = observed('memory.available', 50 * MEBIBYTE);
const ENOUGH = observed('memory.available', 900 * MEBIBYTE);

it('reports its first observation also without a shortage: an earlier start may have reported one', () => {
  const conditions = (behavior?: number) => {
    const run = start([hard('memory.available', '100Mi')], {}, {}, behavior);
    for (let times = 0; times < 2; times++) run.see(ENOUGH);
    expect(run.divergence()).toBeNull();
    return run.conditions();
  };
  expect(conditions()).toEqual([[]]);
  expect(conditions(2)).toEqual([]);
});

it('reports its conditions again on request, once it knows them', () => {
  const run = start([hard('memory.available', '100Mi')], { 'stats.observe': 'stream' });
  run.send({ type: 'eviction.conditionsWanted' });
  expect(run.conditions()).toEqual([]);
  run.see(LOW);
  run.send({ type: 'eviction.conditionsWanted' });
  expect(run.conditions()).toEqual([['MemoryPressure'], ['MemoryPressure']]);
  expect(run.divergence()).toBeNull();
});

describe('memory', () => {
  it('the pod that exceeds its request most is evicted at once, and the reason is published', () => {
    const observations = [LOW, ENOUGH];
    const run = start([hard('memory.available', '100Mi')], {
      'stats.observe': () => ok({ observations: observations.shift() ?? ENOUGH, pods: [use('a', 100), use('b', 300)] }),
    });
    run.add('a', pod('a'));
    run.add(
      'b',
      pod('b', {
        requests: { memory: String(64 * MEBIBYTE), 'ephemeral-storage': '0' },
        containerRequests: { c: { memory: '64Mi' } },
      }),
    );
    run.see(LOW);
    run.pass(0);
    expect(run.conditions()).toEqual([['MemoryPressure']]);
    expect(run.sent()).toContainEqual({
      to: 'parent/allocation',
      type: 'node.pressed',
      pressures: ['MemoryPressure'],
    });
    const message =
      'The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ' +
      'Container c was using 300Mi, request is 64Mi, has larger consumption of memory. ';
    expect(run.kills()).toEqual([
      {
        to: 'parent/pods',
        type: 'pods.kill',
        uid: 'b',
        graceSeconds: 1,
        verdict: { reason: 'Evicted', message, published: 'once', disruptionTarget: true },
      },
    ]);
    expect(run.events()).toMatchObject([
      { ref: { kind: 'Node' }, reason: 'EvictionThresholdMet', message: 'Attempting to reclaim memory' },
      {
        ref: { kind: 'Pod', name: 'b', uid: 'b' },
        eventType: 'Warning',
        reason: 'Evicted',
        message,
        annotations: { offending_containers: 'c', offending_containers_usage: '300Mi', starved_resource: 'memory' },
      },
    ]);
    expect(run.divergence()).toBeNull();
  });

  it('one pod a turn: the next one goes only when what the one before took is free, after a new observation', () => {
    let observations = 0;
    const run = start([hard('memory.available', '100Mi')], {
      'stats.observe': () => {
        observations += 1;
        return ok({ observations: LOW, pods: [use('a', 300), use('b', 100)] });
      },
    });
    run.add('a', pod('a'));
    run.add('b', pod('b'));
    run.see(LOW);
    run.pass(29_000);
    expect([observations, run.killed()]).toEqual([1, ['a']]);
    run.add('a', null);
    run.pass(500);
    expect([observations, run.killed()], 'its volume is in memory').toEqual([1, ['a']]);
    run.free('a');
    run.pass(0);
    expect([observations, run.killed()]).toEqual([2, ['a', 'b']]);
    run.pass(30_000);
    expect(observations).toBe(3);
    expect(run.kills()).toHaveLength(2);
  });

  it('critical pods never go; a lower priority goes before a larger use', () => {
    const run = start([hard('memory.available', '100Mi')], {
      'stats.observe': ok({ observations: LOW, pods: [use('system', 900), use('high', 500), use('low', 10)] }),
    });
    run.add('system', pod('system', { isCritical: true, priority: -1 }));
    run.add('high', pod('high', { priority: 10 }));
    run.add('low', pod('low', { priority: 1 }));
    run.see(LOW);
    run.pass(0);
    expect(run.logged()).toContain('Eviction manager: cannot evict a critical pod');
    expect(run.kills()).toMatchObject([{ uid: 'low' }]);
  });

  it('without a pod to evict it tries again, less and less often, and at once when a pod is added', () => {
    let observations = 0;
    const run = start([hard('memory.available', '100Mi')], {
      'stats.observe': () => {
        observations += 1;
        return ok({ observations: LOW, pods: [use('late', 5)] });
      },
    });
    run.see(LOW);
    run.pass(600_000);
    expect(observations).toBe(6);
    run.add('late', pod('late'));
    run.pass(10_000);
    expect(run.kills()).toMatchObject([{ uid: 'late' }]);
  });

  it.each([
    ['the configured one', 30, 7],
    ['its own, which is shorter', 3, 3],
  ])('a soft threshold waits for its grace, and gives the pod %s', (_, own, given) => {
    const soft = { ...hard('memory.available', '1Gi'), graceMs: 60_000 };
    const run = start([soft], { 'stats.observe': ok({ observations: LOW, pods: [use('a', 1)] }) });
    run.add('a', pod('a', { graceSeconds: own }));
    run.see(LOW);
    run.pass(59_000);
    expect(run.conditions()).toEqual([['MemoryPressure']]);
    expect(run.kills()).toEqual([]);
    run.pass(1_000);
    expect(run.kills()).toMatchObject([{ uid: 'a', graceSeconds: given }]);
  });

  it('a soft threshold that is not met any more before its grace period evicts no pod', () => {
    const soft = { ...hard('memory.available', '1Gi'), graceMs: 60_000 };
    const run = start([soft]);
    run.add('a', pod('a'));
    run.see(LOW);
    run.pass(30_000);
    run.see(observed('memory.available', 2_048 * MEBIBYTE));
    run.pass(600_000);
    expect(run.kills()).toEqual([]);
    expect(run.conditions()).toEqual([['MemoryPressure'], []]);
  });

  it('a condition is reported for the transition period after it ended', () => {
    let now = LOW;
    const run = start([hard('memory.available', '100Mi')], {
      'stats.observe': () => ok({ observations: now, pods: [] }),
    });
    run.see(LOW);
    run.pass(60_000);
    now = ENOUGH;
    run.see(ENOUGH);
    run.pass(299_000);
    expect(run.conditions()).toEqual([['MemoryPressure']]);
    run.pass(2_000);
    expect(run.conditions()).toEqual([['MemoryPressure'], []]);
  });

  it('what was reclaimed must include the minimum', () => {
    const seen = [LOW, observed('memory.available', 200 * MEBIBYTE), ENOUGH];
    const run = start([hard('memory.available', '100Mi', '500Mi')], {
      'stats.observe': () =>
        ok({ observations: seen.shift() ?? ENOUGH, pods: [use('a', 9), use('b', 8), use('c', 7)] }),
    });
    for (const uid of ['a', 'b', 'c']) run.add(uid, pod(uid));
    run.see(LOW);
    run.pass(0);
    run.free('a');
    run.pass(0);
    run.free('b');
    run.pass(0);
    expect(run.killed()).toEqual(['a', 'b']);
  });

  it('signals that cannot be read are said once, and watched again', () => {
    const run = start([hard('memory.available', '100Mi')], { 'stats.watchSignals': fail('no cgroups') });
    run.pass(60_000);
    expect(run.logged().filter((text) => text.includes('failed to get summary stats'))).toHaveLength(1);
    expect(run.asked().filter((name) => name === 'stats.watchSignals').length).toBeGreaterThan(5);
  });
});

describe('disk', () => {
  const FULL = observed('nodefs.available', 1, 100);
  const thresholds = [{ ...hard('nodefs.available', '1'), value: { share: 0.1 } }];

  it('unused containers and images are removed before any pod', () => {
    const observations = [FULL, observed('nodefs.available', 50, 100)];
    const run = start(thresholds, { 'stats.observe': () => ok({ observations: observations.shift(), pods: [] }) });
    run.add('a', pod('a'));
    run.see(FULL);
    run.pass(0);
    expect(run.sent().filter(({ type }) => type === 'garbage.purge')).toMatchObject([{ to: 'parent/containerGC' }]);
    run.send({ type: 'garbage.purged' });
    expect(
      run
        .sent()
        .filter(({ type }) => type === 'garbage.purge')
        .at(-1),
    ).toMatchObject({ to: 'parent/imageGC' });
    run.send({ type: 'garbage.purged' });
    run.pass(0);
    expect(run.kills()).toEqual([]);
    expect(run.conditions()).toEqual([['DiskPressure']]);
    expect(run.logged()).toContain('Eviction manager: able to reduce resource pressure without evicting pods.');
  });

  it('when that was not enough, the largest pod goes, counted with its logs, layers and volumes', () => {
    const disk = (bytes: number) => ({ bytes: String(bytes), inodes: '1' });
    const uses = [
      { ...use('a', 0), volumes: { cache: disk(500), other: disk(9_000) } },
      { ...use('b', 0), containers: [{ name: 'c', workingSetBytes: null, rootfs: disk(300), logs: disk(400) }] },
    ];
    const run = start(thresholds, { 'stats.observe': ok({ observations: FULL, pods: uses }) });
    run.add('a', pod('a', { localVolumes: ['cache'] }));
    run.add('b', pod('b'));
    run.see(FULL);
    run.pass(0);
    run.send({ type: 'garbage.purged' });
    run.send({ type: 'garbage.purged' });
    run.pass(0);
    expect(run.kills()).toMatchObject([
      {
        uid: 'b',
        verdict: {
          message:
            'The node was low on resource: ephemeral-storage. Threshold quantity: 10, available: 1. ' +
            'Container c was using 700, request is 0, has larger consumption of ephemeral-storage. ',
        },
      },
    ]);
  });

  it('a collector that never answers is not waited for longer than two minutes', () => {
    const run = start(thresholds, { 'stats.observe': ok({ observations: FULL, pods: [] }) });
    run.add('a', pod('a'));
    run.see(FULL);
    run.pass(240_000);
    expect(run.kills()).toHaveLength(1);
  });
});

describe('limits of local storage', () => {
  const limited = (limits: Partial<NonNullable<NodePod['storage']>>) =>
    pod('a', { storage: { emptyDirs: {}, pod: null, containers: {}, ...limits } });

  it.each([
    [
      { emptyDirs: { d: '1Mi' } },
      { kind: 'emptyDir', name: 'd' },
      'Usage of EmptyDir volume "d" exceeds the limit "1Mi". ',
    ],
    [
      { pod: '2Gi' },
      { kind: 'pod', name: '' },
      'Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. ',
    ],
    [
      { containers: { c: '10Mi' } },
      { kind: 'container', name: 'c' },
      'Container c exceeded its local ephemeral storage limit "10Mi". ',
    ],
  ])('a pod that exceeds %j goes, and is not called disrupted', (limits, exceeded, message) => {
    const run = start([]);
    run.add('a', limited(limits));
    run.pass(0);
    run.emit('stats.watchStorage', { type: 'storage.changed', exceeded });
    expect(run.kills()).toMatchObject([
      {
        uid: 'a',
        graceSeconds: 1,
        verdict: { reason: 'Evicted', message, published: 'once', disruptionTarget: false },
      },
    ]);
    expect(run.events()).toMatchObject([{ reason: 'Evicted', message }]);
    run.emit('stats.watchStorage', { type: 'storage.changed', exceeded: null });
    run.emit('stats.watchStorage', { type: 'storage.changed', exceeded });
    expect(run.kills()).toHaveLength(1);
    expect(run.divergence()).toBeNull();
  });

  it('only pods with a limit are measured, and only while they are there', () => {
    const run = start([]);
    run.add('b', pod('b'));
    expect(run.asked()).toEqual(['stats.diskLayout']);
    run.add('a', limited({ pod: '1Gi' }));
    expect(run.asked()).toContain('stats.watchStorage');
    run.add('a', null);
    expect(() => run.emit('stats.watchStorage', { type: 'storage.changed', exceeded: null })).toThrow(TypeError);
    const off = start([], {}, { localStorage: false });
    off.add('a', limited({ pod: '1Gi' }));
    expect(off.asked()).not.toContain('stats.watchStorage');
  });
});
