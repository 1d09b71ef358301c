/** The parts of a pod's status that stay while the node knows nothing newer. */
import { describe, expect, it } from 'vitest';
import type { Pod } from '../../../../src/machines/model/api/pod.ts';
import { podStatus } from '../../../../src/machines/model/status/pod-status.ts';
import { settings } from '../../../support/pods-node.ts';
import { pod } from '../../charts/pods/support.ts';

describe('the addresses of a pod in the network of its host', () => {
  const hosted = pod({ hostNetwork: true });
  const of = (given: Pod, hostAddresses: readonly { type: string; address: string }[]) => {
    const node = { ...settings, hostAddresses };
    const { hostIP, hostIPs, podIP, podIPs } = podStatus({ pod: given, runtime: null, node, nowMs: 0, previous: null });
    return { hostIP, hostIPs, podIP, podIPs };
  };
  const ADDRESS = '192.0.2.7';
  const known = { hostIP: ADDRESS, hostIPs: [{ ip: ADDRESS }], podIP: ADDRESS, podIPs: [{ ip: ADDRESS }] };

  it('are those of the Node, where a cloud provider sets them', () => {
    expect(of(hosted, [{ type: 'InternalIP', address: ADDRESS }])).toEqual(known);
    expect(of(hosted, [])).toEqual({});
  });

  it('stay after a restart of the agent until those of the Node are known', () => {
    const before: Pod = { ...hosted, status: known };
    expect(of(before, [{ type: 'Hostname', address: 'n' }])).toEqual(known);
    const other = of(before, [{ type: 'InternalIP', address: '192.0.2.8' }]);
    expect(other).toMatchObject({ hostIP: '192.0.2.8', podIP: '192.0.2.8' });
  });
});
