/** What volumes require of the node, table by table: media, files, references. */
import { describe, expect, it } from 'vitest';
import type { Pod, PodSpec, Volume } from '../../../../src/machines/model/api/pod.ts';
import {
  type ConfigObjects,
  differ,
  environmentReferences,
  handlesIn,
  objectKey,
  objectKeysOf,
} from '../../../../src/machines/model/objects/config-objects.ts';
import type { ConfigObject } from '../../../../src/machines/model/operations/volume.ts';
import type { NodeSettings } from '../../../../src/machines/model/settings/node-settings.ts';
import { volumePlan } from '../../../../src/machines/model/volumes/plan.ts';
import { withMounts } from '../../../../src/simulation/world/kube-world.ts';
import { settings } from '../../../support/pods-node.ts';

const podOf = (spec: Partial<PodSpec>, labels = {}): Pod => ({
  metadata: { name: 'p', namespace: 'default', uid: 'u1', labels },
  spec: { containers: [{ name: 'c' }], ...spec },
});
const HANDLE = { $secret: `§${'h'.repeat(22)}`, len: 3 };
const object = (kind: ConfigObject['kind'], name: string, data: ConfigObject['data']): ConfigObjects => ({
  [objectKey(kind, 'default', name)]: { kind, namespace: 'default', name, version: JSON.stringify(data), data },
});
const objects = {
  ...object('ConfigMap', 'cm', { a: { text: '1' }, b: { base64: 'gAH/' } }),
  ...object('Secret', 's', { p: { text: HANDLE } }),
};
const SIZE = { claim: { namespace: 'default', name: 'c', uid: 'c1' }, had: '', status: '' };
const MEMORY = { memoryCapacityBytes: '1000', allocatable: {} } as Partial<NodeSettings>;

function plan(volume: Omit<Volume, 'name'>, spec: Partial<PodSpec> = {}, node: Partial<NodeSettings> = MEMORY) {
  const volumes = [{ name: 'v', ...volume }];
  const { spec: given, ...pod } = podOf({ ...spec, volumes }, { k: 'v"' });
  const seen = { ...pod, spec: { ...given, containers: [...withMounts(given.containers, volumes)] } };
  return volumePlan({ pod: seen, node: { ...settings, ...node }, objects });
}
const only = (...args: Parameters<typeof plan>) => plan(...args).setUps[0];
const failure = (...args: Parameters<typeof plan>) => plan(...args).failures[0]?.message;
const mountOf = (...args: Parameters<typeof plan>) => {
  const setUp = only(...args);
  return setUp && 'mount' in setUp ? setUp.mount : null;
};
const filesOf = (...args: Parameters<typeof plan>) => {
  const setUp = only(...args);
  return setUp?.kind === 'files' ? setUp.files.map(({ path, mode }) => `${path} ${mode.toString(8)}`) : [];
};
const limited = (memory: string) => ({ containers: [{ name: 'c', resources: { limits: { memory } } }] });

