/** `--node-ip` as in upstream. */
import { describe, expect, it } from 'vitest';
import {
  chooseNodeIPs,
  leavesAddressesToCloud,
  nameToLookUp,
  parseNodeIPs,
  resolveNodeIPs,
  specifiedNodeIPs,
} from '../../../../src/machines/startup/host/node-ip.ts';

const DUAL = 'must contain either a single IP or a dual-stack pair of IPs';

describe('--node-ip', () => {
  it.each([
    ['10.0.0.1', ['10.0.0.1']],
    [' 010.000.0.1 , fd00::1', ['010.000.0.1', 'fd00::1']],
    ['nonsense,fe80::1%eth0,1::2::3,::1', ['::1']],
    ['::ffff:10.0.0.1,fd00::1', ['::ffff:10.0.0.1', 'fd00::1']],
  ])('%j names %j', (text, value) => {
    expect(parseNodeIPs(text, '')).toEqual({ ok: true, value });
  });

  it.each([
    ['10.0.0.1,10.0.0.2', '', DUAL],
    ['::ffff:10.0.0.1,10.0.0.2', '', DUAL],
    ['10.0.0.1,fd00::1,fd00::2', '', DUAL],
    ['10.0.0.1,fd00::1', 'gce', 'dual-stack not supported in this configuration'],
    ['0.0.0.0,fd00::1', '', "dual-stack node IP cannot include '0.0.0.0' or '::'"],
  ])('%j with cloud provider %j is refused', (text, provider, reason) => {
    expect(parseNodeIPs(text, provider)).toEqual({ ok: false, message: `bad --node-ip "${text}": ${reason}` });
  });

  it('without an address takes the first of the machine, of the family that was named', () => {
    const addresses = [
      { interface: 'a', address: '192.0.2.1', family: 'IPv4' },
      { interface: 'a', address: 'fd00::1', family: 'IPv6' },
    ] as const;
    const resolved = (nodeIP: string) => resolveNodeIPs({ nodeIP, cloudProvider: '' }, { addresses });
    expect(resolved('')).toEqual({ ok: true, value: ['192.0.2.1'] });
    expect(resolved('::')).toEqual({ ok: true, value: ['fd00::1'] });
    expect(resolved('0.0.0.0')).toEqual({ ok: true, value: ['192.0.2.1'] });
    expect(resolved('192.0.2.9')).toEqual({ ok: true, value: ['192.0.2.9'] });
  });

  it('asks for the addresses of the name only where they count', () => {
    const wanted = (nodeIP: string, cloudProvider: string, name = 'node1') =>
      nameToLookUp({ nodeIP, cloudProvider }, name).lookUp;
    expect([wanted('', ''), wanted('::', ''), wanted('::', 'external')]).toEqual(['node1', 'node1', 'node1']);
    expect([wanted('192.0.2.1', ''), wanted('', 'external'), wanted('', '', '192.0.2.7')]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('leaves them to a cloud provider unless they are named, and writes them as Go does', () => {
    const flags = { nodeIP: '192.0.2.002, fd00:0:0::0002', cloudProvider: 'external' };
    expect(specifiedNodeIPs(flags)).toEqual(['192.0.2.2', 'fd00::2']);
    expect(leavesAddressesToCloud(flags)).toBe(false);
    expect(leavesAddressesToCloud({ ...flags, nodeIP: '' })).toBe(true);
    expect(specifiedNodeIPs({ ...flags, nodeIP: '0.0.0.0' })).toEqual([]);
  });
});

/** The `status.addresses` of a kubelet 1.36.2 for the same inputs. */
describe('the addresses of a node', () => {
  const machine = {
    addresses: [
      { interface: 'aaa0', address: '172.16.0.1', family: 'IPv4' },
      { interface: 'ext0', address: '192.0.2.2', family: 'IPv4' },
      { interface: 'ext0', address: 'fd00::2', family: 'IPv6' },
    ],
    local: ['127.0.0.1', '::1', '172.16.0.1', '192.0.2.2', 'fd00::2', 'fe80::1'],
    found: [],
    routed: ['192.0.2.2', 'fd00::2'],
  } as const;
  const chosen = (nodeIP: string, more: object = {}, hostname = 'node1') =>
    chooseNodeIPs({ nodeIP, cloudProvider: '' }, hostname, { ...machine, ...more });

  it.each([
    ['the default route', '', {}, ['192.0.2.2']],
    ['the default route of that family', '::', {}, ['fd00::2']],
    ['the other family, where there is no such route', '::', { routed: ['192.0.2.2'] }, ['192.0.2.2']],
    ['the name', '', { found: ['127.0.1.1', 'fd00::2', '172.16.0.1'] }, ['172.16.0.1']],
    ['the name, of another family', '', { found: ['127.0.1.1', 'fd00::2'] }, ['fd00::2']],
    ['not the name of another machine', '', { found: ['192.0.2.77'] }, ['192.0.2.2']],
    ['the first of the machine without any route', '', { routed: [] }, ['172.16.0.1']],
    ['the flag', '192.0.2.002,FD00::2', {}, ['192.0.2.2', 'fd00::2']],
    ['the flag, of the loopback', '127.0.0.1', { local: ['127.0.0.1'] }, ['127.0.0.1']],
  ])('are of %s', (_, nodeIP, more, nodeIPs) => {
    expect(chosen(nodeIP, more)).toEqual({ nodeIPs });
  });

  it('are that which the node has for a name', () => {
    expect(chosen('', {}, '198.51.100.007')).toEqual({ nodeIPs: ['198.51.100.7'] });
  });

  it.each([
    ['224.0.0.1', "failed to validate nodeIP: nodeIP can't be a multicast address"],
    ['fe80::1', "failed to validate nodeIP: nodeIP can't be a link-local unicast address"],
    ['192.0.2.99', 'failed to validate nodeIP: node IP: "192.0.2.99" not found in the host\'s network interfaces'],
    [
      '192.0.2.2,fd00::9',
      'failed to validate secondaryNodeIP: node IP: "fd00::9" not found in the host\'s network interfaces',
    ],
  ])('are none where --node-ip is %s', (nodeIP, addressProblem) => {
    expect(chosen(nodeIP)).toEqual({ nodeIPs: [], addressProblem });
  });
});
