/** Volumes of NFS servers: the node's mounts for a pod, and which of them are read-only. */
import { describe, expect, it } from 'vitest';
import type { Pod, Volume } from '../../../../src/machines/model/api/pod.ts';
import { type ConfigObjects, objectKey } from '../../../../src/machines/model/objects/config-objects.ts';
import type { NodeSettings } from '../../../../src/machines/model/settings/node-settings.ts';
import { volumePlan } from '../../../../src/machines/model/volumes/plan.ts';
import { settings } from '../../../support/pods-node.ts';

const SIZE = { claim: { namespace: 'default', name: 'c', uid: 'c1' }, had: '', status: '' };
const apiServer = { changeDetection: 'Watch' } as const;
const folder = (name: string) => `/var/lib/kubelet/pods/u1/volumes/kubernetes.io~nfs/${name}`;
const claim = (more: object = {}): Volume => ({ name: 'v', persistentVolumeClaim: { claimName: 'c', ...more } });

function planOf(volumes: readonly Volume[], bound: object = {}, node: Partial<NodeSettings> = {}) {
  const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `/${name}` }));
  const pod = {
    metadata: { name: 'p', namespace: 'default', uid: 'u1' },
    spec: { containers: [{ name: 'c', volumeMounts }], securityContext: { fsGroup: 7 }, volumes },
  } as Pod;
  const object = { kind: 'PersistentVolumeClaim', namespace: 'default', name: 'c', version: '1', data: {} };
  const held = {
    name: 'pv',
    owner: '',
    nodeMismatch: '',
    size: SIZE,
    spec: { nfs: { server: 's', path: '/d' } },
    ...bound,
  };
  const objects = { [objectKey('PersistentVolumeClaim', 'default', 'c')]: { ...object, bound: held } } as ConfigObjects;
  return volumePlan({ pod, node: { ...settings, apiServer, ...node }, objects });
}
const inline = (nfs: object, node: Partial<NodeSettings> = {}) =>
  planOf([{ name: 'v', nfs: { server: 's', path: '/d', ...nfs } }], {}, node);

describe('a volume of a pod', () => {
  it('is mounted in the pod’s folder, and keeps its group', () => {
    expect(inline({})).toEqual({
      mounted: { v: { hostPath: folder('v') } },
      setUps: [{ kind: 'nfs', name: 'v', source: 's:/d', path: folder('v'), options: [] }],
      csi: [],
      failures: [],
    });
  });

  it('may be read-only', () => {
    const { mounted, setUps } = inline({ readOnly: true });
    expect(mounted['v']).toEqual({ hostPath: folder('v'), readOnly: true });
    expect(setUps).toMatchObject([{ options: ['ro'] }]);
  });

  it.each([
    ['fd00::1', '[fd00::1]:/d'],
    ['::ffff:1.2.3.4', '[::ffff:1.2.3.4]:/d'],
    ['10.0.0.1', '10.0.0.1:/d'],
    ['a:b', 'a:b:/d'],
    ['fe80::1%eth0', 'fe80::1%eth0:/d'],
  ])('on server %s is %s', (server, source) => expect(inline({ server }).setUps).toMatchObject([{ source }]));

  it('has no SELinux label of the pod', () => {
    expect(inline({}, { seLinux: true }).mounted['v']).not.toHaveProperty('relabel');
  });

  it('was no volume before', () => {
    expect(inline({}, { behavior: 0 })).toMatchObject({
      setUps: [],
      failures: [{ name: 'v', message: expect.stringContaining('which this node agent cannot set up; use hostPath,') }],
    });
  });
});

describe('a volume behind a claim', () => {
  it('has the name of the PersistentVolume, and the options of mount(8) that it says', () => {
    const spec = {
      nfs: { server: 's', path: '/d', readOnly: true },
      mountOptions: ['nfsvers=4.1', '', 'hard', 'hard'],
    };
    expect(planOf([claim()], { spec, groupId: 5 })).toMatchObject({
      mounted: { v: { hostPath: folder('pv'), groupId: 5 } },
      setUps: [{ kind: 'nfs', spec: 'pv', source: 's:/d', path: folder('pv'), options: ['hard', 'nfsvers=4.1'] }],
    });
    expect(planOf([claim()], { spec }).mounted['v']).not.toHaveProperty('readOnly');
  });

  it('is read-only if the pod says so', () => {
    const { mounted, setUps } = planOf([claim({ readOnly: true })]);
    expect(mounted['v']).toEqual({ hostPath: folder('pv'), readOnly: true });
    expect(setUps).toMatchObject([{ options: ['ro'] }]);
  });

  it('is mounted once for two volumes of the pod', () => {
    const { mounted, setUps } = planOf([claim(), { ...claim(), name: 'w' }]);
    expect(Object.keys(mounted)).toEqual(['v', 'w']);
    expect(setUps).toHaveLength(1);
  });

  it('is beside a volume of the pod that has the name of the PersistentVolume', () => {
    const { setUps } = planOf([claim(), { name: 'pv', nfs: { server: 't', path: '/' } }]);
    expect(setUps).toHaveLength(2);
  });

  it('is no block device', () => {
    const [failure] = planOf([claim()], { spec: { nfs: { server: 's', path: '/d' }, volumeMode: 'Block' } }).failures;
    expect(failure).toMatchObject({ name: 'v', message: expect.stringContaining('is specified in volumeMounts') });
  });
});