describe('where a volume lies', () => {
  it.each([
    ['emptyDir', { emptyDir: {} }, 'empty-dir', undefined],
    ['configMap', { configMap: { name: 'cm' } }, 'configmap', true],
    ['secret', { secret: { secretName: 's' } }, 'secret', true],
    ['downwardAPI', { downwardAPI: {} }, 'downward-api', true],
    ['projected', { projected: { sources: [] } }, 'projected', true],
  ])('%s', (_, volume, plugin, readOnly) => {
    const { mounted, failures } = plan(volume);
    expect(failures).toEqual([]);
    expect(mounted['v']).toEqual({
      hostPath: `/var/lib/kubelet/pods/u1/volumes/kubernetes.io~${plugin}/v`,
      ...(readOnly === undefined ? {} : { readOnly }),
    });
  });

  it('is left alone when no container mounts it, also where a variable names it', () => {
    const fileKeyRef = { volumeName: 'v', path: 'f', key: 'k' };
    const containers = [{ name: 'c', env: [{ name: 'A', valueFrom: { fileKeyRef } }] }];
    const pod = podOf({ containers, volumes: [{ name: 'v', emptyDir: {} }] });
    expect(volumePlan({ pod, node: settings, objects })).toMatchObject({ mounted: {}, setUps: [], failures: [] });
  });

  it('hostPath: where its author says, and only a type is checked', () => {
    expect(plan({ hostPath: { path: '/x' } })).toEqual({
      mounted: { v: { hostPath: '/x' } },
      setUps: [],
      csi: [],
      failures: [],
    });
    expect(plan({ hostPath: { path: '/x', type: '' } }).setUps).toEqual([]);
    expect(only({ hostPath: { path: '/x', type: 'File' } })).toEqual({
      kind: 'host',
      name: 'v',
      path: '/x',
      type: 'File',
    });
  });

  it.each([
    ['cephfs', { cephfs: { monitors: ['m'] } }],
    ['persistentVolumeClaim', { persistentVolumeClaim: { claimName: 'x' } }],
    ['csi', { csi: { driver: 'd' } }],
    ['none', {}],
  ])('%s is refused by name', (kind, volume) => {
    expect(failure(volume)).toContain(`volume "v" is of kind ${kind}, which this node agent cannot set up`);
  });
});

const BOUND = { name: 'pv', owner: '', nodeMismatch: '', size: SIZE };
function claimed(bound: object, claim: object = {}, spec: Partial<PodSpec> = {}, node: Partial<NodeSettings> = MEMORY) {
  const volumes = [claim].flat().map((each, at) => ({
    name: 'v'.repeat(at + 1),
    persistentVolumeClaim: { claimName: 'c', ...each },
  }));
  const pod = podOf({ ...spec, volumes, containers: [...withMounts([{ name: 'c' }], volumes)] });
  const key = objectKey('PersistentVolumeClaim', 'default', 'c');
  const object = { kind: 'PersistentVolumeClaim', namespace: 'default', name: 'c', version: '1', data: {} };
  const objects = { [key]: { ...object, bound: { ...BOUND, ...bound } } } as ConfigObjects;
  const apiServer = { changeDetection: 'Watch' } as const;
  return volumePlan({ pod, node: { ...settings, ...node, apiServer }, objects });
}

describe('behind a claim', () => {
  const local = { spec: { local: { path: '/l' } } };
  const path = '/var/lib/kubelet/pods/u1/volumes/kubernetes.io~local-volume/pv';

  it.each([
    ['nobody’s group', {}, {}, null],
    ['the pod’s group', {}, { fsGroup: 7 }, { groupId: 7, onlyTop: false }],
    ['its top', {}, { fsGroup: 7, fsGroupChangePolicy: 'OnRootMismatch' }, { groupId: 7, onlyTop: true }],
    ['nobody may write', { readOnly: true }, { fsGroup: 7 }, null],
  ])('a folder of the node is bound: %s', (_, claim, securityContext, ownership) => {
    const { mounted, setUps } = claimed(local, claim, { securityContext });
    const filesystem = { type: 'ext4', options: [], readOnly: 'readOnly' in claim };
    expect(setUps).toEqual([{ kind: 'local', name: 'v', spec: 'pv', source: '/l', path, ownership, filesystem }]);
    expect(mounted['v']).toEqual({ hostPath: path, ...claim });
  });

  it('a folder of the node that a pod claims twice is bound once, for the group when it is written to', () => {
    const { mounted, setUps } = claimed(local, [{ readOnly: true }, {}], { securityContext: { fsGroup: 7 } });
    const ownership = { groupId: 7, onlyTop: false };
    const filesystem = { type: 'ext4', options: [], readOnly: false };
    expect(setUps).toEqual([{ kind: 'local', name: 'vv', spec: 'pv', source: '/l', path, ownership, filesystem }]);
    expect(mounted).toEqual({ v: { hostPath: path, readOnly: true }, vv: { hostPath: path } });
  });

  it('a path of the node is checked under the volume’s name, and its group goes with it', () => {
    const { mounted, setUps } = claimed({ spec: { hostPath: { path: '/h', type: 'File' } }, groupId: 1234 });
    expect(setUps).toEqual([{ kind: 'host', name: 'v', spec: 'pv', path: '/h', type: 'File' }]);
    expect(mounted['v']).toEqual({ hostPath: '/h', groupId: 1234 });
  });
});

