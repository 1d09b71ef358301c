/** The first line of the page, for starts of the real supervisor that hang, fail, continue and end. */
import { describe, expect, it } from 'vitest';
import { KernelFeed } from '../../src/actors/server/visualizer/feed.ts';
import type { Operations } from '../../src/machines/model/operations/index.ts';
import { type Answer, answerOf, connectedAnswer } from '../../src/visualizer/answer.ts';
import {
  ARGV,
  BootNode,
  type BootOptions,
  fail,
  RUNTIME_NOT_READY,
  RUNTIME_READY,
} from '../machines/startup/boot-node.ts';

/** Longer than a start, shorter than any time limit of the operations below. */
const WAITED_MS = 1_500;

class WatchedNode {
  readonly node: BootNode;
  private readonly feed: KernelFeed;

  constructor(options: BootOptions = {}) {
    this.feed = new KernelFeed({ now: () => this.node.world.time.now() });
    this.node = new BootNode({ argv: ARGV, ...options, onTurn: this.feed.onTurn }).boot();
  }

  answer(): Answer {
    const view = this.feed.phases();
    return answerOf(view, view.now);
  }
}

const KUBECONFIG = ['--kubeconfig=/etc/kubernetes/kubelet.conf', '--config=/etc/kubelet.yaml'];

/** By the operation that does not answer: the phase, and what it waits for. */
const HUNG: readonly [keyof Operations, string, string, (readonly string[])?][] = [
  ['host.readConfiguration', 'command.loadingConfiguration', 'flags, configuration file and drop-ins', KUBECONFIG],
  ['host.readable', 'command.initializingTLS', 'the check of the certificate of its own'],
  ['host.permissions', 'command.checkingPermissions', 'the user id of this process'],
  ['host.watchdogSettings', 'run.watchdog', 'what the service manager wants of its watchdog'],
  ['host.acquireLock', 'run.lockFile', 'the lock file', ['--lock-file=/run/kubelet.lock']],
  ['host.hostname', 'run.hostname', 'the host name'],
  ['runtime.connect', 'run.runtimeService', 'the container runtime to answer'],
  ['cri.runtimeConfig', 'run.runtimeService', 'the container runtime to answer'],
  ['host.machineInfo', 'run.cadvisor', 'machine info'],
  ['host.cgroups', 'command.loadingConfiguration', 'flags, configuration file and drop-ins', KUBECONFIG],
  ['host.fileSystem', 'run.containerManager', 'the container manager to accept this machine'],
  ['cgroup.ensure', 'kubeletRun.runtimeDependentModules', 'the container manager to start'],
  ['host.setOomScoreAdj', 'run.oomScore', 'the OOM score of this process'],
  ['host.addresses', 'runKubelet.', 'the addresses of this machine'],
  ['host.makeDirectories', 'kubeletRun.initializingModules', "the node's folders"],
  ['host.notify', 'startKubelet.', 'the service manager to take READY=1'],
  ['runtime.watchStatus', 'startKubelet.', 'RuntimeReady'],
];

describe('a start that hangs', () => {
  it.each(HUNG)('%s does not answer', (operation, phase, wait, argv = ARGV) => {
    const watched = new WatchedNode({ argv, answers: { [operation]: 'hangs' } });
    watched.node.run(WAITED_MS);
    const { kind, text } = watched.answer();
    expect([kind, text]).toEqual(['waiting', expect.stringMatching(/^Not ready for 1\.50 s: /)]);
    expect(text).toContain(phase);
    expect(text).toContain(`waits for ${wait} (`);
    const unanswered = new RegExp(`${operation}( of \\S+)? has not answered for 1\\.`).test(text);
    expect(unanswered || operation === 'runtime.watchStatus', text).toBe(true);
  });
});

it('a runtime that is not ready is what is waited for', () => {
  const watched = new WatchedNode({ isQuiet: true });
  watched.node.run(200);
  watched.node.world.emit('runtime.watchStatus', RUNTIME_NOT_READY);
  watched.node.run(WAITED_MS);
  expect(watched.answer()).toMatchObject({ kind: 'waiting', text: expect.stringContaining('waits for RuntimeReady') });
});

