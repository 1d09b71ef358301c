/** A pod and its volumes in a modelled world: proves V1 to V3 of `volumes.ts`, and the pod's reactions. */
import { afterEach, describe, expect, it } from 'vitest';
import { volumesMachine } from '../../../../../src/machines/charts/pods/volumes/volumes.ts';
import type { ConfigObject, Content } from '../../../../../src/machines/model/operations/volume.ts';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

let node: PodsNode;
const object = (kind: ConfigObject['kind'], name: string, data: Record<string, Content>): ConfigObject => ({
  kind,
  namespace: 'default',
  name,
  version: JSON.stringify(data),
  data,
});
const texts = (data: Record<string, string>) =>
  Object.fromEntries(Object.entries(data).map(([key, text]) => [key, { text }]));
const configMap = (data: Record<string, string>) => object('ConfigMap', 'cm', texts(data));
const HANDLE = { $secret: `§${'a'.repeat(22)}`, len: 7 };
const VOLUMES = '/var/lib/kubelet/pods/u1/volumes';

function boot(
  spec: object,
  objects: readonly ConfigObject[] = [],
  container: object = {},
  settings: Partial<NodeSettings> = {},
): PodsNode {
  node = new PodsNode({ settings });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.objects = objects;
  const containers = [{ name: 'app', image: 'app:1', ...container }];
  node.world.setManifests([manifest({ uid: 'u1', containers, spec: { ...spec } })]);
  return node.boot();
}
const cmVolume = { volumes: [{ name: 'v', configMap: { name: 'cm' } }] };
const mounting = { volumeMounts: [{ name: 'v', mountPath: '/v' }] };
const running = () => node.phase('u1') === 'Running';
const inputs = (name: string) =>
  node.sink.records.flatMap((record) => (record.k === 'effect' && record.name === name ? [record.input as never] : []));
const setUps = () => inputs('volume.setUp') as { volumes: { files?: { content: Content }[] }[] }[];
const waiting = () => node.status('u1')?.containerStatuses?.[0]?.state?.waiting;

afterEach(() => {
  expect(node.crashes().filter((text) => !text.includes('/volumes:'))).toEqual([]);
  node.assertReplays();
});

describe('a pod whose ConfigMap is missing', () => {
  it('waits without a sandbox, says so as upstream, and starts when it is there', () => {
    boot(cmVolume, [], mounting);
    node.run(8_000);
    expect(node.world.runtime.sandboxes.size).toBe(0);
    expect(waiting()).toEqual({ reason: 'ContainerCreating' });
    const recorded = node.events().filter((text) => text.startsWith('FailedMount'));
    expect(new Set(recorded)).toEqual(
      new Set(['FailedMount: MountVolume.SetUp failed for volume "v" : configmap "cm" not found']),
    );
    const before = node.time.ms;
    node.world.setObjects([configMap({ a: '1' })]);
    node.until('Running', running);
    expect(node.time.ms - before).toBeLessThan(500);
    expect(setUps()).toHaveLength(1);
  });

  it.each([
    ['without a word about its image, as by the kubelet', {}, 'ContainerCreating'],
    ['with a word about its image before', { behavior: nodeBefore('podDetailsAsKubelet') }, 'ErrImageNeverPull'],
  ])('waits %s', (_, settings, reason) => {
    boot(cmVolume, [], { ...mounting, image: 'gone:1', imagePullPolicy: 'Never' }, settings);
    node.run(8_000);
    expect(waiting()?.reason).toBe(reason);
    node.world.setObjects([configMap({ a: '1' })]);
    node.until('sandbox', () => node.world.runtime.sandboxes.size > 0).run(500);
    expect(waiting()?.reason).toBe('ErrImageNeverPull');
  });

  it('tries again ever more rarely', () => {
    boot(cmVolume);
    node.run(600_000);
    const tries = node.logs('Volumes cannot be set up').length;
    expect(tries).toBeGreaterThan(9);
    expect(tries).toBeLessThan(15);
  });

  it('goes at once when its file goes', () => {
    boot(cmVolume);
    node.run(1_000);
    node.world.setManifests([]);
    node.until('gone', () => node.podState('u1') === undefined, 2_000);
  });
});

