/** The defaults in manifests, by the Go kubelet 1.36.2, and by a node of 0.2.0. */
import { describe, expect, it } from 'vitest';
import { publishStaticPods } from '../../../../../src/machines/charts/pods/config/pod-source.ts';
import { staticPod } from '../../../../../src/machines/model/pods/static-pod.ts';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';

const BEFORE = { behavior: 0 };
const NOW = { behavior: NEWEST_BEHAVIOR };

function filled(spec: object, metadata: object = {}, node = NOW) {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'a', ...metadata },
    spec: { containers: [{ name: 'c', image: 'i' }], ...spec },
  };
  const value = JSON.parse(JSON.stringify(pod));
  const built = staticPod({ file: '/m/a', uid: 'u1', value }, 'node1', false, 'none', node);
  if (built.errors !== undefined) throw new Error(built.errors.join('\n'));
  return built.pod;
}
function refusalOf(spec: object, metadata: object): string {
  try {
    filled(spec, metadata);
  } catch (error) {
    return (error as Error).message;
  }
  return '';
}
const container = (name: string, resources: object) => ({ name, image: 'i', resources });

describe('the resources of a whole pod', () => {
  const containers = [
    container('c', { requests: { cpu: '60m' }, limits: { memory: '500Mi' } }),
    container('d', { requests: { cpu: '60m' } }),
  ];

  it.each([
    [{ limits: { cpu: '1', memory: '1Gi' } }, { cpu: '120m', memory: '500Mi' }],
    [
      { limits: { cpu: '1' }, requests: { cpu: '500m' } },
      { cpu: '500m', memory: '500Mi' },
    ],
    [{ requests: { cpu: '1' } }, { cpu: '1' }],
  ])('%j request %j', (resources, requests) => {
    expect(filled({ containers, resources }).spec.resources?.requests).toEqual(requests);
  });

  it('are the limits where no container requests anything', () => {
    const { resources } = filled({ resources: { limits: { cpu: '1', memory: '1Gi' } } }).spec;
    expect(resources?.requests).toEqual({ cpu: '1', memory: '1Gi' });
  });

  it('have the huge pages of its containers', () => {
    const paged = [container('c', { limits: { cpu: '1', 'hugepages-2Mi': '4Mi' } })];
    const { resources } = filled({ containers: paged, resources: { limits: { cpu: '2' } } }).spec;
    expect(resources).toEqual({
      limits: { cpu: '2', 'hugepages-2Mi': '4Mi' },
      requests: { cpu: '1', 'hugepages-2Mi': '4Mi' },
    });
  });

  it('were the limits for a node of 0.2.0', () => {
    const { resources } = filled({ containers, resources: { limits: { cpu: '1' } } }, {}, BEFORE).spec;
    expect(resources?.requests).toEqual({ cpu: '1' });
  });
});

it('fields that only others read are kept, and were dropped by a node of 0.2.0', () => {
  const metadata = { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'x', uid: 'y' }], generation: 2 };
  expect(filled({}, metadata).metadata).toMatchObject(metadata);
  expect(filled({}, metadata, BEFORE).metadata).not.toHaveProperty('ownerReferences');
});

it.each([
  [{ rbd: { monitors: ['a'], image: 'b' } }, { pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring' }],
  [{ scaleIO: { gateway: 'a', system: 'b', volumeName: 'c' } }, { storageMode: 'ThinProvisioned', fsType: 'xfs' }],
  [
    { azureDisk: { diskName: 'a', diskURI: 'https://a' } },
    { cachingMode: 'ReadWrite', fsType: 'ext4', readOnly: false, kind: 'Shared' },
  ],
])('a volume with %j has %j', (source, expected) => {
  const [volume] = filled({ volumes: [{ name: 'v', ...source }] }).spec.volumes ?? [];
  expect(Object.values(volume ?? {})).toContainEqual(expect.objectContaining(expected));
});

it.each([
  ['is refused that', { finalizers: ['x'] }, {}],
  ['is refused that', {}, { affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{}] } } }],
  ['is refused that', {}, { topologySpreadConstraints: [{}] }],
  ['is refused that', { annotations: { 'container.apparmor.security.beta.kubernetes.io/c': 'x' } }, {}],
])('a manifest %s has %j and %j; a node of 0.2.0 took it', (_, metadata, spec) => {
  expect(() => filled(spec, metadata)).toThrow(/: (Invalid|Required|Unsupported) value/);
  expect(filled(spec, metadata, BEFORE).metadata.name).toBe('a-node1');
});

it.each([
  { volumes: [{ name: 'v', image: {} }] },
  { dnsConfig: { searches: ['_tcp.example.com'] } },
  { os: { name: 'windows' } },
])('a manifest with %j is taken; a node of 0.2.0 refused it', (spec) => {
  expect(filled(spec).metadata.name).toBe('a-node1');
  expect(() => filled(spec, {}, BEFORE)).toThrow();
});

it('a manifest with the annotation of a mirror pod is not mirrored; a node of 0.2.0 did mirror it', () => {
  const pod = filled({}, { annotations: { 'kubernetes.io/config.mirror': 'x' } });
  const sent = (node: typeof NOW) => {
    const messages: string[] = [];
    const enqueue = {
      sendTo: (_: unknown, { type }: { readonly type: string }) => void messages.push(type),
      raise: () => {},
      cancel: () => {},
    };
    const publisher = { source: 'file', hasApiServer: true, receiver: 'pods', node } as const;
    publishStaticPods(enqueue, publisher, { reported: {}, seen: {} }, [pod]);
    return messages;
  };
  expect(sent(NOW)).not.toContain('mirror.wanted');
  expect(sent(BEFORE)).toContain('mirror.wanted');
});

describe('a manifest with very many entries, or very long ones', () => {
  const many = Array.from({ length: 4_000 }, (_, at) => `a${at}`);
  const labelSelector = { matchExpressions: many.map((key) => ({ key, operator: 'Exists' })) };
  const topologySpreadConstraints = many.map(() => ({
    topologyKey: 'a',
    whenUnsatisfiable: 'DoNotSchedule',
    maxSkew: 1,
  }));
  const affinity = {
    podAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: 'k', matchLabelKeys: many, labelSelector }],
    },
  };
  const ownerReferences = many.map((name) => ({ apiVersion: 'v1', kind: 'Pod', name, uid: name, controller: true }));
  const containers = many.slice(0, 1_900).map((name) => container(name, { claims: [{ name: 'none' }] }));
  const claims = many.map((name) => ({ name, resourceClaimName: name }));
  const long = 'x'.repeat(5_000);
  const longClaims = many.slice(0, 100).map((name) => ({ name: name + long, resourceClaimName: 'b' }));
  const others = container('c', { claims: many.map((name) => ({ name })) });
  const volumes = many.slice(0, 1_500).map((name) => ({ name, ephemeral: {} }));

  it.each<[string, object, object?]>([
    ['owners', {}, { ownerReferences }],
    ['containers with claims', { containers, resourceClaims: claims }],
    ['claims with long names', { containers: [others], resourceClaims: longClaims }],
    ['volumes of a pod with a long name', { volumes }, { name: long.repeat(80) }],
    [
      'selectors, and names that every object has',
      { affinity, topologySpreadConstraints },
      { annotations: JSON.parse('{"constructor":"1","__proto__":"2","toString":"3"}') },
    ],
  ])('is refused in a text that is limited: %s', (_, spec, metadata = {}) => {
    const text = refusalOf(spec, metadata);
    expect(text).toMatch(/and \d+ more errors$/);
    expect(text.length).toBeLessThan(80_000);
  });
});