it('a ready node says what of it is tried again, how often that failed, and what it said last', () => {
  const watched = new WatchedNode({
    answers: { 'server.healthz': fail('listen tcp 127.0.0.1:10248: bind: address already in use', 'EADDRINUSE') },
  });
  watched.node.run(18_000);
  expect(watched.answer()).toMatchObject({
    kind: 'ready',
    text: expect.stringMatching(
      /^Ready after .+; but server\.healthz failed 4 times, .+ ago: listen .+ already in use$/,
    ),
  });
});

it('what has failed since a phase waits is said with it', () => {
  const phase = { id: 'a', name: 'alive.startup.run.x', depth: 0, waitsFor: 'the disk', entered: 1_000, enteredBy: 3 };
  const before = { n: 2, t: 900, at: 'k', name: 'host.old', message: 'no', times: 9 };
  const since = { n: 7, t: 4_000, at: 'k', name: 'host.write', target: '/dev/sda', message: 'no space left', times: 3 };
  const view = { started: 0, now: 5_000, phases: [phase], troubles: [before, since] };
  expect(answerOf(view, 5_000)).toEqual({
    kind: 'waiting',
    text:
      'Not ready for 5.00 s: run.x waits for the disk ' +
      '(host.write of /dev/sda failed 3 times, the last time 1.00 s ago: no space left)',
    n: 7,
  });
});

it('a start that came to its end says how long it took, and what of that was its longest wait', () => {
  const watched = new WatchedNode();
  watched.node.run(WAITED_MS);
  expect(watched.answer()).toMatchObject({
    kind: 'ready',
    text: expect.stringMatching(/^Ready after \d+ ms, \d+% of it waiting for the .+ \(\d+ ms\)$/),
  });
  watched.node.send({ type: 'signal.received', signal: 'SIGTERM' }).run(60_000);
  expect(watched.answer()).toMatchObject({
    kind: 'ended',
    text: expect.stringMatching(/^Ended after .+: it was ready after/),
  });
});

it('before the first turn there is nothing to say', () => {
  expect(answerOf({ started: 0, now: 0, phases: [] }, 0)).toEqual({ kind: 'none', text: 'No phase yet' });
});

describe('a node that has started and is not Ready', () => {
  it('for want of a network', () => {
    const watched = new WatchedNode({ isQuiet: true });
    watched.node.run(200);
    watched.node.world.emit('runtime.watchStatus', {
      ...RUNTIME_READY,
      conditions: [
        { type: 'RuntimeReady', status: true, reason: '', message: '' },
        { type: 'NetworkReady', status: false, reason: 'NetworkPluginNotReady', message: 'cni plugin not initialized' },
      ],
    });
    watched.node.run(WAITED_MS);
    expect(watched.answer()).toMatchObject({
      kind: 'waiting',
      text: expect.stringMatching(
        /^Not ready for .+: started in .+, but container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized$/,
      ),
    });
    watched.node.world.emit('runtime.watchStatus', RUNTIME_READY);
    watched.node.run(WAITED_MS);
    expect(watched.answer()).toMatchObject({ kind: 'ready', text: expect.stringMatching(/^Ready after /) });
  });
});

it('says first that the agent is gone, or that nothing is open', () => {
  const answer: Answer = { kind: 'ready', text: 'Ready after 52 ms', n: 7 };
  expect(connectedAnswer({ connection: 'live' }, answer)).toBe(answer);
  expect(connectedAnswer({ connection: 'lost' }, answer)).toEqual({
    kind: 'waiting',
    text: 'The agent does not answer; when it was last there: ready after 52 ms',
    n: 7,
  });
  expect(connectedAnswer({ connection: 'failed', note: 'no header' }, { kind: 'none', text: 'No phase yet' })).toEqual({
    kind: 'failed',
    text: 'Nothing is open: no header',
  });
});