describe('a volume that the node cannot set up', () => {
  it('keeps the pod waiting, and is tried again', () => {
    node = new PodsNode();
    boot({ volumes: [{ name: 'h', hostPath: { path: '/x', type: 'Directory' } }] });
    node.world.volumeFailures.set('h', 'hostPath type check failed: /x is not a directory');
    node.run(4_000);
    expect(node.events()).toContain(
      'FailedMount: MountVolume.SetUp failed for volume "h" : hostPath type check failed: /x is not a directory',
    );
    expect(node.world.runtime.sandboxes.size).toBe(0);
    node.world.volumeFailures.clear();
    node.until('Running', running);
  });

  it('of a kind that needs a cluster is named', () => {
    boot({ volumes: [{ name: 'n', cephfs: { monitors: ['m'] } }] });
    node.run(1_000);
    expect(node.events()[0]).toMatch(
      /FailedMount: .*volume "n" is of kind cephfs, which this node agent cannot set up/,
    );
  });
});

describe('a volume of a server that does not answer', () => {
  it('is a line of the log every two minutes, as upstream, and no event', () => {
    boot({ volumes: [{ name: 'v', nfs: { server: 's', path: '/p' } }] }, [], mounting);
    node.world.fault = (name) => (name === 'volume.setUp' ? { hangs: true } : undefined);
    node.run(122_000);
    expect(node.logs('Error syncing pod, skipping')).toEqual([]);
    node.run(130_000);
    const err = 'unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]: context deadline exceeded';
    const fields = { pod: 'default/web-node', podUID: 'u1', err };
    expect(node.logs('Error syncing pod, skipping')).toEqual([fields, fields]);
    expect(node.events().filter((text) => text.startsWith('FailedMount'))).toEqual([]);
  });
});

