/** resolv.conf: its limits, with upstream's texts, and its changes while the node runs. */
import { describe, expect, it } from 'vitest';
import { parseResolvConf } from '../../../../src/machines/startup/context/derive-settings.ts';
import { limitExceeded, resolverMachine } from '../../../../src/machines/startup/host/resolver.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';
import { image, manifest } from '../../../support/pods-node.ts';
import { type Answers, BootNode } from '../boot-node.ts';

const PATH = '/etc/resolv.conf';
const search = (count: number, length = 5) =>
  `search ${Array.from({ length: count }, (_, i) => `${String(i)}${'x'.repeat(length)}`.slice(0, length)).join(' ')}\n`;

const exceeded = (text: string, hasClusterDomain = false) => limitExceeded({ path: PATH, text, hasClusterDomain });

describe('the limits', () => {
  it.each([
    ['nothing', ''],
    ['servers only', 'nameserver 192.0.2.1\n'],
    ['as many domains as are allowed', search(32)],
    ['a domain that is as long as is allowed', search(1, 253)],
    ['a line that is as long as is allowed', search(32, 63)],
  ])('allow %s', (_, text) => expect(exceeded(text)).toBe(''));

  it('leave room for the domains of the cluster', () => {
    expect(exceeded(search(29), true)).toBe('');
    expect(exceeded(search(30), true)).toContain('more than 29 domains!');
  });

  it.each([
    [
      'too many domains',
      search(33),
      "Resolv.conf file '/etc/resolv.conf' contains search line consisting of more than 32 domains!",
    ],
    [
      'a domain that is too long',
      search(1, 254),
      'Resolv.conf file "/etc/resolv.conf" contains a search path which length is more than allowed 253 chars!',
    ],
    [
      'a line that is too long',
      search(32, 64),
      "Resolv.conf file '/etc/resolv.conf' contains search line which length is more than allowed 2048 chars!",
    ],
  ])('name %s', (_, text, message) => expect(exceeded(text)).toBe(message));
});

const input = { path: PATH, nodeName: 'node-1', text: 'nameserver 192.0.2.1\n', hasClusterDomain: false };

describe('the file', () => {
  it('has comments of whole lines, the last search line and the last word of each option', () => {
    const text = [
      '# nameserver 192.0.2.9',
      'nameserver 192.0.2.1 # first',
      'search old.test',
      'search a.test. .',
      'options ndots:2 rotate',
      ' options ndots:3 edns0',
    ].join('\n');
    expect(parseResolvConf(text)).toEqual({
      nameservers: ['192.0.2.1'],
      searches: ['a.test', '.'],
      options: ['ndots:3', 'rotate', 'edns0'],
    });
  });
});

describe('the machine', () => {
  const run = (answers: Record<string, ReturnType<typeof ok>>, given = input) =>
    runUnder(resolverMachine, given, { 'host.watchConfiguration': 'stream', ...answers }, ['eventRecorder']);

  it('has nothing to do without a file', () => {
    const started = run({}, { ...input, path: '' });
    expect(started.state()).toBe('withoutFile');
    expect(started.asked()).toEqual([]);
  });

  it('complains once of a content that exceeds a limit', () => {
    const started = run({}, { ...input, text: search(33) });
    const message = exceeded(search(33));
    expect(started.sent()).toMatchObject([
      { to: 'parent/eventRecorder', eventType: 'Warning', reason: 'CheckLimitsForResolvConf', message },
    ]);
    expect(started.logged()).toEqual(['Check limits for resolv.conf failed']);
  });

  it('tells a new content, and judges it anew', () => {
    const text = search(40);
    const started = run({ 'host.readFile': ok({ content: text }) });
    started.emit('host.watchConfiguration', { type: 'configuration.changed' });
    started.time.advanceTo(started.time.now() + 1_000);
    expect(started.sent()).toMatchObject([{ type: 'resolver.changed', text }, { reason: 'CheckLimitsForResolvConf' }]);
    expect(started.state()).toBe('watching');
    expect(started.divergence()).toBeNull();
  });

  it('publishes nothing if the content is the same, or gone', () => {
    for (const content of [input.text, null]) {
      const started = run({ 'host.readFile': ok({ content }) });
      started.emit('host.watchConfiguration', { type: 'configuration.changed' });
      started.time.advanceTo(started.time.now() + 1_000);
      expect(started.sent()).toEqual([]);
      expect(started.state()).toBe('watching');
    }
  });

  it('says when it cannot read, and keeps what it has', () => {
    const started = run({ 'host.readFile': fail('permission denied') });
    started.emit('host.watchConfiguration', { type: 'configuration.changed' });
    started.time.advanceTo(started.time.now() + 1_000);
    expect(started.sent()).toMatchObject([{ message: 'permission denied' }]);
    expect(started.logged()).toEqual(['Check limits for resolv.conf failed at file open']);
  });
});

/** A node with a running static pod and a resolv.conf that may change. */
function nodeWithPod() {
  let content = 'nameserver 192.0.2.1\n';
  const answers: Answers = { 'host.readFile': () => ok({ content }) };
  const node = new BootNode({ answers });
  node.world.pods.registry.set('app:1', image('app:1'));
  node.world.pods.setManifests([manifest({ uid: 'u1' })]);
  node.boot().run(10_000);
  const change = () => {
    content = 'nameserver 192.0.2.53\nsearch example.org\n';
    node.world.emit('host.watchConfiguration', { type: 'configuration.changed' });
    node.run(5_000);
  };
  return { node, change };
}

it('pods get what the file says now', () => {
  const { node, change } = nodeWithPod();
  change();
  expect(node.kernel.snapshotOf('kubelet/pods/pod-u1')).toMatchObject({
    context: { node: { resolver: { nameservers: ['192.0.2.53'], searches: ['example.org'] } } },
  });
  expect(node.crashes()).toEqual([]);
  expect(node.replay().divergence).toBeNull();
});

it('a pod that the node ended stays so', () => {
  const { node, change } = nodeWithPod();
  const verdict = { reason: 'Evicted', message: 'The node was low on resource: memory.', published: 'always' };
  node.kernel.dispatch('kubelet/pods', { type: 'pods.kill', uid: 'u1', graceSeconds: 0, verdict }, 'test');
  node.run(20_000);
  const started = () => node.effects('cri.startContainer').length;
  expect(started()).toBe(1);
  change();
  node.run(60_000);
  expect(started()).toBe(1);
});
