import { describe, expect, it } from 'vitest';
import { withTopology } from '../../../../src/machines/model/csi/migrated-topology.ts';

const GA = 'topology.kubernetes.io';
const BETA = 'failure-domain.beta.kubernetes.io';
const zoneOnly = { zone: 'driver/zone' };
const both = { zone: 'driver/zone', region: 'driver/region' };
const within = (key: string, ...values: string[]) => ({ key, operator: 'In', values });
const affinity = (...terms: ReturnType<typeof within>[][]) => ({
  nodeAffinity: { required: { nodeSelectorTerms: terms.map((matchExpressions) => ({ matchExpressions })) } },
});

describe('the topology of a volume whose driver took the place of a plugin', () => {
  it('is in the driver’s label where its affinity has a zone', () => {
    const spec = affinity([within(`${GA}/zone`, 'a'), within('disk', 'ssd')], [within(`${GA}/zone`, 'b')]);
    expect(withTopology(spec, { [`${GA}/zone`]: 'other' }, zoneOnly)).toEqual(
      affinity([within('driver/zone', 'a'), within('disk', 'ssd')], [within('driver/zone', 'b')]),
    );
  });

  it('is taken from the labels of the volume, in each term, if its affinity has no zone', () => {
    const labels = { [`${BETA}/zone`]: 'b__ a__a__' };
    expect(withTopology({}, labels, zoneOnly)).toEqual(affinity([within('driver/zone', 'a', 'b')]));
    expect(withTopology(affinity([within('x', '1')], [within('y', '2')]), labels, zoneOnly)).toEqual(
      affinity(
        [within('x', '1'), within('driver/zone', 'a', 'b')],
        [within('y', '2'), within('driver/zone', 'a', 'b')],
      ),
    );
  });

  it('names a region by today’s label of Kubernetes, or by that of its driver', () => {
    const spec = affinity([within(`${BETA}/zone`, 'a'), within(`${BETA}/region`, 'r')]);
    expect(withTopology(spec, {}, zoneOnly)).toEqual(
      affinity([within('driver/zone', 'a'), within(`${GA}/region`, 'r')]),
    );
    expect(withTopology(spec, {}, both)).toEqual(affinity([within('driver/zone', 'a'), within('driver/region', 'r')]));
  });

  it('has the zone of a driver with regions as it is', () => {
    const labels = { [`${GA}/zone`]: 'a__b', [`${GA}/region`]: 'r' };
    expect(withTopology({}, labels, both)).toEqual(
      affinity([within('driver/zone', 'a__b'), within('driver/region', 'r')]),
    );
  });

  it('is not limited if nothing says where the volume is', () => {
    expect(withTopology({ accessModes: [] }, { [`${GA}/zone`]: ' ' }, both)).toEqual({ accessModes: [] });
  });
});