describe('a change', () => {
  it('of a ConfigMap is written anew, and touches no container', () => {
    boot(cmVolume, [configMap({ a: '1' })], mounting);
    node.until('Running', running);
    node.world.setObjects([configMap({ a: '2' })]);
    node.run(1_000);
    expect(setUps().map(({ volumes }) => volumes[0]?.files?.[0]?.content)).toEqual([{ text: '1' }, { text: '2' }]);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('of another ConfigMap is not its business', () => {
    boot(cmVolume, [configMap({ a: '1' })]);
    node.until('Running', running);
    node.world.setObjects([configMap({ a: '1' }), object('ConfigMap', 'other', {})]);
    node.run(1_000);
    expect(setUps()).toHaveLength(1);
  });

  it('that takes the ConfigMap away stops nothing', () => {
    boot(cmVolume, [configMap({ a: '1' })], mounting);
    node.until('Running', running);
    node.world.setObjects([]);
    node.run(10_000);
    expect(running()).toBe(true);
    expect(node.events().at(-1)).toContain('configmap "cm" not found');
  });

  it('while the agent was away is written by the next one', () => {
    boot(cmVolume, [configMap({ a: '1' })], mounting);
    node.until('Running', running);
    node.world.objects = [configMap({ a: '2' })];
    node = node.restart();
    node.until('Running', running);
    node.run(1_000);
    expect(setUps().map(({ volumes }) => volumes[0]?.files?.[0]?.content)).toEqual([{ text: '2' }]);
    expect(node.world.runtime.started).toHaveLength(1);
  });
});

describe('what needs nothing of the node', () => {
  it('asks nothing of it', () => {
    boot({});
    node.until('Running', running);
    node.world.setManifests([]);
    node.until('gone', () => node.podState('u1') === undefined);
    expect(node.world.calls.filter(({ name }) => /^volume\.(setUp|bind|tearDown)/.test(name))).toEqual([]);
  });
});

describe('the end of a pod', () => {
  it('takes its volumes away before its folder', () => {
    boot({ volumes: [{ name: 'e', emptyDir: {} }] });
    node.until('Running', running);
    expect(node.world.folders).toContain(`${VOLUMES}/kubernetes.io~empty-dir/e`);
    node.world.setManifests([]);
    node.until('gone', () => node.podState('u1') === undefined);
    const order = node.world.calls.map(({ name }) => name).filter((name) => /tearDown|removePod$/.test(name));
    expect(order).toEqual(['volume.tearDown', 'host.removePod', 'host.removePod']);
    expect([...node.world.folders]).toEqual([]);
  });

  it('waits for a mount that does not go, and tries again', () => {
    boot({ volumes: [{ name: 'e', emptyDir: {} }] });
    node.until('Running', running);
    node.world.fault = (name, _, nth) =>
      name === 'volume.tearDown' && nth < 2 ? { error: 'device busy', code: 'EBUSY' } : undefined;
    node.world.setManifests([]);
    node.until('gone', () => node.podState('u1') === undefined);
    expect(node.world.callsOf('volume.tearDown')).toHaveLength(3);
  });

  it('frees the volumes of a pod that is over but still wanted', () => {
    boot({ volumes: [{ name: 'e', emptyDir: {} }], restartPolicy: 'Never' });
    node.world.runtime.programs.set('app', [{ runsMs: 100, exitCode: 0 }]);
    node.until('Succeeded', () => node.phase('u1') === 'Succeeded');
    node.run(1_000);
    expect(node.world.callsOf('volume.tearDown')).toHaveLength(1);
    expect(node.podState('u1')).toEqual({ terminated: 'kept' });
  });

  it('stops what was being set up', () => {
    boot({ volumes: [{ name: 'e', emptyDir: {} }] });
    node.world.fault = (name) => (name === 'volume.setUp' ? { hangs: true } : undefined);
    node.run(1_000);
    node.world.setManifests([]);
    node.until('gone', () => node.podState('u1') === undefined);
    expect(node.sink.records.some((record) => record.k === 'cancel')).toBe(true);
  });
});

describe('a volume with so many files that its group takes long to get them', () => {
  const path = `${VOLUMES}/kubernetes.io~empty-dir/e`;
  const recorded = () => node.events().filter((text) => text.startsWith('VolumePermissionChangeInProgress'));
  const slowly = (securityContext: object) => {
    boot({ volumes: [{ name: 'e', emptyDir: {} }], securityContext });
    node.world.fault = (name) => (name === 'volume.setUp' ? { hangs: true } : undefined);
  };

  it('is told of after 30 seconds and once a minute, as upstream does, for as long as it is under way', () => {
    slowly({ fsGroup: 7 });
    node.world.sharings = [{ path, files: 3, forMs: 29_000 }];
    node.run(35_000);
    expect(inputs('volume.sharings')).toEqual([{ directory: '/var/lib/kubelet/pods/u1' }]);
    expect(recorded()).toEqual([]);
    node.world.sharings = [{ path, files: 1_234, forMs: 39_000 }];
    node.run(60_000);
    const slow = 'Setting volume ownership for u1/volumes/kubernetes.io~empty-dir/e';
    const first = expect.stringContaining(
      `${slow} is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/`,
    ) as unknown;
    expect(recorded()).toEqual([first]);
    node.run(65_000);
    const further = `VolumePermissionChangeInProgress: ${slow}, processed 1234 files.`;
    expect(recorded()).toEqual([first, further]);
    node.world.sharings = [];
    node.run(120_000);
    expect(recorded()).toHaveLength(2);
  });

  it('is not looked for where no group gets anything', () => {
    slowly({});
    node.run(120_000);
    expect(inputs('volume.sharings')).toEqual([]);
  });
});

describe('what a crash left', () => {
  it('is removed when the pod is unknown, and nothing else is', () => {
    node = new PodsNode();
    node.world.runtime.images.set('app:1', image('app:1'));
    node.world.folders.add('/var/lib/kubelet/pods/old').add('/var/lib/kubelet/pods/old/volumes/x');
    node.world.setManifests([manifest({ uid: 'u1', spec: { volumes: [{ name: 'e', emptyDir: {} }] } })]);
    node.boot();
    node.until('Running', running);
    node.run(2_000);
    expect([...node.world.folders].filter((path) => path.includes('/old'))).toEqual([]);
    expect(node.podState('old')).toBeUndefined();
    expect(node.world.folders).toContain(`${VOLUMES}/kubernetes.io~empty-dir/e`);
  });

  it('of its own actor is set up again', () => {
    boot({ volumes: [{ name: 'e', emptyDir: {} }] });
    node.until('Running', running);
    const plan = { mounted: {}, setUps: null, failures: [] };
    node.kernel.dispatch('kubelet/pods/pod-u1/volumes', { type: 'volumes.planned', plan }, 'test');
    node.run(3_000);
    expect(node.crashes()).toEqual([expect.stringContaining('kubelet/pods/pod-u1/volumes')]);
    expect(setUps()).toHaveLength(2);
    expect(running()).toBe(true);
  });
});

describe('an environment from objects', () => {
  const created = () =>
    inputs('cri.createContainer') as { config: { envs: unknown[]; args?: string[] }; secrets?: unknown }[];

  it('has the texts of a ConfigMap, and of a Secret only its handle', () => {
    const env = [
      { name: 'A', valueFrom: { configMapKeyRef: { name: 'cm', key: 'a' } } },
      { name: 'B', valueFrom: { secretKeyRef: { name: 's', key: 'p' } } },
      { name: 'C', value: 'x-$(B)-y' },
    ];
    const secret = object('Secret', 's', { p: { text: HANDLE } });
    boot({}, [configMap({ a: '1' }), secret], { env, args: ['$(B)'] });
    node.until('Running', running);
    const [{ config, secrets }] = created() as [ReturnType<typeof created>[number]];
    expect(config.envs).toEqual([
      { key: 'A', value: '1' },
      { key: 'B', value: HANDLE.$secret },
      { key: 'C', value: `x-${HANDLE.$secret}-y` },
    ]);
    expect(config.args).toEqual([HANDLE.$secret]);
    expect(secrets).toEqual([HANDLE]);
  });

  it('may be bytes of a Secret that are no text, by name and all together', () => {
    const variable = { $secret: `§${'v'.repeat(22)}`, len: 9 };
    const secret = object('Secret', 's', { k: { base64: HANDLE, variable } });
    const env = [{ name: 'A', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } }];
    boot({}, [secret], { env, envFrom: [{ secretRef: { name: 's' } }] });
    node.until('Running', running);
    const [{ config, secrets }] = created() as [ReturnType<typeof created>[number]];
    expect(config.envs).toEqual([
      { key: 'k', value: variable.$secret },
      { key: 'A', value: variable.$secret },
    ]);
    expect(secrets).toEqual([variable]);
  });

  it.each([
    [{ env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'no', key: 'a' } } }] }, 'configmap "no" not found'],
    [
      { env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'cm', key: 'constructor' } } }] },
      "couldn't find key constructor in ConfigMap default/cm",
    ],
    [
      { env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 's', key: 'no' } } }] },
      "couldn't find key no in Secret default/s",
    ],
    [
      { env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 's', key: 'bytes' } } }] },
      'key bytes in Secret default/s is not UTF-8 text, which a variable cannot hold',
    ],
    [{ envFrom: [{ secretRef: { name: 'no' } }] }, 'secret "no" not found'],
  ])('waits for what is missing in %j', (container, message) => {
    const secret = object('Secret', 's', { p: { text: HANDLE }, bytes: { base64: HANDLE } });
    boot({}, [configMap({ a: '1' }), secret], container);
    node.run(1_000);
    expect(waiting()).toEqual({ reason: 'CreateContainerConfigError', message });
    expect(node.events()).toContain(`Failed: Error: ${message}`);
  });

  it('is made when the object comes', () => {
    boot({}, [], { envFrom: [{ configMapRef: { name: 'cm' } }] });
    node.run(1_000);
    node.world.setObjects([configMap({ A: '1' })]);
    node.until('Running', running);
    expect(created()[0]?.config.envs).toEqual([{ key: 'A', value: '1' }]);
  });
});

