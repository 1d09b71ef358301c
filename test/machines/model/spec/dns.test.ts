/** Tables of a pod's resolver configuration, and of the events if it differs from the pod's request. */
import { describe, expect, it } from 'vitest';
import type { PodSpec } from '../../../../src/machines/model/api/pod.ts';
import type { NodeSettings } from '../../../../src/machines/model/settings/node-settings.ts';
import { podDns } from '../../../../src/machines/model/spec/dns.ts';
import { pod } from '../../charts/pods/support.ts';
import { node } from './recordings.ts';

const dnsOf = (spec: Partial<PodSpec>, settings: Partial<NodeSettings> = {}) =>
  podDns(pod(spec), { ...node, ...settings });

const HOST = { servers: ['192.0.2.53'], searches: ['example.test'], options: ['ndots:2'] };
const CLUSTER = {
  servers: ['10.96.0.10'],
  searches: ['ns.svc.cluster.local', 'svc.cluster.local', 'cluster.local', 'example.test'],
  options: ['ndots:5'],
};

describe('policies', () => {
  it.each<[Partial<PodSpec>, object]>([
    [{ dnsPolicy: 'ClusterFirst' }, CLUSTER],
    [{ dnsPolicy: 'ClusterFirst', hostNetwork: true }, HOST],
    [{ dnsPolicy: 'ClusterFirstWithHostNet', hostNetwork: true }, CLUSTER],
    [{ dnsPolicy: 'Default' }, HOST],
    [{ dnsPolicy: 'None' }, {}],
  ])('%j', (spec, config) => expect(dnsOf(spec)).toEqual({ config, events: [], nodeEvents: [] }));

  it('names no domains of a cluster that has none', () => {
    expect(dnsOf({}, { clusterDomain: '' }).config.searches).toEqual(['example.test']);
  });

  it('falls back to the node without a cluster DNS and says so, of the pod and of the node', () => {
    const { config, events, nodeEvents } = dnsOf({ dnsPolicy: 'ClusterFirst' }, { clusterDNS: [] });
    const text =
      'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. ' +
      'Falling back to "Default" policy.';
    expect(config).toEqual(HOST);
    expect(events).toEqual([{ type: 'Warning', reason: 'MissingClusterDNS', message: `pod: "p_ns(uid-1)". ${text}` }]);
    expect(nodeEvents).toEqual([{ type: 'Warning', reason: 'MissingClusterDNS', message: text }]);
  });
});

describe('a node', () => {
  const without = { nameservers: [], searches: [], options: [], isAbsent: true };

  it('without a resolver file means itself, once for each of its addresses', () => {
    const dnsPolicy = 'Default';
    const of = (nodeIPs: readonly string[]) => dnsOf({ dnsPolicy }, { resolver: without, nodeIPs }).config;
    expect(of(['192.0.2.7', 'fd00::7'])).toEqual({ servers: ['127.0.0.1', '::1'], searches: ['.'] });
    expect(of([])).toEqual({ servers: ['127.0.0.1'], searches: ['.'] });
  });

  it('whose file names no server tells of none', () => {
    const { isAbsent: _, ...resolver } = without;
    expect(dnsOf({ dnsPolicy: 'Default' }, { resolver }).config).toEqual({});
  });
});

describe('a pod with words of its own', () => {
  it('adds to what it is given, each once', () => {
    const dnsConfig = { nameservers: ['192.0.2.1', '10.96.0.10'], searches: ['own.test', 'cluster.local'] };
    expect(dnsOf({ dnsConfig }).config).toEqual({
      ...CLUSTER,
      servers: ['10.96.0.10', '192.0.2.1'],
      searches: [...CLUSTER.searches, 'own.test'],
    });
  });

  it('has the last word about options, and of its own words the last', () => {
    const options = [
      { name: 'ndots', value: '1' },
      { name: 'ndots', value: '3' },
      { name: 'edns0' },
      { name: 'rotate', value: '' },
    ];
    expect(dnsOf({ dnsConfig: { options } }).config.options).toEqual(['ndots:3', 'edns0', 'rotate']);
  });
});

describe('limits', () => {
  const nameservers = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'];

  it('keeps what a resolver reads and says what it left out', () => {
    const searches = Array.from({ length: 40 }, (_, index) => `s${index}.test`);
    const { config, events } = dnsOf({ dnsPolicy: 'None', dnsConfig: { nameservers, searches } });
    expect(config.servers).toHaveLength(3);
    expect(config.searches).toHaveLength(32);
    expect(events.map(({ message }) => message)).toEqual([
      'Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: ' +
        '192.0.2.1 192.0.2.2 192.0.2.3',
      'Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ' +
        searches.slice(0, 32).join(' '),
    ]);
  });

  it('counts the characters of the search line', () => {
    const searches = Array.from({ length: 20 }, (_, index) => `${'x'.repeat(200)}${index}.test`);
    const { config } = dnsOf({ dnsPolicy: 'None', dnsConfig: { nameservers: ['192.0.2.1'], searches } });
    expect(config.searches?.join(' ').length).toBeLessThanOrEqual(2048);
    expect(config.searches?.length).toBeGreaterThan(8);
  });

  it('leaves a domain out that is too long for a resolver', () => {
    const dnsConfig = { nameservers: ['192.0.2.1'], searches: ['x'.repeat(254), 'short.test'] };
    const { config, events } = dnsOf({ dnsPolicy: 'None', dnsConfig });
    expect(config.searches).toEqual(['short.test']);
    expect(events[0]?.message).toMatch(/the applied search line is: short\.test$/);
  });
});
