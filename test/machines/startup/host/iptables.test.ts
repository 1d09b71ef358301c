/** iptables: the reports about the chains, and which nodes keep them. */
import { describe, expect, it } from 'vitest';
import { iptablesMachine } from '../../../../src/machines/startup/host/iptables.ts';
import { fail, runUnder } from '../../../support/answering-world.ts';
import { ARGV, BootNode, ok } from '../boot-node.ts';

describe('the machine', () => {
  it('says what became of each protocol, in upstream words', () => {
    const run = runUnder(iptablesMachine, undefined, { 'host.keepIptables': 'stream' });
    run.emit('host.keepIptables', { type: 'iptables.initialized', protocol: 'IPv4' });
    run.emit('host.keepIptables', {
      type: 'iptables.failed',
      protocol: 'IPv6',
      step: 'Failed to ensure that iptables hint chain exists',
      message: 'ip6tables: no such file',
    });
    run.emit('host.keepIptables', { type: 'iptables.restored', protocol: 'IPv4' });
    expect(run.logged()).toEqual([
      'Initialized iptables rules.',
      'Failed to ensure that iptables hint chain exists',
      'Failed to initialize iptables rules; some functionality may be missing.',
      'Reloading after iptables flush',
    ]);
    expect(run.divergence()).toBeNull();
  });

  it('is not needed by a node', () => {
    const run = runUnder(iptablesMachine, undefined, { 'host.keepIptables': fail('no such program') });
    expect(run.state()).toBe('ended');
    expect(run.logged()).toEqual(['Failed to initialize iptables rules; some functionality may be missing.']);
  });
});

describe('a node', () => {
  const asked = (node: BootNode) => node.effects('host.keepIptables').map(({ input }) => input);

  it('has them with a real runtime', () => {
    expect(asked(new BootNode().boot().run(5_000))).toEqual([{ periodMs: 60_000 }]);
  });

  it('has none where the configuration says so, or where pods have no network of their own', () => {
    const argv = [...ARGV, '--make-iptables-util-chains=false'];
    expect(asked(new BootNode({ argv }).boot().run(5_000))).toEqual([]);
    const embedded = new BootNode({ answers: { 'runtime.exists': ok({ exists: false }) } });
    expect(asked(embedded.boot().run(5_000))).toEqual([]);
  });
});
