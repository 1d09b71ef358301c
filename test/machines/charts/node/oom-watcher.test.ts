/** Proves O1 and O2 of the OOM watcher. */
import { expect, it } from 'vitest';
import { oomWatcherMachine } from '../../../../src/machines/charts/node/oom-watcher.ts';
import { type Answers, fail, runUnder } from '../../../support/answering-world.ts';

const input = { nodeName: 'node1', path: '/dev/kmsg', seenFile: '/seen', optional: false };
const kill = {
  type: 'oom.killed',
  processName: 'stress',
  pid: 7,
  container: '/user.slice',
  victimContainer: '/',
  constraint: 'CONSTRAINT_NONE',
};
const start = (answer: Answers[string], more: Partial<typeof input> = {}) =>
  runUnder(oomWatcherMachine, { ...input, ...more }, { 'host.watchOom': answer }, ['eventRecorder']);
const refusal = fail('open /dev/kmsg: operation not permitted', 'EPERM');

it('says SystemOOM on the node, with its victim, and nothing of a container at its own limit', () => {
  const run = start('stream');
  run.emit('host.watchOom', { type: 'oom.watching' });
  run.emit('host.watchOom', { ...kill, victimContainer: '/kubepods/pod1' });
  run.emit('host.watchOom', kill);
  run.emit('host.watchOom', { ...kill, processName: '', pid: 0 });
  const event = { to: 'parent/eventRecorder', eventType: 'Warning', reason: 'SystemOOM', ref: { name: 'node1' } };
  expect(run.sent()).toMatchObject([
    { ...event, message: 'System OOM encountered, victim process: stress, pid: 7' },
    { ...event, message: 'System OOM encountered' },
  ]);
  expect(run.divergence()).toBeNull();
});

it('a log that cannot be read keeps the node from starting', () => {
  expect(start(refusal).sent()).toEqual([
    {
      to: 'parent',
      type: 'oomWatcher.failed',
      message: 'failed to create kubelet: open /dev/kmsg: operation not permitted',
    },
  ]);
});

it('if the node does not require it, it is only reported', () => {
  const run = start(refusal, { optional: true });
  expect(run.sent()).toEqual([]);
  expect(run.logged()).toEqual(['Failed to create an oomWatcher, ignoring']);
});

it('a log that breaks later is opened again', () => {
  let opened = 0;
  const run = start(() => (opened++ === 0 ? 'stream' : fail('broken')));
  run.emit('host.watchOom', { type: 'oom.watching' });
  run.kernel.dispatch(
    'parent/subject',
    { type: 'xstate.error.actor.oom', error: { message: 'gone' }, actorId: 'oom' },
    'test',
  );
  run.time.advanceTo(run.time.now() + 60_000);
  expect(opened).toBe(2);
  expect(run.sent()).toEqual([]);
});
