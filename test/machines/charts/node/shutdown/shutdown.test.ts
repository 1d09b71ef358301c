/** Proves D1 to D3 of the shutdown manager. */
import { describe, expect, it } from 'vitest';
import { groupOf, shutdownPeriods } from '../../../../../src/machines/charts/node/shutdown/policy.ts';
import { shutdownMachine } from '../../../../../src/machines/charts/node/shutdown/shutdown.ts';
import type { NodePod } from '../../../../../src/machines/model/eviction/ranking.ts';
import { type Answers, fail, ok, runUnder } from '../../../../support/answering-world.ts';
import { settings as node } from '../../../../support/pods-node.ts';

const PERIODS = [
  { priority: 0, graceSeconds: 20 },
  { priority: 2_000_000_000, graceSeconds: 10 },
];
const SIBLINGS = ['pods', 'nodeStatus', 'eventRecorder', 'allocation'];
/** The number of behaviors before `volumesAwaited`. */
const BEFORE = 35;
const PREPARED = { type: 'shutdown.prepared', active: true };
const CANCELLED = { type: 'shutdown.prepared', active: false };

const pod = (name: string, priority: number, graceSeconds = 30): NodePod => ({
  name,
  namespace: 'ns',
  priority,
  isCritical: false,
  graceSeconds,
  requests: { memory: '0', 'ephemeral-storage': '0' },
  podMemoryRequest: null,
  containerRequests: {},
  localVolumes: [],
  storage: null,
});

function start(answers: Answers = {}, behavior = node.behavior) {
  const world: Answers = {
    'logind.inhibitDelay': ok({ delayMs: 60_000 }),
    'logind.inhibitShutdown': 'stream',
    'logind.watchShutdown': 'stream',
    'logind.storeShutdown': ok(null),
    ...answers,
  };
  const shutdown = { periods: PERIODS, stateFile: '/state' };
  const run = runUnder(shutdownMachine, { ...node, behavior, shutdown }, world, SIBLINGS);
  const sentTo = (id: string) => run.sent().filter(({ to }) => to === `parent/${id}`);
  return {
    ...run,
    sentTo,
    add: (uid: string, facts: NodePod) => run.send({ type: 'node.podChanged', uid, pod: facts }),
    stop: (uid: string) => run.send({ type: 'node.podChanged', uid, pod: null }),
    unmount: (uid: string) => run.send({ type: 'node.podChanged', uid, pod: null, isReclaimed: true }),
    bus: (event: { type: string }) => run.emit('logind.watchShutdown', event),
    kills: () =>
      sentTo('pods').flatMap((sent) =>
        sent.type === 'pods.kill' ? [sent as unknown as { uid: string; graceSeconds: number }] : [],
      ),
    isHeld: () =>
      run.records().filter((record) => record.k === 'effect' && record.name === 'logind.inhibitShutdown').length -
      run.records().filter((record) => record.k === 'cancel').length,
    pass: (ms: number) => run.time.advanceTo(run.time.now() + ms),
  };
}

describe('a machine that shuts down', () => {
  it('pods end group by group, each with the shorter of its own and its group`s grace', () => {
    const run = start();
    run.add('app', pod('app', 0));
    run.add('quick', pod('quick', 5, 3));
    run.add('system', pod('system', 2_000_001_000));
    run.bus(PREPARED);
    run.pass(0);
    expect(run.kills().map(({ uid, graceSeconds }) => [uid, graceSeconds])).toEqual([
      ['app', 20],
      ['quick', 3],
    ]);
    run.unmount('app');
    run.pass(1_000);
    expect(run.kills()).toHaveLength(2);
    run.unmount('quick');
    run.pass(0);
    expect(run.kills().at(-1)).toEqual({
      to: 'parent/pods',
      type: 'pods.kill',
      uid: 'system',
      graceSeconds: 10,
      verdict: {
        reason: 'Terminated',
        message: 'Pod was terminated in response to imminent node shutdown.',
        published: 'once',
        disruptionTarget: true,
      },
    });
    run.unmount('system');
    run.pass(0);
    expect(run.state()).toEqual({ active: 'released' });
    expect(run.divergence()).toBeNull();
  });

  it.each([
    ['are unmounted before the next group ends, as by the kubelet', node.behavior, ['app']],
    ['were not awaited before', BEFORE, ['app', 'driver']],
  ])('the volumes of a group %s', (_, behavior, ended) => {
    const run = start({}, behavior);
    run.add('app', pod('app', 0));
    run.add('driver', pod('driver', 2_000_001_000));
    run.bus(PREPARED);
    run.pass(0);
    run.stop('app');
    run.pass(1_000);
    expect(run.kills().map(({ uid }) => uid)).toEqual(ended);
    run.unmount('app');
    run.pass(0);
    expect(run.kills().map(({ uid }) => uid)).toEqual(['app', 'driver']);
  });

  it('volumes that stay mounted do not hold the others up for longer than the time of their group', () => {
    const run = start();
    run.add('app', pod('app', 0));
    run.bus(PREPARED);
    run.pass(0);
    run.stop('app');
    run.pass(19_000);
    expect(run.state()).toEqual({ active: { guarding: 'ending' } });
    run.pass(11_000);
    expect(run.state()).toEqual({ active: 'released' });
    expect(run.divergence()).toBeNull();
  });

  it('the node says so, and takes no pod any more, until the shutdown is cancelled', () => {
    const run = start();
    run.bus(PREPARED);
    run.pass(0);
    run.bus(CANCELLED);
    expect(run.sentTo('nodeStatus')).toMatchObject([
      { type: 'node.reported', reports: { shuttingDown: true } },
      { type: 'node.reported', reports: { shuttingDown: false } },
    ]);
    expect(run.sentTo('allocation')).toMatchObject([{ active: true }, { active: false }]);
    expect(run.sentTo('eventRecorder')).toMatchObject([
      { eventType: 'Normal', reason: 'Shutdown', message: 'Shutdown manager detected shutdown event' },
      { eventType: 'Normal', reason: 'Shutdown', message: 'Shutdown manager detected shutdown cancellation' },
    ]);
    expect(run.state()).toEqual({ active: { guarding: 'waiting' } });
  });

  it('a group that does not end in its time does not hold the others up', () => {
    const run = start();
    run.add('stuck', pod('stuck', 0));
    run.add('system', pod('system', 2_000_000_000));
    run.bus(PREPARED);
    run.pass(19_000);
    expect(run.kills().map(({ uid }) => uid)).toEqual(['stuck']);
    run.pass(1_000);
    expect(run.kills().map(({ uid }) => uid)).toEqual(['stuck', 'system']);
    run.pass(10_000);
    expect(run.state()).toEqual({ active: 'released' });
    expect(run.logged()).toContain('Shutdown manager pod killing time out');
  });

  it('the lock is held until the last group is over; when it began and ended is kept', () => {
    const run = start();
    run.add('app', pod('app', 0));
    expect(run.isHeld()).toBe(1);
    run.bus(PREPARED);
    run.pass(5_000);
    expect(run.isHeld()).toBe(1);
    run.unmount('app');
    run.pass(0);
    expect(run.isHeld()).toBe(0);
    const kept = run
      .records()
      .flatMap((record) => (record.k === 'effect' && record.name === 'logind.storeShutdown' ? [record.input] : []));
    expect(kept).toEqual([
      { path: '/state', startMs: 1_000_000, endMs: null },
      { path: '/state', startMs: 1_000_000, endMs: 1_005_000 },
    ]);
  });

  it('a bus that breaks while pods end does not end the shutdown early', () => {
    const run = start({ 'logind.storeShutdown': fail('disk full') });
    run.add('app', pod('app', 0));
    run.bus(PREPARED);
    run.pass(0);
    const gone = { type: 'xstate.error.actor.bus', error: { message: 'gone' }, actorId: 'bus' };
    run.kernel.dispatch('parent/subject', gone, 'test');
    expect(run.state()).toEqual({ active: { guarding: 'ending' } });
  });
});