describe('a variable that a file of a volume has', () => {
  const fileKeyRef = (key: string, more: object = {}) => ({ volumeName: 'e', path: 'a.env', key, ...more });
  const variable = (name: string, key: string, more: object = {}) => ({
    name,
    valueFrom: { fileKeyRef: fileKeyRef(key, more) },
  });
  const spec = { volumes: [{ name: 'e', emptyDir: {} }] };

  it('is read before its container is created, and is never in the journal', () => {
    const env = [variable('A', 'x'), variable('B', 'y', { optional: true }), { name: 'C', value: 'c$(A)$(B)' }];
    boot(spec, [], { env, args: ['$(A)'] });
    node.world.fileValues.set('x', HANDLE).set('y', null);
    node.until('Running', running);
    const place = { container: 'app', volumePath: `${VOLUMES}/kubernetes.io~empty-dir/e`, path: 'a.env' };
    expect(inputs('volume.readVariables')).toMatchObject([
      {
        variables: [
          { ...place, env: 0, key: 'x', optional: false },
          { ...place, env: 1, key: 'y', optional: true },
        ],
      },
    ]);
    expect(inputs('cri.createContainer')).toMatchObject([
      {
        config: {
          args: [HANDLE.$secret],
          envs: [
            { key: 'A', value: HANDLE.$secret },
            { key: 'C', value: `c${HANDLE.$secret}$(B)` },
          ],
        },
        secrets: [HANDLE],
      },
    ]);
  });

  it('keeps its container waiting while it cannot be read', () => {
    boot(spec, [], { env: [variable('A', 'x')] });
    node.run(1_000);
    expect(waiting()).toEqual({ reason: 'CreateContainerConfigError', message: "couldn't parse env file" });
    node.world.fileValues.set('x', HANDLE);
    node.until('Running', running);
  });

  it('is refused without its volume', () => {
    boot({}, [], { env: [variable('A', 'x')] });
    node.run(1_000);
    expect(node.status('u1')).toBeNull();
    expect(inputs('volume.readVariables')).toEqual([]);
  });

  it('comes before the sub-path that it would name, which it must not', () => {
    const volumeMounts = [{ name: 'e', mountPath: '/e', subPathExpr: '$(A)' }];
    boot(spec, [], { env: [variable('A', 'x')], volumeMounts });
    node.world.fileValues.set('x', HANDLE);
    node.run(1_000);
    expect(waiting()?.message).toBe('subPathExpr of volume "e" must not hold a value of a Secret');
  });
});

