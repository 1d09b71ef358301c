/** The subsystems of pods: configuration, events, soft state, collectors; and changes of a running pod. */
import { afterEach, describe, expect, it } from 'vitest';
import { garbageToCollect } from '../../../../src/machines/charts/pods/container-gc.ts';
import { image, manifest, nodeWith, type PodOptions, PodsNode } from '../../../support/pods-node.ts';

let node: PodsNode;
const prepare = (...pods: PodOptions[]): PodsNode => (node = nodeWith(...pods));
const running = (uid: string) => () => node.isReady(uid);

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('fileSource', () => {
  it('says an error of a file once, and once that it is gone', () => {
    prepare();
    const broken = [{ file: '/etc/kubernetes/manifests/a.yaml', message: 'line 3: no' }];
    node.world.setManifests([], broken);
    node.boot().run(100);
    node.world.setManifests([manifest({ uid: 'u1' })], broken);
    node.run(100);
    node.world.setManifests([manifest({ uid: 'u1' })], []);
    node.run(100);
    expect(node.logs('Could not process manifest file')).toEqual([{ path: broken[0]!.file, error: 'line 3: no' }]);
    expect(node.logs('Manifest file no longer has an error')).toEqual([{ path: broken[0]!.file }]);
  });

  it('ends no pod while the folder cannot be listed after a restart', () => {
    prepare({ uid: 'u1' }).boot().until('Running', running('u1'));
    const [manifests, path] = [[manifest({ uid: 'u1' })], '/etc/kubernetes/manifests'];
    node.world.isManifestPathUnread = true;
    node.world.setManifests([], [{ file: path, message: 'Unable to read config path' }]);
    node = node.restart().run(120_000);
    expect(node.logs('Could not process manifest file')).toEqual([{ path, error: 'Unable to read config path' }]);
    expect(node.world.callsOf('cri.stopContainer')).toEqual([]);
    node.world.isManifestPathUnread = false;
    node.world.setManifests(manifests, []);
    node.until('Running', running('u1'));
    expect(node.logs('Manifest file no longer has an error')).toEqual([{ path }]);
    expect(node.world.runtime.started).toHaveLength(1);
    node.world.setManifests([], []);
    node.until('gone', () => node.podState('u1') === undefined);
  });

  it('tells removals before additions, so that a rewritten pod leaves before it comes', () => {
    prepare({ uid: 'u1' }).boot().until('Running', running('u1'));
    node.world.setManifests([manifest({ uid: 'u2' })]);
    node.until('u2', running('u2'));
    const ops = node.sink.records.flatMap((record) =>
      record.k === 'message' && record.to === 'kubelet/pods' && record.event.type === 'config.pods'
        ? [record.event['op']]
        : [],
    );
    expect(ops).toEqual(['ADD', 'REMOVE', 'ADD']);
  });
});