describe('a machine with SELinux', () => {
  const seLinux = { ...MEMORY, seLinux: true };

  it.each([
    ['emptyDir', { emptyDir: {} }, true],
    ['configMap', { configMap: { name: 'cm' } }, true],
    ['secret', { secret: { secretName: 's' } }, true],
    ['downwardAPI', { downwardAPI: {} }, true],
    ['projected', { projected: { sources: [] } }, true],
    ['image', { image: { reference: 'i' } }, true],
    ['hostPath: the label of the host’s files stays', { hostPath: { path: '/x' } }, undefined],
  ])('gives containers their label: %s', (_, volume, relabel) => {
    expect(plan(volume, {}, seLinux).mounted['v']?.relabel).toBe(relabel);
    expect(plan(volume).mounted['v']).not.toHaveProperty('relabel');
  });

  it.each([
    ['a folder of the node', { local: { path: '/l' } }, {}, true],
    ['that nobody may write', { local: { path: '/l' } }, { readOnly: true }, undefined],
    ['that is the host’s', { hostPath: { path: '/h' } }, {}, undefined],
    ['of a driver', { csi: { driver: 'd', volumeHandle: 'h' } }, {}, true],
    ['of a driver that nobody may write', { csi: { driver: 'd', volumeHandle: 'h' } }, { readOnly: true }, undefined],
  ])('behind a claim: %s', (_, spec, claim, relabel) => {
    const { mounted, failures } = claimed({ spec }, claim, {}, seLinux);
    expect(failures).toEqual([]);
    expect(mounted['v']?.relabel).toBe(relabel);
  });
});

describe('medium', () => {
  const memory = (sizeLimit?: string) => ({ emptyDir: { medium: 'Memory', ...(sizeLimit ? { sizeLimit } : {}) } });

  it.each([
    ['none: the disk', { emptyDir: {} }, {}, null],
    ['Memory: what the node has', memory(), {}, 'size=1000'],
    ['the limit of the volume', memory('500'), {}, 'size=500'],
    ['the limit of the pod', memory('500'), limited('300'), 'size=300'],
    [
      'a container without a limit has no limit',
      memory(),
      { containers: [...limited('300').containers, { name: 'd' }] },
      'size=1000',
    ],
    ['never more than the node has', memory('2Ki'), limited('2Ki'), 'size=1000'],
    ['no limit of nothing', memory('0'), {}, 'size=1000'],
  ])('%s', (_, volume, spec, size) => {
    const mount = mountOf(volume, spec);
    expect(mount && { ...mount }).toEqual(
      size === null ? null : { type: 'tmpfs', options: [size, 'noswap'], optional: false },
    );
  });

  it('secrets lie in memory where that is possible, config maps on disk', () => {
    expect(mountOf({ secret: { secretName: 's' } })).toMatchObject({ type: 'tmpfs', optional: true });
    expect(mountOf({ projected: { sources: [] } })).toMatchObject({ type: 'tmpfs', optional: true });
    expect(mountOf({ downwardAPI: {} })).toMatchObject({ type: 'tmpfs', optional: true });
    expect(mountOf({ configMap: { name: 'cm' } })).toBeNull();
  });

  const paged = (...sizes: readonly string[]) => ({
    containers: sizes.map((size, at) => ({ name: `c${at}`, resources: { limits: { [`hugepages-${size}`]: '1Gi' } } })),
  });
  const withPages = { ...MEMORY, hugePageSizes: ['2MB', '1GB'] };

  it.each([
    ['HugePages-2Mi', paged('2Mi', '1Gi'), ['pagesize=2097152']],
    ['HugePages-1Gi', paged('1024Mi'), ['pagesize=1073741824']],
    ['HugePages', paged('2Mi', '2Mi'), ['pagesize=2097152']],
    ['HugePages', { resources: { limits: { 'hugepages-2Mi': '4Mi' } } }, ['pagesize=2097152']],
  ])('%s', (medium, spec, options) => {
    const mount = { type: 'hugetlbfs', options, optional: false };
    expect(mountOf({ emptyDir: { medium } }, spec, withPages)).toEqual(mount);
    expect(mountOf({ emptyDir: { medium, sizeLimit: '1Gi' } }, spec, withPages)).toEqual(mount);
  });

  const unasked = 'hugePages storage requested, but there is no resource request for huge pages';
  it.each([
    ['HugePages', {}, `medium HugePages: ${unasked}`],
    ['HugePages-2Mi', {}, `medium HugePages-2Mi: ${unasked}`],
    ['HugePages-2Mi', paged('1Gi'), `medium HugePages-2Mi: ${unasked}`],
    [
      'HugePages',
      paged('2Mi', '1Gi'),
      "medium: HugePages can't be used if container requests multiple huge page sizes",
    ],
    ['HugePages-64Ki', paged('64Ki'), 'this node has no huge pages of 65536 bytes'],
    ['Optane', {}, 'unknown storage medium "Optane"'],
  ])('%s is refused where it is not asked for, or there is none', (medium, spec, message) => {
    expect(failure({ emptyDir: { medium } }, spec, withPages)).toContain(message);
  });

  it('fsGroup goes with the volume', () => {
    expect(only({ emptyDir: {} }, { securityContext: { fsGroup: 7 } })).toMatchObject({ groupId: 7 });
    expect(only({ emptyDir: {} })).toMatchObject({ groupId: null });
  });
});