describe('a part of a volume', () => {
  const subPath = {
    volumeMounts: [{ name: 'e', mountPath: '/e', subPathExpr: 'logs/$(NAME)' }],
    env: [{ name: 'NAME', value: 'a' }],
  };
  const spec = { volumes: [{ name: 'e', emptyDir: {} }] };
  const target = '/var/lib/kubelet/pods/u1/volume-subpaths/e/app/0';

  it('is bound before its container is created, and mounted from where it was bound', () => {
    boot(spec, [], subPath);
    node.until('Running', running);
    expect(inputs('volume.bindSubPaths')).toMatchObject([
      {
        subPaths: [{ container: 'app', volumePath: `${VOLUMES}/kubernetes.io~empty-dir/e`, subPath: 'logs/a', target }],
      },
    ]);
    const [{ config }] = inputs('cri.createContainer') as unknown as [{ config: { mounts: { host_path: string }[] } }];
    expect(config.mounts[0]?.host_path).toBe(target);
  });

  it('is never named by a Secret', () => {
    const env = [{ name: 'NAME', valueFrom: { secretKeyRef: { name: 's', key: 'p' } } }];
    boot(spec, [object('Secret', 's', { p: { text: HANDLE } })], { ...subPath, env });
    node.run(1_000);
    expect(waiting()?.message).toBe('subPathExpr of volume "e" must not hold a value of a Secret');
    expect(inputs('volume.bindSubPaths')).toEqual([]);
  });

  it('that cannot be bound keeps its container waiting, with the reason', () => {
    boot(spec, [], { ...subPath, env: [] });
    node.run(1_000);
    expect(waiting()).toEqual({ reason: 'CreateContainerConfigError', message: 'missing value for NAME' });
  });
});

it('is a machine of its own, one a pod', () => expect(volumesMachine.id).toBe('volumes'));
