/**
 * Run-once: the results of pods, and the whole node that runs its manifests once and ends, on a scripted machine in
 * virtual time.
 */
import { describe, expect, it } from 'vitest';
import type { PodStatus } from '../../../src/machines/model/api/pod.ts';
import { deadlineOf, RUN_ONCE_RETRIES, runOnceMachine, verdictOf } from '../../../src/machines/startup/run-once.ts';
import { runUnder } from '../../support/answering-world.ts';
import { image, manifest } from '../../support/pods-node.ts';
import { type Answers, ARGV, BootNode, fail } from './boot-node.ts';

const ONCE = { runOnce: { retries: 3 } };
const ready = (status: 'True' | 'False') => [
  { type: 'Ready', status, lastTransitionTime: '2026-01-01T00:00:00Z' as never },
];

describe('the verdict on a pod', () => {
  it.each<[string, PodStatus, ReturnType<typeof verdictOf>]>([
    ['Always', { phase: 'Pending' }, null],
    ['Always', { phase: 'Running', conditions: ready('False') }, null],
    ['Always', { phase: 'Running', conditions: ready('True') }, 'Ready'],
    ['Never', { phase: 'Running', conditions: ready('True') }, null],
    ['OnFailure', { phase: 'Running', conditions: ready('True') }, null],
    ['Never', { phase: 'Succeeded', conditions: ready('False') }, 'Succeeded'],
    ['Never', { phase: 'Failed' }, 'Failed'],
    ['Always', { phase: 'Failed', reason: 'OutOfpods' }, 'Failed'],
  ])('with restartPolicy %s and status %o is %s', (policy, status, verdict) => {
    expect(verdictOf(policy, status)).toBe(verdict);
  });

  it('is waited for as long as all looks of upstream together', () => {
    expect(deadlineOf(RUN_ONCE_RETRIES)).toBe(1_023_000);
    expect(deadlineOf(0)).toBe(0);
  });
});

describe('the machine', () => {
  const input = { staticPodPath: '/manifests', retries: 2 };

  it('gives up in upstream words where no source of pods is named', () => {
    const run = runUnder(runOnceMachine, { ...input, staticPodPath: '' }, {}, ['podConfig']);
    run.send({ type: 'config.sourceReady', source: 'file', uids: [] });
    run.time.advanceTo(run.time.now() + 999);
    expect(run.state()).toBe('gathering');
    run.time.advanceTo(run.time.now() + 1);
    expect(run.sent().at(-1)).toMatchObject({
      type: 'runOnce.finished',
      results: [],
      error: 'no pod manifest update after 1s',
    });
    expect(run.divergence()).toBeNull();
  });

  it('is done at once with a folder that has no pod in it', () => {
    const run = runUnder(runOnceMachine, input, {}, ['podConfig', 'pleg']);
    run.send({ type: 'config.sourceReady', source: 'file', uids: [] });
    expect(run.sent().at(-1)).toMatchObject({ type: 'runOnce.finished', results: [], error: '' });
  });

  it('hands on what concerns its pods, and nothing of other pods', () => {
    const run = runUnder(runOnceMachine, input, {}, ['podConfig', 'pleg', 'pods']);
    const pod = { metadata: { uid: 'u1', name: 'a', namespace: 'default' }, spec: { containers: [] } };
    run.send({ type: 'config.pods', op: 'ADD', source: 'file', pods: [pod] });
    run.send({ type: 'config.sourceReady', source: 'file', uids: ['u1'] });
    run.send({ type: 'runtime.podChanged', status: { uid: 'u1' } });
    run.send({ type: 'runtime.podChanged', status: { uid: 'foreign' } });
    run.send({ type: 'runtime.podRemoved', uid: 'foreign' });
    run.send({ type: 'config.pods', op: 'ADD', source: 'file', pods: [{ ...pod, metadata: { uid: 'late' } }] });
    const toPods = run.sent().filter(({ to }) => to === 'parent/pods');
    expect(toPods).toMatchObject([
      { type: 'config.pods' },
      { type: 'status.wanted' },
      { type: 'runtime.podChanged', status: { uid: 'u1' } },
    ]);
    expect(run.divergence()).toBeNull();
  });
});

/** A node with these pods, after the time that it needs. */
function node(pods: readonly Parameters<typeof manifest>[0][], answers: Answers = {}, argv = ARGV): BootNode {
  const started = new BootNode({ ...ONCE, answers, argv });
  started.world.pods.registry.set('app:1', image('app:1'));
  started.world.pods.setManifests(pods.map(manifest));
  return started.boot().run(30_000);
}

const endOf = ({ ended }: BootNode) => (ended && 'exitCode' in ended ? ended : null)!;
const waitOf = (pod: string) => `timeout error: pod "${pod}" containers not running after 3 retries`;

