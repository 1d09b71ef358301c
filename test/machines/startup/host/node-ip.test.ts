/** `--node-ip` as upstream reads it. */
import { describe, expect, it } from 'vitest';
import type { KubeletFlags } from '../../../../src/machines/configuration/index.ts';
import { parseNodeIPs, resolveNodeIPs } from '../../../../src/machines/startup/host/node-ip.ts';

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
    const host = [
      { address: '192.0.2.1', family: 'IPv4' },
      { address: 'fd00::1', family: 'IPv6' },
    ] as const;
    const resolved = (nodeIP: string) => resolveNodeIPs({ nodeIP, cloudProvider: '' } as KubeletFlags, host);
    expect(resolved('')).toEqual({ ok: true, value: ['192.0.2.1'] });
    expect(resolved('::')).toEqual({ ok: true, value: ['fd00::1'] });
    expect(resolved('0.0.0.0')).toEqual({ ok: true, value: ['192.0.2.1'] });
    expect(resolved('192.0.2.9')).toEqual({ ok: true, value: ['192.0.2.9'] });
  });
});