describe('logind', () => {
  it('that waits too shortly is configured, and asked again', () => {
    const delays = [5_000, 30_000];
    const seen: unknown[] = [];
    const run = start({
      'logind.inhibitDelay': () => ok({ delayMs: delays.shift() }),
      'logind.overrideInhibitDelay': (input: unknown) => {
        seen.push(input);
        return ok(null);
      },
    });
    run.pass(0);
    expect(seen).toEqual([{ seconds: 30 }]);
    expect(run.state()).toEqual({ active: { guarding: 'waiting' } });
  });

  it('that does not take the longer delay is complained of once, in upstream`s words', () => {
    const run = start({ 'logind.inhibitDelay': ok({ delayMs: 5_000 }), 'logind.overrideInhibitDelay': ok(null) });
    run.pass(600_000);
    expect(run.logged()).toEqual(['Failed to start node shutdown manager']);
    const [record] = run.records().filter(({ k }) => k === 'log');
    expect(record).toMatchObject({
      fields: {
        err:
          'node shutdown manager was unable to update logind InhibitDelayMaxSec to 30s (ShutdownGracePeriod), ' +
          'current value of InhibitDelayMaxSec (5s) is less than requested ShutdownGracePeriod',
      },
    });
  });

  it('that is not there is said once, and looked for again', () => {
    const run = start({ 'logind.inhibitDelay': fail('no bus') });
    run.pass(600_000);
    expect(run.logged()).toEqual(['Failed to start node shutdown manager']);
    expect(run.asked().length).toBeGreaterThan(5);
  });

  it('whose lock or bus is lost is asked again after a second', () => {
    let locks = 0;
    const run = start({ 'logind.inhibitShutdown': () => (locks++ === 0 ? fail('refused') : 'stream') });
    run.pass(1_000);
    expect(locks).toBe(2);
    run.kernel.dispatch('parent/subject', { type: 'xstate.done.actor.bus', output: null, actorId: 'bus' }, 'test');
    run.pass(1_000);
    expect(run.asked().filter((name) => name === 'logind.watchShutdown')).toHaveLength(2);
    expect(run.divergence()).toBeNull();
  });
});

describe('periods', () => {
  const settings = {
    shutdownGracePeriod: '30s',
    shutdownGracePeriodCriticalPods: '10s',
    shutdownGracePeriodByPodPriority: [],
  };

  it('the two plain periods are two groups; priorities of their own replace them', () => {
    expect(shutdownPeriods(settings)).toEqual(PERIODS);
    expect(shutdownPeriods({ ...settings, shutdownGracePeriod: '0s', shutdownGracePeriodCriticalPods: '0s' })).toEqual(
      [],
    );
    const byPriority = [
      { priority: 100, shutdownGracePeriodSeconds: 5 },
      { priority: 0, shutdownGracePeriodSeconds: 9 },
    ];
    expect(shutdownPeriods({ ...settings, shutdownGracePeriodByPodPriority: byPriority })).toEqual([
      { priority: 0, graceSeconds: 9 },
      { priority: 100, graceSeconds: 5 },
    ]);
  });

  it.each([
    [-5, 0],
    [0, 0],
    [1_999_999_999, 0],
    [2_000_000_000, 1],
    [2_000_001_000, 1],
  ])('a pod of priority %i is in group %i', (priority, group) => {
    expect(groupOf(PERIODS, priority)).toBe(group);
  });
});
