/** The addresses of a host if the cloud provider sets them. */
import { describe, expect, it } from 'vitest';
import { fieldValue } from '../../../../src/machines/model/spec/environment.ts';
import { hostIPs } from '../../../../src/machines/model/spec/host-ips.ts';
import { nodeBefore, pod } from '../../charts/pods/support.ts';
import { node } from './recordings.ts';

const [internal, external, hostname] = ['InternalIP', 'ExternalIP', 'Hostname'].map((type) => (address: string) => ({
  type,
  address,
})) as [Address, Address, Address];
type Address = (address: string) => { readonly type: string; readonly address: string };

it.each([
  ['those of the machine without a provider', undefined, ['192.0.2.1']],
  ['its internal one', [hostname('n'), external('192.0.2.9'), internal('192.0.2.2')], ['192.0.2.2']],
  ['its external one if it has no other', [hostname('n'), external('192.0.2.9')], ['192.0.2.9']],
  ['one of each family', ['192.0.2.2', '192.0.2.3', 'fd00::02', 'fd00::3'].map(internal), ['192.0.2.2', 'fd00::2']],
  ['an external one of the other family', [external('192.0.2.9'), internal('fd00::2')], ['fd00::2', '192.0.2.9']],
  ['none while it is not known', [hostname('n'), internal('none')], []],
])('are %s', (_, hostAddresses, expected) => {
  expect(hostIPs({ nodeIPs: ['192.0.2.1'], ...(hostAddresses === undefined ? {} : { hostAddresses }) })).toEqual(
    expected,
  );
});

describe('variables of a container', () => {
  const of = (path: string, addresses: readonly ReturnType<Address>[], behavior = node.behavior) =>
    fieldValue(pod(), path, [], { ...node, behavior, nodeIPs: [], hostAddresses: addresses });

  it('have them', () => {
    const both = [internal('192.0.2.2'), internal('fd00::2')];
    expect(of('status.hostIP', both)).toBe('192.0.2.2');
    expect(of('status.hostIPs', both)).toBe('192.0.2.2,fd00::2');
  });

  it('wait for them', () => {
    const text = 'host IP unknown; known addresses: [{Hostname n} {InternalDNS n.internal}]';
    const known = [hostname('n'), { type: 'InternalDNS', address: 'n.internal' }];
    for (const path of ['status.hostIP', 'status.hostIPs']) expect(() => of(path, known)).toThrow(text);
    expect(of('status.hostIP', known, nodeBefore('configurationAsKubelet'))).toBe('');
  });
});