describe('a node that runs its pods once', () => {
  it('ends well when every pod is ready, and leaves them to the runtime', () => {
    const started = node([{ uid: 'u1' }, { uid: 'u2', name: 'other' }]);
    expect(endOf(started)).toMatchObject({ exitCode: 0, failure: null });
    expect(endOf(started).podResults).toMatchObject([
      { uid: 'u1', result: 'Ready', message: '', containers: [{ state: 'running', exitCode: null, restarts: 0 }] },
      { uid: 'u2', result: 'Ready' },
    ]);
    const running = [...started.world.pods.runtime.containers.values()].map(({ state }) => state);
    expect(running).toEqual(['CONTAINER_RUNNING', 'CONTAINER_RUNNING']);
    expect(started.lines('info').map(({ text }) => text)).toContain('Started kubelet as runonce');
    expect(started.replay().divergence).toBeNull();
  });

  it('has no servers and no loops', () => {
    const started = node([{ uid: 'u1' }]);
    const names = started.effects().map(({ name }) => name);
    expect(names).not.toContain('server.healthz');
    expect(names).not.toContain('host.notify');
    expect(started.records.some((record) => 'at' in record && record.at === 'kubelet/syncLoop')).toBe(false);
  });

  it('ends badly, and says which pod, when one does not come up in time', () => {
    const started = node([
      { uid: 'u1' },
      { uid: 'u2', name: 'lost', containers: [{ name: 'app', image: 'nowhere:1' }] },
    ]);
    const { exitCode, failure, podResults } = endOf(started);
    const lost = podResults!.find(({ uid }) => uid === 'u2')!;
    const name = `${lost.name}_${lost.namespace}(u2)`;
    expect(exitCode).toBe(1);
    expect(failure).toMatchObject({
      phase: 'runOnce.pods',
      message: `failed to run Kubelet: runonce failed: error running pods: [${name}]`,
    });
    expect(lost).toMatchObject({ result: 'TimedOut', message: waitOf(name), tookMs: 7_000 });
    expect(started.lines('error').map(({ text }) => text)).toEqual([
      'Unable to start pod because container failed',
      'command failed',
    ]);
    expect(started.replay().divergence).toBeNull();
  });

  it('does not end, or touch, a pod that is in no manifest', () => {
    const first = node([{ uid: 'u1' }]);
    const second = new BootNode(ONCE);
    Object.assign(second.world.pods, { runtime: first.world.pods.runtime });
    second.world.pods.setManifests([]);
    second.boot().run(30_000);
    expect(endOf(second)).toMatchObject({ exitCode: 0, podResults: [] });
    expect(second.effects().filter(({ name }) => /^cri\.(stop|remove)/.test(name))).toEqual([]);
  });

  it.each<[string, Answers, string, string]>([
    [
      'folders that cannot be made',
      { 'host.makeDirectories': fail('mkdir /var/lib/kubelet: read-only file system') },
      'runOnce.dataDirectories',
      'failed to run Kubelet: runonce failed: mkdir /var/lib/kubelet: read-only file system',
    ],
    [
      'a runtime that is not there',
      { 'runtime.connect': fail('no such file or directory') },
      'run.runtimeService',
      'failed to run Kubelet: no such file or directory',
    ],
  ])('fails with %s as any start does', (_, answers, phase, message) => {
    const started = node([{ uid: 'u1' }], answers);
    expect(endOf(started)).toMatchObject({ exitCode: 1, failure: { phase, message }, podResults: null });
  });

  it('fails without a folder of manifests', () => {
    const started = node([], {}, []);
    expect(endOf(started)).toMatchObject({
      exitCode: 1,
      failure: { message: 'failed to run Kubelet: runonce failed: no pod manifest update after 1s' },
    });
  });

  it('that is stopped before its pods are ready fails', () => {
    const started = new BootNode(ONCE);
    started.world.pods.setManifests([manifest({ uid: 'u1', containers: [{ name: 'app', image: 'nowhere:1' }] })]);
    started.boot().run(3_000);
    started.send({ type: 'signal.received', signal: 'SIGTERM' }).run(2_000);
    expect(endOf(started)).toMatchObject({ exitCode: 1, failure: null, podResults: null });
  });

  it('begins again when the actor that waits crashes, and comes to the same end', () => {
    const started = new BootNode(ONCE);
    started.world.pods.registry.set('app:1', image('app:1'));
    started.world.pods.setManifests([manifest({ uid: 'u1' })]);
    started.boot().run(60);
    started.send({ type: 'runtime.podChanged' }, 'kubelet/runOnce').run(30_000);
    expect(started.crashes().map(({ at }) => at)).toEqual(['kubelet/runOnce']);
    expect(endOf(started)).toMatchObject({ exitCode: 0, podResults: [{ uid: 'u1', result: 'Ready' }] });
    expect(started.replay().divergence).toBeNull();
  });
});
