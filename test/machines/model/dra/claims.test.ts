/** The claims of a pod, the devices of its containers, and the claims in its status. */
import { describe, expect, it } from 'vitest';
import type { Pod } from '../../../../src/machines/model/api/pod.ts';
import {
  cdiDevicesOf,
  claimHealthOf,
  claimsWanted,
  claimVerdict,
  containerClaims,
} from '../../../../src/machines/model/dra/claims.ts';
import type { ClaimDevice } from '../../../../src/machines/model/operations/dra.ts';

const node = {};
type Claims = NonNullable<Pod['spec']['resourceClaims']>;

const pod = (resourceClaims: Claims, claims: readonly { name: string; request?: string }[] = [], status = {}): Pod => ({
  metadata: { uid: 'u1', name: 'p', namespace: 'default' },
  spec: { resourceClaims, containers: [{ name: 'app', resources: { claims: [...claims] } }] },
  status,
});
const device = (name: string, requests: readonly string[] = []): ClaimDevice => ({
  pool: 'pool',
  device: name,
  share: null,
  requests,
  cdi: [`vendor/class=${name}`],
});
const appOf = ({ spec }: Pod) => spec.containers[0]!;
const mine: Claims = [{ name: 'gpu', resourceClaimName: 'mine' }];

describe('the claims of a pod', () => {
  it('have names of their own, or of the claim that was made from a template', () => {
    const template: Claims = [...mine, { name: 'net', resourceClaimTemplateName: 'nets' }];
    const made = { resourceClaimStatuses: [{ name: 'net', resourceClaimName: 'p-net-1' }] };
    expect(claimsWanted(pod(template, [], made), node)).toEqual([
      { name: 'mine', isOwned: false },
      { name: 'p-net-1', isOwned: true },
    ]);
    expect(claimsWanted(pod(template, [], { resourceClaimStatuses: [{ name: 'net' }] }), node)).toHaveLength(1);
    expect(claimsWanted(pod(template), node)).toEqual({ error: 'pod "default/p": ResourceClaim not created yet' });
    expect(claimsWanted(pod([{ name: 'odd' }]), node)).toEqual({
      error: 'pod "default/p", spec.resourceClaim "odd": none of the supported fields are set',
    });
  });

  it('have the one for extended resources, unless the gate is off', () => {
    const status = { extendedResourceClaimStatus: { requestMappings: [], resourceClaimName: 'p-extended' } };
    expect(claimsWanted(pod([], [], status), node)).toEqual([{ name: 'p-extended', isOwned: false }]);
    expect(claimsWanted(pod([], [], status), { ignoresExtendedClaims: true })).toEqual([]);
  });

  it('name each driver once', () => {
    const results = ['a', 'b', 'a'].map((driver) => ({ driver }));
    const object = {
      metadata: { uid: 'c' },
      status: { reservedFor: [{ uid: 'u1' }], allocation: { devices: { results } } },
    };
    const asked = { uid: 'u1', pod: 'p', namespace: 'default' };
    expect(claimVerdict(object, { name: 'mine', isOwned: false }, asked)).toEqual({
      uid: 'c',
      name: 'mine',
      drivers: ['a', 'b'],
    });
  });
});

describe('a container', () => {
  const claims = { mine: { driver: [device('a', ['one']), device('b', ['two']), device('c')] } };

  it('gets the devices of the requests that it names, and those of no request', () => {
    const cdiFor = (...asked: { name: string; request?: string }[]) => {
      const each = pod(mine, asked);
      return cdiDevicesOf(each, appOf(each), node, claims);
    };
    expect(cdiFor({ name: 'gpu', request: 'one' })).toEqual(['vendor/class=a', 'vendor/class=c']);
    expect(cdiFor({ name: 'gpu' })).toEqual(['vendor/class=a', 'vendor/class=b', 'vendor/class=c']);
    expect(cdiFor()).toEqual([]);
  });

  it('is not made without what it asks for', () => {
    const each = pod(mine, [{ name: 'gpu' }]);
    expect(cdiDevicesOf(each, appOf(each), node, {})).toEqual({
      error: 'internal error: unable to get claim info for ResourceClaim mine in namespace default',
    });
  });

  it('is not made without a claim whose name every object has', () => {
    const each = pod([{ name: 'gpu', resourceClaimName: 'constructor' }], [{ name: 'gpu' }]);
    expect(cdiDevicesOf(each, appOf(each), node, {})).toHaveProperty('error');
  });

  it('shows its claims, and none of others', () => {
    const each = pod([...mine, { name: 'net', resourceClaimName: 'other' }], [{ name: 'gpu' }]);
    expect(Object.keys(containerClaims(each, appOf(each), node, { ...claims, other: {} }))).toEqual(['mine']);
  });

  it('says of each request how its devices are, each device once', () => {
    const each = pod(mine, [{ name: 'gpu', request: 'one/first' }, { name: 'gpu' }]);
    const twice = { mine: { driver: [device('a', ['one']), device('a', ['one']), device('b', ['two'])] } };
    const known = { 'driver/pool/b': { health: 'Unhealthy' as const, message: 'm'.repeat(2_000) } };
    const [a, b] = ['a', 'b'].map((name) => ({ resourceID: `vendor/class=${name}` }));
    const message = `${'m'.repeat(1_021)}...`;
    expect(claimHealthOf(each, appOf(each), twice, known, true)).toEqual([
      { name: 'claim:gpu/one/first', resources: [{ ...a, health: 'Unknown' }] },
      {
        name: 'claim:gpu',
        resources: [
          { ...a, health: 'Unknown' },
          { ...b, health: 'Unhealthy', message },
        ],
      },
    ]);
    expect(claimHealthOf(each, appOf(each), twice, known, false)[1]?.resources[1]).toEqual({
      ...b,
      health: 'Unhealthy',
    });
  });

  it('names a device without CDI names by its driver', () => {
    const each = pod(mine, [{ name: 'gpu' }]);
    const bare = { mine: { driver: [{ ...device('a'), cdi: [] }] } };
    expect(claimHealthOf(each, appOf(each), bare, {}, true)[0]?.resources[0]?.resourceID).toBe('driver/pool/a');
  });
});