describe('files', () => {
  it.each<[string, Omit<Volume, 'name'>, string[]]>([
    ['every key', { configMap: { name: 'cm' } }, ['a 644', 'b 644']],
    ['defaultMode', { configMap: { name: 'cm', defaultMode: 0o400 } }, ['a 400', 'b 400']],
    [
      'items only, each with its mode',
      { configMap: { name: 'cm', items: [{ key: 'a', path: 'x/y', mode: 0o600 }] } },
      ['x/y 600'],
    ],
    ['an optional object that is missing', { secret: { secretName: 'no', optional: true } }, []],
    [
      'an optional key that is missing',
      { configMap: { name: 'cm', optional: true, items: [{ key: 'z', path: 'z' }] } },
      [],
    ],
    [
      'one name written twice',
      {
        configMap: {
          name: 'cm',
          items: [
            { key: 'a', path: 'x//y' },
            { key: 'b', path: './x/y' },
          ],
        },
      },
      ['x/y 644'],
    ],
    [
      'the later source',
      {
        projected: {
          defaultMode: 0o440,
          sources: [{ configMap: { name: 'cm' } }, { secret: { name: 's', items: [{ key: 'p', path: 'a' }] } }],
        },
      },
      ['a 440', 'b 440'],
    ],
  ])('%s', (_, volume, files) => expect(filesOf(volume)).toEqual(files));

  it('of a projected volume are of the later source', () => {
    const sources = [{ configMap: { name: 'cm' } }, { secret: { name: 's', items: [{ key: 'p', path: 'a' }] } }];
    expect(only({ projected: { sources } })).toMatchObject({ files: [{ path: 'a', content: { text: HANDLE } }, {}] });
  });

  it('tell a pod about itself', () => {
    const items = [
      { path: 'l', fieldRef: { fieldPath: 'metadata.labels' } },
      { path: 'm', resourceFieldRef: { containerName: 'c', resource: 'limits.memory', divisor: '1' } },
    ];
    expect(only({ downwardAPI: { items } }, limited('300'))).toMatchObject({
      files: [{ content: { text: 'k="v\\""' } }, { content: { text: '300' } }],
    });
  });

  it.each([
    ['a missing object', { configMap: { name: 'no' } }, 'configmap "no" not found'],
    ['a missing secret', { secret: { secretName: 'no' } }, 'secret "no" not found'],
    [
      'a missing key',
      { configMap: { name: 'cm', items: [{ key: 'zz', path: 'z' }] } },
      'configmap references non-existent config key: zz',
    ],
    [
      'a missing secret key',
      { secret: { secretName: 's', items: [{ key: 'zz', path: 'z' }] } },
      'references non-existent secret key: zz',
    ],
    [
      'a key that every object has',
      { configMap: { name: 'cm', items: [{ key: 'constructor', path: 'z' }] } },
      'non-existent config key: constructor',
    ],
    [
      'a token',
      { projected: { sources: [{ serviceAccountToken: { path: 't' } }] } },
      'serviceAccountToken needs an API server',
    ],
    ['an absolute path', { configMap: { name: 'cm', items: [{ key: 'a', path: '/x' }] } }, 'must be relative path'],
    [
      'a path upwards',
      { configMap: { name: 'cm', items: [{ key: 'a', path: 'x/../../y' }] } },
      "must not contain '..'",
    ],
    [
      'a name of the writer',
      { configMap: { name: 'cm', items: [{ key: 'a', path: '..data' }] } },
      "must not start with '..'",
    ],
    ['no path', { configMap: { name: 'cm', items: [{ key: 'a', path: '' }] } }, 'must not be empty'],
    ['a dot', { configMap: { name: 'cm', items: [{ key: 'a', path: './.' }] } }, 'must name a file'],
    [
      'a long name',
      { configMap: { name: 'cm', items: [{ key: 'a', path: 'ä'.repeat(128) }] } },
      'less than or equal to 255',
    ],
    [
      'a long path',
      { configMap: { name: 'cm', items: [{ key: 'a', path: 'a/'.repeat(2100) }] } },
      'less than or equal to 4096',
    ],
  ] as [string, Omit<Volume, 'name'>, string][])('%s is the reason to wait', (_, volume, message) => {
    expect(failure(volume)).toContain(message);
    expect(plan(volume).setUps).toEqual([]);
  });
});

