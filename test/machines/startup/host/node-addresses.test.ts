/** The node has the present addresses of its machine, as far as they are allowed. */
import { describe, expect, it } from 'vitest';
import type { MachineAddresses } from '../../../../src/machines/model/operations/host.ts';
import { nodeAddressesMachine } from '../../../../src/machines/startup/host/node-addresses.ts';
import { fail, runUnder } from '../../../support/answering-world.ts';
import { image, manifest } from '../../../support/pods-node.ts';
import { BootNode } from '../boot-node.ts';

const seen = (...addresses: readonly string[]) => ({
  type: 'addresses.seen',
  machine: {
    addresses: addresses.map((address) => ({ interface: 'eth0', address, family: 'IPv4' as const })),
    local: ['127.0.0.1', ...addresses],
    found: [],
    routed: addresses,
  } satisfies MachineAddresses,
});

const input = {
  hostname: 'node-1',
  nodeName: 'node-1',
  nodeIPs: ['192.0.2.10'],
  nodeIP: '',
  cloudProvider: '',
  periodMs: 10_000,
};

describe('the machine', () => {
  const run = (given: Partial<typeof input & { addressProblem: string }> = {}) =>
    runUnder(nodeAddressesMachine, { ...input, ...given }, { 'host.watchAddresses': 'stream' });

  it('looks for its name and for changes as often as the Node is reported', () => {
    const askedBy = (given: { readonly nodeIP?: string }) => {
      const asked: unknown[] = [];
      const watch = (call: unknown) => {
        asked.push(call);
        return 'stream' as const;
      };
      runUnder(nodeAddressesMachine, { ...input, ...given }, { 'host.watchAddresses': watch });
      return asked;
    };
    expect(askedBy({})).toEqual([{ lookUp: 'node-1', periodMs: 10_000 }]);
    expect(askedBy({ nodeIP: '192.0.2.10' })).toEqual([{ periodMs: 10_000 }]);
  });

  it('tells of other addresses once', () => {
    const started = run();
    for (const address of ['192.0.2.10', '192.0.2.11', '192.0.2.11'])
      started.emit('host.watchAddresses', seen(address));
    expect(started.sent()).toEqual([{ to: 'parent', type: 'addresses.changed', nodeIPs: ['192.0.2.11'] }]);
    expect(started.divergence()).toBeNull();
  });

  it('keeps its addresses while the machine has none, and says so once', () => {
    const started = run();
    for (const addresses of [[], [], ['192.0.2.10']]) started.emit('host.watchAddresses', seen(...addresses));
    expect(started.logged()).toEqual(['Failed to set some node status fields', 'The addresses of this node changed']);
    expect(started.sent()).toMatchObject([{ nodeIPs: ['192.0.2.10'] }]);
  });

  it('takes no address but that of its name or of a default route instead of its own', () => {
    const started = run();
    const { machine } = seen('10.100.0.1', '192.0.2.10');
    started.emit('host.watchAddresses', { type: 'addresses.seen', machine: { ...machine, routed: [] } });
    expect([started.sent(), started.logged()]).toEqual([[], []]);
    const { machine: other } = seen('10.100.0.1');
    started.emit('host.watchAddresses', { type: 'addresses.seen', machine: { ...other, routed: [] } });
    expect(started.sent()).toEqual([]);
    expect(started.logged()).toEqual(['Failed to set some node status fields']);
  });

  it('takes any address while it has none', () => {
    const started = run({ nodeIPs: [] });
    const { machine } = seen('192.0.2.10');
    started.emit('host.watchAddresses', { type: 'addresses.seen', machine: { ...machine, routed: [] } });
    expect(started.sent()).toMatchObject([{ nodeIPs: ['192.0.2.10'] }]);
  });

  it('gets the address of --node-ip when the machine gets it', () => {
    const problem = `failed to validate nodeIP: node IP: "192.0.2.20" not found in the host's network interfaces`;
    const started = run({ nodeIP: '192.0.2.20', nodeIPs: [], addressProblem: problem });
    started.emit('host.watchAddresses', seen('192.0.2.10'));
    expect(started.sent()).toEqual([]);
    expect(started.logged()).toEqual([]);
    started.emit('host.watchAddresses', seen('192.0.2.10', '192.0.2.20'));
    expect(started.sent()).toMatchObject([{ nodeIPs: ['192.0.2.20'] }]);
  });

  it('opens a broken watch again', () => {
    let opened = 0;
    const started = runUnder(nodeAddressesMachine, input, {
      'host.watchAddresses': () => (opened++ === 0 ? fail('no sockets left') : 'stream'),
    });
    started.time.advanceTo(started.time.now() + 10_000);
    expect(started.asked()).toEqual(['host.watchAddresses', 'host.watchAddresses']);
    expect(started.state()).toBe('watching');
  });
});

it('pods and the Node get the addresses that the machine has now', () => {
  const node = new BootNode();
  node.world.pods.registry.set('app:1', image('app:1'));
  node.world.pods.setManifests([manifest({ uid: 'u1' })]);
  node.boot().run(10_000);
  node.world.emit('host.watchAddresses', seen('192.0.2.99'));
  node.run(5_000);
  expect(node.kernel.snapshotOf('kubelet/pods/pod-u1')).toMatchObject({
    context: { node: { nodeIPs: ['192.0.2.99'] } },
  });
  expect(node.kernel.snapshotOf('kubelet')).toMatchObject({ context: { node: { nodeIPs: ['192.0.2.99'] } } });
  expect(node.crashes()).toEqual([]);
  expect(node.replay().divergence).toBeNull();
});