describe('a pod whose definition changes while it runs', () => {
  /** The author gave it a uid, so that it stays the same pod. */
  const update = (containers: readonly Record<string, unknown>[]) =>
    node.world.setManifests([manifest({ uid: 'u1', containers })]);

  it('restarts the container whose image changed, and no other', () => {
    const two = [
      { name: 'app', image: 'app:1' },
      { name: 'two', image: 'app:1' },
    ];
    prepare({ uid: 'u1', containers: two }).world.runtime.images.set('app:2', image('app:2'));
    node.boot().until('Running', running('u1'));
    update([two[0]!, { name: 'two', image: 'app:2' }]);
    node.until('a third start', () => node.world.runtime.started.length === 3);
    node.until('Running', running('u1'));
    expect(node.world.runtime.started.at(-1)).toBe('web-node/two#1');
    expect(node.events()).toContain('Killing: Container two definition changed, will be restarted');
    node.run(30_000);
    expect(node.world.runtime.started).toHaveLength(3);
  });

  it('touches nothing when image and name are the same', () => {
    prepare({ uid: 'u1' }).boot().until('Running', running('u1'));
    update([{ name: 'app', image: 'app:1', env: [{ name: 'A', value: 'b' }] }]);
    node.run(30_000);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('is noticed by an agent that was away', () => {
    prepare({ uid: 'u1' }).world.runtime.images.set('app:2', image('app:2'));
    node.boot().until('Running', running('u1'));
    node.world.manifests = [manifest({ uid: 'u1', containers: [{ name: 'app', image: 'app:2' }] })];
    node = node.restart();
    node.until('a second start', () => node.world.runtime.started.length === 2);
    node.until('Running', running('u1'));
    expect(node.world.runtime.running('app')!.config.image!.user_specified_image).toBe('app:2');
  });
});

describe('eventRecorder', () => {
  const send = (message: string, reason = 'BackOff') =>
    node.kernel.dispatch(
      'kubelet/eventRecorder',
      {
        type: 'event.recorded',
        ref: { kind: 'Pod', namespace: 'n', name: 'p', uid: 'u' },
        eventType: 'Warning',
        reason,
        message,
      },
      'test',
    );

  it('lets 25 events of one object through, then one every five minutes', () => {
    prepare().boot().run(10);
    for (let i = 0; i < 40; i++) send('same');
    expect(node.events()).toHaveLength(25);
    expect(node.logs('Event occurred').at(-1)).toMatchObject({ count: 25 });
    node.run(300_000);
    send('same');
    send('same');
    expect(node.events()).toHaveLength(26);
  });

  it('tells similar ones as one from the tenth on', () => {
    prepare().boot().run(10);
    for (let i = 0; i < 12; i++) send(`different ${i}`);
    expect(node.events().at(8)).toBe('BackOff: different 8');
    expect(node.events().at(9)).toBe('BackOff: (combined from similar events): different 9');
    expect(node.logs('Event occurred').at(-1)).toMatchObject({ count: 3 });
    send('different 11');
    expect(node.events().at(-1)).toBe('BackOff: different 11');
  });
});

describe('soft state', () => {
  it('starts without what it cannot read, and says so', () => {
    prepare({ uid: 'u1' });
    node.world.fault = (name) => (name === 'host.loadSoftState' ? { error: 'not JSON' } : undefined);
    node.boot().until('Running', running('u1'));
    expect(node.logs('Cannot read what was remembered; starting without it')).toHaveLength(1);
  });

  it('writes bursts as one, keeps one write under way, and forgets pods that are gone', () => {
    prepare({ uid: 'u1' });
    node.world.runtime.programs.set('app', [{ runsMs: 10, exitCode: 1 }]);
    node.boot().until('a second start', () => node.world.runtime.started.length === 2);
    node.run(5_000);
    expect(node.world.softState.containers).toMatchObject({ 'u1/app': { restartCount: 2, backoffMs: 10_000 } });
    expect(node.world.callsOf('host.saveSoftState')).toHaveLength(1);
    node.world.setManifests([]);
    node.run(5_000);
    expect(node.world.softState.containers).toEqual({});
  });
});

describe('containerGC', () => {
  it('keeps of a crashing container what the settings say, and is silent otherwise', () => {
    prepare({ uid: 'u1' });
    node.world.runtime.programs.set('app', [{ runsMs: 10, exitCode: 1 }]);
    node.boot().run(400_000);
    expect(node.world.runtime.started.length).toBeGreaterThan(5);
    expect(node.world.runtime.containers.size).toBeLessThanOrEqual(2);
    const last = node.status('u1')!.containerStatuses![0]!;
    expect(last.lastState?.terminated ?? last.state?.terminated).toMatchObject({ exitCode: 1, reason: 'Error' });
  });

  const dead = (uid: string, name: string, ...created: number[]) => ({
    [uid]: {
      dead: created.map((at) => {
        const createdAt = String(at);
        return { id: `${uid}-${at}`, name, restartCount: 0, createdAt, logPath: '', linkName: '' };
      }),
      sandboxes: [],
      over: false,
    },
  });
  const policy = { minAgeMs: 0, maxPerPodContainer: 1, maxContainers: -1 };
  const ids = (victims: readonly { id: string }[]) => victims.map(({ id }) => id).sort();

  it.each([
    [policy, ['a-1', 'a-2']],
    [{ ...policy, maxPerPodContainer: 0 }, ['a-1', 'a-2', 'a-3', 'b-9']],
    [{ ...policy, maxPerPodContainer: -1 }, []],
    [{ ...policy, maxPerPodContainer: -1, maxContainers: 2 }, ['a-1', 'a-2']],
    [{ ...policy, maxPerPodContainer: -1, maxContainers: 1 }, ['a-1', 'a-2', 'a-3']],
  ])('by %o removes %o', (given, expected) => {
    prepare().boot();
    expect(ids(garbageToCollect({ ...dead('a', 'x', 1, 3, 2), ...dead('b', 'y', 9) }, given))).toEqual(expected);
  });
});

describe('imageGC', () => {
  it('removes on a full disk what no container has, and says when that is not enough', () => {
    prepare({ uid: 'u1' }).world.runtime.images.set('unused:1', image('unused:1'));
    node.world.disk = { capacityBytes: '1000000', availableBytes: '100000' };
    node.boot().run(310_000);
    expect([...node.world.runtime.images.keys()]).toEqual(['app:1']);
    expect(node.events()).toContain(
      "FreeDiskSpaceFailed: Insufficient free disk space on the node's image filesystem (90% of 976.6 KiB used). " +
        'Failed to free sufficient space by deleting unused images (freed 1000 bytes). Investigate disk usage, as it ' +
        'could be used by active images, logs, volumes, or other data.',
    );
    expect(node.events().filter((event) => event.startsWith('ImageGCFailed'))).toEqual([]);
    node.run(300_000);
    expect(node.events().filter((event) => event.startsWith('ImageGCFailed'))).toHaveLength(1);
  });

  it('calls a disk without a size by its name, at once and then as a failure', () => {
    prepare({ uid: 'u1' }).world.disk = { capacityBytes: '0', availableBytes: '0' };
    node.boot().run(310_000);
    expect(node.events()).toContain('InvalidDiskCapacity: invalid capacity 0 on image filesystem');
    node.run(300_000);
    expect(node.events()).toContain('ImageGCFailed: invalid capacity 0 on image filesystem');
  });
});

describe('images', () => {
  it('pulls one after the other when the settings say so', () => {
    const pods = ['a', 'b', 'c'].map((name) => ({
      uid: name,
      name,
      containers: [{ name: 'app', image: `${name}:1` }],
    }));
    prepare(...pods);
    for (const { name } of pods) node.world.registry.set(`${name}:1`, image(`${name}:1`));
    node.boot().until('all', () => pods.every(({ uid }) => running(uid)()));
    const at = node.world.callsOf('cri.pullImage').map(({ atMs }) => atMs);
    expect(at[1]! - at[0]!).toBeGreaterThanOrEqual(500);
    expect(at[2]! - at[1]!).toBeGreaterThanOrEqual(500);
  });

  it('pulls at once and no faster than the registry allows otherwise', () => {
    const pods = Array.from({ length: 12 }, (_, i) => ({
      uid: `u${i}`,
      name: `p${i}`,
      containers: [{ name: 'app', image: `i${i}:1` }],
    }));
    node = new PodsNode({ settings: { serializeImagePulls: false, registryPullQPS: 1, registryBurst: 10 } });
    for (const { containers } of pods) node.world.registry.set(containers[0]!.image, image(containers[0]!.image));
    node.world.setManifests(pods.map(manifest));
    node.boot().until('all', () => pods.every(({ uid }) => running(uid)()));
    const at = node.world.callsOf('cri.pullImage').map(({ atMs }) => atMs);
    expect(at[9]! - at[0]!).toBeLessThan(100);
    expect(at[11]! - at[0]!).toBeGreaterThanOrEqual(1_900);
  });

  it('refuses a name that is none', () => {
    prepare({ uid: 'u1', containers: [{ name: 'app', image: 'Not An Image' }] }).boot();
    const waiting = () => node.status('u1')?.containerStatuses?.[0]?.state?.waiting;
    node.until('the refusal', () => waiting()?.reason === 'InvalidImageName');
    expect(waiting()!.message).toContain(`couldn't parse image name "Not An Image"`);
    const reports = () => node.events().filter((text) => text.startsWith('InspectFailed: ')).length;
    expect(reports()).toBe(1);
    node.run(9_900);
    expect(reports()).toBe(1);
    node.run(50_100);
    expect(reports(), 'again after each ten to fifteen seconds').toBeOneOf([5, 6, 7]);
  });
});