describe('the objects of a pod', () => {
  it('are named once each, wherever they are named', () => {
    const env = [
      { name: 'A', valueFrom: { configMapKeyRef: { name: 'e', key: 'k' } } },
      { name: 'B', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } },
    ];
    const volumes = [
      { name: '1', configMap: { name: 'e' } },
      { name: '2', secret: { secretName: 's' } },
      { name: '3', projected: { sources: [{ secret: { name: 't' } }, { configMap: { name: 'f' } }] } },
    ];
    const initContainers = [{ name: 'i', envFrom: [{ configMapRef: { name: 'g' } }, { secretRef: { name: 'u' } }] }];
    expect(objectKeysOf(podOf({ volumes, initContainers, containers: [{ name: 'c', env }] }))).toEqual([
      'ConfigMap/default/e',
      'ConfigMap/default/f',
      'ConfigMap/default/g',
      'Secret/default/s',
      'Secret/default/t',
      'Secret/default/u',
    ]);
  });

  it('differ when one comes, goes or changes', () => {
    const other = object('ConfigMap', 'cm', { a: { text: '2' } });
    expect([differ(objects, objects), differ(objects, other), differ(objects, {}), differ({}, objects)]).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });

  it('become variables where they are text', () => {
    expect(environmentReferences(objects)).toEqual({
      configMaps: { cm: { a: '1' } },
      secrets: { s: { p: HANDLE.$secret } },
    });
    const bytes = object('Secret', 's', { k: { base64: HANDLE } });
    expect(environmentReferences(bytes).secrets).toEqual({ s: { k: null } });
    const variable = { ...HANDLE, $secret: `§${'v'.repeat(22)}` };
    const usable = object('Secret', 's', { k: { base64: HANDLE, variable } });
    expect(environmentReferences(usable).secrets).toEqual({ s: { k: variable.$secret } });
    expect(handlesIn(variable.$secret, usable)).toEqual([variable]);
  });

  it('are opened only where they are used', () => {
    expect(handlesIn(`x${HANDLE.$secret}y`, objects)).toEqual([HANDLE]);
    expect(handlesIn('{}', objects)).toEqual([]);
  });
});
