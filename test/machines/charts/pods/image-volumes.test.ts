/** Volumes with the content of an image: pulled like the image of a container, mounted by the runtime. */
import { afterEach, describe, expect, it } from 'vitest';
import type { ContainerConfig } from '../../../../src/machines/model/api/cri.ts';
import { pullSecret } from '../../../../src/simulation/world/image-rights.ts';
import { image, manifest, PodsNode } from '../../../support/pods-node.ts';

const DATA = 'a.io/data:1';

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

interface Wanted {
  readonly volume?: object;
  readonly mount?: object;
}

/** The container `app` mounts the image, `other` does not. */
function boot({ volume = {}, mount = {} }: Wanted = {}, prepare: (node: PodsNode) => void = () => {}): PodsNode {
  node = new PodsNode();
  for (const name of ['app:1', DATA]) node.world.registry.set(name, image(name));
  node.world.setManifests([
    manifest({
      uid: 'u1',
      spec: {
        imagePullSecrets: [{ name: 'one' }],
        volumes: [{ name: 'data', image: { reference: DATA, ...volume } }],
      },
      containers: [
        { name: 'app', image: 'app:1', volumeMounts: [{ name: 'data', mountPath: '/data', ...mount }] },
        { name: 'other', image: 'app:1' },
      ],
    }),
  ]);
  prepare(node);
  return node.boot();
}

const effects = (name: string) =>
  node.sink.records.flatMap((record) => (record.k === 'effect' && record.name === name ? [record.input as never] : []));
const pulled = () => effects('cri.pullImage').map(({ image: name }: { image: string }) => name);
const config = (name: string) =>
  (effects('cri.createContainer') as { config: ContainerConfig }[]).find(
    ({ config: { metadata } }) => metadata?.name === name,
  )?.config;
const state = (name: string) => node.status('u1')?.containerStatuses?.find((each) => each.name === name)?.state;
const runs = (name: string) => () => state(name)?.running !== undefined;
const waits = (name: string, reason: string) => () => state(name)?.waiting?.reason === reason;

/** The maximum number of these containers that were being created at the same time. */
function atOnce(...names: string[]): number {
  const open = new Set<number>();
  let most = 0;
  for (const record of node.sink.records) {
    if (record.k === 'result') open.delete(record.id);
    if (record.k !== 'effect' || record.name !== 'cri.createContainer') continue;
    const { config } = record.input as never as { config: ContainerConfig };
    if (names.includes(config.metadata?.name ?? '')) open.add(record.id);
    most = Math.max(most, open.size);
  }
  return most;
}

describe('an image volume', () => {
  it('is mounted for one container at a time', () => {
    node = new PodsNode();
    for (const name of ['app:1', DATA]) node.world.registry.set(name, image(name));
    const names = ['one', 'two', 'three'];
    const volumeMounts = [{ name: 'data', mountPath: '/data' }];
    node.world.setManifests([
      manifest({
        uid: 'u1',
        spec: { volumes: [{ name: 'data', image: { reference: DATA } }] },
        containers: [
          ...names.map((name) => ({ name, image: 'app:1', volumeMounts })),
          { name: 'other', image: 'app:1' },
        ],
      }),
    ]);
    node.world.fault = (name) => (name === 'cri.createContainer' ? { extraMs: 1_000 } : undefined);
    node.boot();
    node.until('all run', () => names.every((name) => runs(name)()));
    expect(atOnce('one', 'two', 'three')).toBe(1);
    expect(atOnce('one', 'other')).toBe(2);
  });

  it('is pulled before the container that sees it, and mounted as the runtime knows it', () => {
    boot().until('both run', () => runs('app')() && runs('other')());
    expect(pulled().sort()).toEqual([DATA, 'app:1']);
    expect(config('app')?.mounts?.[0]).toMatchObject({
      container_path: '/data',
      host_path: '',
      readonly: true,
      image: {
        image: image(DATA).id,
        user_specified_image: DATA,
        annotations: { 'kubernetes.io/config.source': 'file' },
      },
    });
    expect(config('other')?.mounts?.some((mount) => mount.image)).toBe(false);
    expect(config('app')?.image?.user_specified_image).toBe('app:1');
  });

  it('that no container mounts is pulled, too, and nothing waits for it', () => {
    const unmounted = (name: string, behavior?: number) => {
      node = new PodsNode(behavior === undefined ? {} : { settings: { behavior } });
      for (const known of ['app:1', DATA]) node.world.registry.set(known, image(known));
      const volumes = [{ name: 'data', image: { reference: name } }];
      const containers = ['app', 'other'].map((each) => ({ name: each, image: 'app:1' }));
      node.world.setManifests([manifest({ uid: 'u1', spec: { volumes }, containers })]);
      node.boot().until('both run', () => runs('app')() && runs('other')());
      node.run(1_000);
      return node.logs('Event occurred').filter(({ message }) => String(message).includes('a.io/'));
    };
    const events = unmounted(DATA);
    expect(pulled().sort()).toEqual([DATA, 'app:1']);
    expect(events.map(({ reason }) => reason)).toEqual(['Pulling', 'Pulled']);
    const failures = unmounted('a.io/none:1');
    expect(failures.map(({ reason }) => reason)).toEqual(['Pulling', 'Failed']);
    for (const event of [...events, ...failures]) expect(event).not.toHaveProperty('fieldPath');
    expect(node.logs('Event occurred').map(({ message }) => message)).not.toContain('Error: ErrImagePull');
    unmounted(DATA, 0);
    expect(pulled()).toEqual(['app:1']);
  });

  it('is an event of the pod, and that it is missing one of the container', () => {
    boot({}, ({ world }) => world.runtime.images.set(DATA, image(DATA))).until('it runs', runs('app'));
    const recorded = (reason: string) =>
      node.logs('Event occurred').flatMap((fields) => (fields['reason'] === reason ? [fields] : []));
    const [present, ...others] = recorded('Pulled').filter(({ message }) => String(message).includes(DATA));
    expect(others).toEqual([]);
    expect(present).not.toHaveProperty('fieldPath');
    boot({ volume: { pullPolicy: 'Never' } }).until('it waits', waits('app', 'ErrImageNeverPull'));
    expect(recorded('ErrImageNeverPull')[0]).not.toHaveProperty('fieldPath');
    expect(recorded('Failed')[0]).toMatchObject({
      message: 'Error: ErrImageNeverPull',
      fieldPath: 'spec.containers{app}',
    });
  });

  it('shows a part of the image', () => {
    boot({ mount: { subPath: 'a/b' } }).until('it runs', runs('app'));
    expect(config('app')?.mounts?.[0]?.image_sub_path).toBe('a/b');
    expect(node.world.callsOf('volume.bindSubPaths')).toEqual([]);
  });

  it('that cannot be pulled delays only the containers that mount it', () => {
    boot({}, ({ world }) => world.registry.delete(DATA)).until('the other runs', runs('other'));
    node.until('it backs off', waits('app', 'ImagePullBackOff'));
    expect(state('app')?.waiting?.message).toContain(`Back-off pulling image "${DATA}"`);
    expect(config('app')).toBeUndefined();
    node.world.registry.set(DATA, image(DATA));
    node.until('it runs', runs('app'));
  });

  it('that must not be pulled has to be there', () => {
    boot({ volume: { pullPolicy: 'Never' } }).until('it waits', waits('app', 'ErrImageNeverPull'));
    expect(pulled()).not.toContain(DATA);
  });

  it('is pulled with the secrets of its pod', () => {
    boot({}, ({ world }) => {
      world.setObjects([pullSecret('one', 'first')]);
      world.rights.locked.set(DATA, 'first');
    }).until('it runs', runs('app'));
    expect(pulled()).toContain(DATA);
  });
});

describe('the image of a volume', () => {
  it('is in use as long as a container has it', () => {
    boot().until('it runs', runs('app'));
    const { context } = node.kernel.snapshotOf('kubelet/imageGC') as {
      context: { inUse: Readonly<Record<string, readonly string[]>> };
    };
    expect(context.inUse['u1']).toContain(image(DATA).id);
  });
});
