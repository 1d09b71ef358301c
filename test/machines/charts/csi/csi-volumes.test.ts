/**
 * Volumes of CSI drivers in a modelled world: I1 to I4 of `csi-volumes.ts`, D1 to D3 of `csiDeviceMachine`, U1 to U3 of
 * `csiMountMachine`.
 */
import { createHash } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { attachmentName } from '../../../../src/machines/model/csi/policy.ts';
import { fail } from '../../../support/answering-world.ts';
import { csiNode, DRIVER, type Options, ROOT, volumeOf } from './support.ts';

type Node = ReturnType<typeof csiNode>;
let node: Node;
const boot = (options: Options = {}): Node => {
  node = csiNode(options);
  return node;
};
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const REFUSED =
  'MountVolume.SetUp failed for volume "own" : ' +
  'kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: ' +
  `volume mode "Ephemeral" not supported by driver ${DRIVER}`;
const NAME = `kubernetes.io/csi/${DRIVER}^h1`;
const mounted = (uid: string, ...names: string[]) => ({ type: 'csi.mounted', uid, names });
const unmounted = (uid: string) => ({ type: 'csi.unmounted', uid });
const listed = (more: object = {}) => ({ type: 'node.volumes', inUse: [NAME], attached: [], ...more });

afterEach(() => expect(node.divergence()).toBeNull());

describe('a volume of one pod', () => {
  it('is staged, published, and taken away in the other order', () => {
    boot();
    node.want('u1', volumeOf());
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
    expect(node.toPods()).toEqual([{ type: 'csi.started' }, mounted('u1', 'data')]);
    node.release('u1');
    expect(node.disk.calls.slice(2)).toEqual(['unpublish h1', 'unstage h1']);
    expect(node.toPods().slice(2)).toEqual([unmounted('u1')]);
    expect([node.disk.volumes.size, node.disk.devices.size]).toEqual([0, 0]);
  });

  it('lies where every kubelet has it', () => {
    boot();
    node.want('u1', volumeOf());
    expect(node.disk.staged[0]!.directory).toBe(`${ROOT}/plugins/kubernetes.io/csi/${DRIVER}/${sha256('h1')}`);
    expect(node.disk.published[0]!.directory).toBe(`${ROOT}/pods/u1/volumes/kubernetes.io~csi/pv1`);
  });

  it('of a driver that does not stage is published at once', () => {
    boot();
    node.disk.capabilities = [];
    node.want('u1', volumeOf());
    expect(node.disk.calls).toEqual(['publish h1']);
    expect(node.disk.published[0]!.request.staging_target_path).toBe('');
    node.release('u1');
    expect(node.disk.calls).toEqual(['publish h1', 'unpublish h1']);
    expect(node.disk.devices.size).toBe(0);
  });

  it('that was asked for again is told again, and published once', () => {
    boot();
    node.want('u1', volumeOf());
    node.want('u1', volumeOf());
    expect(node.toPods().filter(({ type }) => type === 'csi.mounted').length).toBeGreaterThan(1);
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
  });

  it('that its pod never got leaves nothing to ask the driver for', () => {
    boot({ isListening: false });
    node.want('u1', volumeOf());
    node.release('u1');
    expect(node.toPods().at(-1)).toEqual(unmounted('u1'));
    expect(node.disk.calls).toEqual([]);
  });

  it('is used although something in it could not be given to the group, and that is said', () => {
    boot();
    const fields = { path: '/v/f', err: 'EPERM', more: 2 };
    node.disk.unshared = { text: 'chmod failed', ...fields };
    node.want('u1', volumeOf());
    expect(node.toPods()).toContainEqual(mounted('u1', 'data'));
    expect(node.records()).toContainEqual(expect.objectContaining({ k: 'log', text: 'chmod failed', fields }));
  });

  it('has its secrets as handles', () => {
    boot();
    const [stage, publish] = ['stage', 'publish'].map((name) => ({ name, namespace: 'vault' }));
    node.want('u1', volumeOf({ stageSecret: stage!, publishSecret: publish! }));
    expect(node.disk.staged[0]!.request?.secrets).toEqual({ key: { text: expect.objectContaining({ len: 3 }) } });
    expect(node.disk.published[0]!.request.secrets).toEqual({ key: { text: expect.objectContaining({ len: 3 }) } });
  });
});

describe('several pods', () => {
  it('share one device, which is unstaged after the last of them', () => {
    boot();
    node.want('u1', volumeOf());
    node.want('u2', volumeOf({ name: 'mine' }));
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1', 'publish h1']);
    node.release('u1');
    expect(node.disk.calls.slice(3)).toEqual(['unpublish h1']);
    node.release('u2');
    expect(node.disk.calls.slice(4)).toEqual(['unpublish h1', 'unstage h1']);
  });

  it('wait for each other where only one may have the volume', () => {
    boot();
    const volume = volumeOf({ accessModes: ['ReadWriteOncePod'] });
    node.want('u1', volume);
    node.want('u2', volume);
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
    expect(node.events()).toEqual([
      'MountVolume.SetUp failed for volume "pv1" : ' +
        'volume uses the ReadWriteOncePod access mode and is already in use by another pod',
    ]);
    node.release('u1');
    expect(node.disk.calls.slice(2)).toEqual(['unpublish h1', 'publish h1']);
    expect(node.toPods().at(-1)).toEqual(mounted('u2', 'data'));
  });

  it('hear nothing of a driver that hangs for another', () => {
    boot();
    node.knobs.fault = (name, input: { request?: { volume_id: string } }) =>
      name === 'csi.stage' && input.request?.volume_id === 'stuck' ? 'hang' : undefined;
    node.want('u1', volumeOf({ handle: 'stuck', spec: 'pv-stuck' }));
    node.want('u2', volumeOf());
    expect(node.toPods().at(-1)).toEqual(mounted('u2', 'data'));
  });
});

describe('a volume that must be attached', () => {
  const attached = (status: object) => ({ metadata: { name: 'a' }, status });

  it('is named by the Node before anything is done, and staged when its attachment says so', () => {
    boot({ spec: null });
    node.want('u1', volumeOf());
    expect(node.inUse()).toEqual([[], [NAME]]);
    node.advance(60_000);
    expect(node.askedFor('kube.get')).toEqual([]);
    node.send(listed());
    const name = `csi-${sha256(`h1${DRIVER}node1`)}`;
    expect(attachmentName(volumeOf(), 'node1')).toBe(name);
    expect(node.askedFor('kube.get')).toMatchObject([{ resource: 'volumeattachments', name }]);
    node.knobs.attachment = attached({ attached: true, attachmentMetadata: { device: '/dev/x' } });
    node.send(listed({ attached: [NAME] }));
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
    expect(node.disk.published[0]!.request.publish_context).toEqual({ device: '/dev/x' });
    node.release('u1');
    expect(node.inUse()).toEqual([[], [NAME], []]);
    expect(node.disk.calls.at(-1)).toBe('unstage h1');
  });

  it('that the Node lists although no pod uses it is removed from the list', () => {
    boot({ spec: null });
    node.send(listed());
    expect(node.inUse()).toEqual([[], []]);
    node.send(listed({ inUse: [] }));
    expect(node.inUse()).toHaveLength(2);
  });

  it('is read ever more rarely, and only from time to time', () => {
    boot({ spec: null });
    node.want('u1', volumeOf());
    node.send(listed());
    node.advance(60_000);
    const reads = node.askedFor('kube.get').length;
    expect(reads).toBeGreaterThan(5);
    expect(reads).toBeLessThan(12);
    expect(node.events()).toEqual([]);
  });

  it('is named in the log when its pod has waited for long, and is no event', () => {
    boot({ spec: null });
    node.want('u1', volumeOf());
    node.send({ type: 'csi.overdue', uid: 'u1' });
    const text = (unattached: string) =>
      `unmounted volumes=[data], unattached volumes=[${unattached}], ` +
      'failed to process volumes=[]: context deadline exceeded';
    const logged = () =>
      node
        .records()
        .flatMap((record) =>
          record.k === 'log' && record.text === 'Error syncing pod, skipping' ? [record.fields?.['err']] : [],
        );
    expect(logged()).toEqual([text('data')]);
    node.send(listed({ attached: [NAME] }));
    node.send({ type: 'csi.overdue', uid: 'u1' });
    expect(logged().at(-1)).toBe(text(''));
    expect(node.events().filter((each) => each.includes('unmounted volumes'))).toEqual([]);
  });

  it('says why it cannot be attached', () => {
    boot({ spec: {} });
    node.knobs.attachment = attached({ attached: false, attachError: { message: 'no such disk' } });
    node.want('u1', volumeOf());
    node.send(listed());
    expect(node.events()).toEqual(['MountVolume.WaitForAttach failed for volume "pv1" : no such disk']);
    node.knobs.attachment = attached({ attached: true });
    node.advance(500);
    expect(node.toPods().at(-1)).toEqual(mounted('u1', 'data'));
  });

  it.each([
    ['that the Node does not list yet', null],
    ['that is not attached', 'detached'],
    ['that could not be attached', 'failed'],
  ])('%s is staged as soon as its driver needs no attachment', (_, before) => {
    boot({ spec: null });
    if (before === 'failed') node.knobs.attachment = attached({ attached: false, attachError: { message: 'no' } });
    node.want('u1', volumeOf());
    if (before !== null) node.send(listed());
    expect(node.disk.calls).toEqual([]);
    const object = { metadata: { name: DRIVER, resourceVersion: '2' }, spec: { attachRequired: false } };
    node.emit('kube.watch', { type: 'watch.changed', change: 'ADDED', object });
    node.advance(0);
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
    expect(node.inUse().at(-1)).toEqual([]);
  });

  it('of which nothing can be known waits, and says so', () => {
    boot({ spec: {} });
    node.knobs.fault = (name) => (name === 'kube.get' ? fail('the server is gone') : undefined);
    node.want('u1', volumeOf());
    node.send(listed());
    expect(node.events()[0]).toBe(
      'MountVolume.WaitForAttach failed for volume "pv1" : volume h1 has GET error for volume attachment ' +
        `${attachmentName(volumeOf(), 'node1')}: the server is gone`,
    );
  });

  it('that the Node lists, and its attachment does not, waits and says so', () => {
    boot({ spec: {} });
    node.want('u1', volumeOf());
    node.send(listed({ attached: [NAME] }));
    const [prefix, name] = [
      'MountVolume.WaitForAttach failed for volume "pv1" : volume h1',
      attachmentName(volumeOf(), 'node1'),
    ];
    expect(node.events()).toEqual([
      `${prefix} has GET error for volume attachment ${name}: volumeattachments "${name}" not found`,
    ]);
    node.knobs.attachment = attached({ attached: false });
    node.advance(500);
    expect(node.events().at(-1)).toBe(`${prefix} is not attached for volume attachment ${name}`);
    node.knobs.attachment = attached({ attached: true });
    node.advance(1_000);
    expect(node.toPods().at(-1)).toEqual(mounted('u1', 'data'));
  });

  it('waits for the CSIDriver objects of the cluster', () => {
    boot({ isListening: false });
    node.knobs.list = fail('the server is gone');
    node.listen();
    node.want('u1', volumeOf());
    expect(node.disk.calls).toEqual([]);
    expect(node.events()).toEqual([]);
    node.knobs.list = undefined;
    node.advance(10_000);
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
  });
});

describe('a failure', () => {
  const failing = (name: string) => {
    node.knobs.fault = (each) => (each === name ? fail('rpc error: code = Internal desc = broken') : undefined);
  };

  it.each([
    ['csi.stage', 'MountVolume.MountDevice failed for volume "pv1" : rpc error: code = Internal desc = broken'],
    ['csi.publish', 'MountVolume.SetUp failed for volume "pv1" : rpc error: code = Internal desc = broken'],
  ])('of %s is an event of the pod, and tried again with upstream’s pauses', (name, event) => {
    boot();
    failing(name);
    node.want('u1', volumeOf());
    expect(node.events()).toEqual([event]);
    const tries = () => node.askedFor(name).length;
    node.advance(499);
    expect(tries()).toBe(1);
    node.advance(1);
    expect(tries()).toBe(2);
    node.advance(1_000);
    expect(tries()).toBe(3);
    node.advance(600_000);
    expect(tries()).toBeLessThan(14);
    node.knobs.fault = () => undefined;
    node.advance(122_000);
    expect(node.toPods().at(-1)).toEqual(mounted('u1', 'data'));
  });

  it('of one pod’s device is told to all that wait for it', () => {
    boot();
    failing('csi.stage');
    node.want('u1', volumeOf());
    node.want('u2', volumeOf());
    node.advance(500);
    expect(node.events()).toHaveLength(3);
  });

  it('to reach a driver ends when it registers', () => {
    boot({ isListening: false });
    node.want('u1', volumeOf());
    node.want('u2', volumeOf({ isEphemeral: true, name: 'own', spec: 'own', handle: 'own' }));
    node.advance(60_000);
    expect(new Set(node.events())).toEqual(
      new Set([
        'MountVolume.MountDevice failed for volume "pv1" : kubernetes.io/csi: attacher.MountDevice failed to create ' +
          `newCsiDriverClient: driver name ${DRIVER} not found in the list of registered CSI drivers`,
        'MountVolume.SetUp failed for volume "own" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: ' +
          `driver name ${DRIVER} not found in the list of registered CSI drivers`,
      ]),
    );
    node.listen();
    expect(node.toPods().at(-1)).toEqual(mounted('u1', 'data'));
  });

  it('to reach a driver named like what every object has is one of any other', () => {
    boot();
    node.want('u1', volumeOf({ driver: 'constructor', isEphemeral: true }));
    node.advance(60_000);
    expect(node.events()[0]).toContain('driver name constructor not found in the list of registered CSI drivers');
  });

  it('of the end is tried until it succeeds, and the pod waits', () => {
    boot();
    node.want('u1', volumeOf());
    failing('csi.unpublish');
    node.release('u1');
    node.advance(5_000);
    expect(node.toPods().at(-1)).toEqual(mounted('u1', 'data'));
    expect(node.logged()).toContain('UnmountVolume.TearDown failed');
    failing('csi.unstage');
    node.advance(5_000);
    expect(node.toPods().at(-1)).toEqual(unmounted('u1'));
    node.advance(5_000);
    expect(node.logged()).toContain('UnmountVolume.UnmountDevice failed');
    node.knobs.fault = () => undefined;
    node.advance(122_000);
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1', 'unpublish h1', 'unstage h1']);
  });

  it('of a pod that ends while its driver is busy waits for the driver', () => {
    boot();
    let answers = false;
    node.knobs.fault = (name) => (name === 'csi.publish' && !answers ? fail('DeadlineExceeded') : undefined);
    node.want('u1', volumeOf());
    node.release('u1');
    answers = true;
    node.advance(500);
    expect(node.askedFor('csi.unpublish')).toHaveLength(1);
    expect(node.toPods().at(-1)).toEqual(unmounted('u1'));
    expect(node.disk.devices.size).toBe(0);
  });
});

describe('a volume whose group takes long to get its files', () => {
  const path = `${ROOT}/pods/u1/volumes/kubernetes.io~csi/pv1/mount`;
  const publishSlowly = (spec: object) => {
    boot({ spec: { attachRequired: false, ...spec } });
    node.knobs.fault = (name) => (name === 'csi.publish' ? 'hang' : undefined);
    node.knobs.sharings = [{ path, files: 9, forMs: 40_000 }];
    node.want('u1', volumeOf({ fsGroup: 7 }));
  };

  it('is told of for as long as it takes', () => {
    publishSlowly({ fsGroupPolicy: 'File' });
    node.advance(29_000);
    expect(node.askedFor('volume.sharings')).toEqual([]);
    node.advance(65_000);
    const slow = 'Setting volume ownership for u1/volumes/kubernetes.io~csi/pv1/mount';
    expect(node.askedFor('volume.sharings')[0]).toEqual({ directory: `${ROOT}/pods/u1/volumes/kubernetes.io~csi/pv1` });
    expect(node.events()).toEqual([
      expect.stringContaining(`${slow} is taking longer than expected`),
      expect.stringContaining(`${slow}, processed 9 files.`),
    ]);
  });

  it('is not looked for where the driver gives it', () => {
    publishSlowly({ fsGroupPolicy: 'None' });
    node.advance(94_000);
    expect(node.askedFor('volume.sharings')).toEqual([]);
  });
});

describe('a volume of the pod itself', () => {
  const own = volumeOf({ isEphemeral: true, name: 'own', spec: 'own', handle: 'csi-1', accessModes: [] });

  it('needs no device and is in no list', () => {
    boot({ spec: { attachRequired: true, volumeLifecycleModes: ['Ephemeral'] } });
    node.want('u1', own);
    expect(node.disk.calls).toEqual(['publish csi-1']);
    expect(node.inUse()).toEqual([[]]);
    node.release('u1');
    expect(node.disk.calls).toEqual(['publish csi-1', 'unpublish csi-1']);
  });

  it('is refused by a driver without a CSIDriver', () => {
    boot({ spec: null });
    node.want('u1', own);
    expect(node.events()).toEqual([`${REFUSED} (no CSIDriver object)`]);
  });

  it('tells its driver of the pod, and hands it tokens, each as long as it is good', () => {
    const tokenRequests = [{ audience: 'vault', expirationSeconds: 600 }, { audience: '' }];
    const spec = { volumeLifecycleModes: ['Ephemeral'], podInfoOnMount: true, tokenRequests, requiresRepublish: true };
    boot({ spec });
    node.want('u1', own);
    const [first] = node.disk.published;
    expect(first!.request.volume_context).toEqual({
      'csi.storage.k8s.io/pod.name': 'pod-u1',
      'csi.storage.k8s.io/pod.namespace': 'default',
      'csi.storage.k8s.io/pod.uid': 'u1',
      'csi.storage.k8s.io/serviceAccount.name': 'robot',
      'csi.storage.k8s.io/ephemeral': 'true',
    });
    expect([Object.keys(first!.tokens), first!.tokensIn, first!.again]).toEqual([
      ['vault', ''],
      'volume_context',
      false,
    ]);
    expect(node.askedFor('kube.create')).toMatchObject([
      { name: 'robot', subresource: 'token', body: { spec: { audiences: ['vault'], expirationSeconds: 600 } } },
      { name: 'robot', subresource: 'token', body: { spec: { audiences: null, expirationSeconds: 3_600 } } },
    ]);
    node.advance(90_000);
    expect(node.disk.published.at(-1)!.again).toBe(true);
    const before = node.disk.published.length;
    node.advance(480_000);
    expect(node.disk.published.length - before).toBeGreaterThan(4);
    expect(node.askedFor('kube.create')).toHaveLength(3);
  });

  it('and the driver of a block device gets the pod, too, but no tokens', () => {
    boot({ spec: { attachRequired: false, podInfoOnMount: true, tokenRequests: [{ audience: 'vault' }] } });
    node.want('u1', volumeOf({ isBlock: true }));
    const [first] = node.disk.published;
    expect(first!.request.volume_context).toMatchObject({
      'csi.storage.k8s.io/pod.name': 'pod-u1',
      'csi.storage.k8s.io/ephemeral': 'false',
    });
    expect([first!.tokens, node.askedFor('kube.create')]).toEqual([{}, []]);
  });

  it('gets another token when the one it had is forgotten', () => {
    boot({ spec: { volumeLifecycleModes: ['Ephemeral'], tokenRequests: [{ audience: 'vault' }] } });
    let isForgotten = true;
    node.knobs.fault = (name) => {
      if (name !== 'csi.publish' || !isForgotten) return undefined;
      isForgotten = false;
      return fail('the secret is not in memory', 'SECRET_NOT_HELD');
    };
    node.want('u1', own);
    expect(node.askedFor('kube.create')).toHaveLength(1);
    node.advance(500);
    expect(node.askedFor('kube.create')).toHaveLength(2);
    expect(node.toPods().at(-1)).toEqual(mounted('u1', 'own'));
  });

  it.each([
    ['a volume', {}, 'MountVolume.MountDevice failed for volume "pv1" : fetching NodeStageSecretRef ns/gone failed: '],
    [
      'a device',
      { isBlock: true },
      'MapVolume.SetUpDevice failed for volume "pv1" : kubernetes.io/csi: failed to get NodeStageSecretRef ns/gone: ',
    ],
  ])('%s whose secret is not there says which', (_, more, text) => {
    boot({ spec: { attachRequired: false } });
    node.knobs.fault = (name) => (name === 'kube.get' ? fail('secrets "gone" not found', 'NotFound') : undefined);
    node.want('u1', volumeOf({ stageSecret: { namespace: 'ns', name: 'gone' }, ...more }));
    const found = 'kubernetes.io/csi: failed to find the secret gone in the namespace ns with error: ';
    expect(node.events()).toEqual([`${text}${found}secrets "gone" not found`]);
  });

  it('is published once where the driver does not ask for more', () => {
    boot({ spec: { volumeLifecycleModes: ['Ephemeral'] } });
    node.want('u1', own);
    node.advance(600_000);
    expect(node.disk.published).toHaveLength(1);
  });
});

describe('an agent that restarts', () => {
  const restarted = (before: Node): Node => {
    expect(before.divergence()).toBeNull();
    return boot({ disk: before.disk });
  };

  it('stages and publishes again what its pods have, and takes away what they released', () => {
    boot().want('u1', volumeOf());
    const calls = [...node.disk.calls];
    restarted(node).want('u1', volumeOf());
    expect(node.toPods().at(-1)).toEqual(mounted('u1', 'data'));
    expect(node.disk.calls).toEqual([...calls, ...calls]);
    node.release('u1');
    expect(node.disk.calls.slice(4)).toEqual(['unpublish h1', 'unstage h1']);
  });

  it('waits for drivers that it used before, and reports only those that do not register in time', () => {
    boot().want('u1', volumeOf());
    for (const delayMs of [4_000, 6_000]) {
      node = boot({ disk: node.disk, isListening: false });
      node.want('u1', volumeOf());
      node.advance(delayMs);
      const failures = node.events();
      expect(failures.every((message) => /not found in the list of registered CSI drivers/.test(message))).toBe(true);
      expect(failures.length > 0).toBe(delayMs > 5_000);
      node.listen();
      expect(node.events()).toEqual(failures);
      expect(node.toPods().at(-1)).toEqual(mounted('u1', 'data'));
    }
  });

  it('reports a driver that it never used at once', () => {
    boot().want('u1', volumeOf());
    node = boot({ disk: node.disk, isListening: false });
    node.want('u2', volumeOf({ driver: 'other.csi', handle: 'h2', isEphemeral: true }));
    expect(node.events()).toEqual([expect.stringMatching(/driver name other.csi not found/)]);
  });

  it('keeps a device in use for pods that it does not know yet, and does not unstage it', () => {
    boot({ spec: null }).want('u1', volumeOf());
    node.send(listed());
    node.knobs.attachment = { metadata: { name: 'a' }, status: { attached: true } };
    node.advance(20_000);
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
    node = boot({ disk: node.disk, spec: null });
    node.advance(60_000);
    expect(node.inUse()).toEqual([[NAME]]);
    expect(node.disk.calls).toHaveLength(2);
    node.release('u1');
    expect(node.disk.calls.slice(2)).toEqual(['unpublish h1', 'unstage h1']);
    expect(node.inUse()).toEqual([[NAME], []]);
  });

  it('unstages at once what no volume on disk needs', () => {
    boot().want('u1', volumeOf());
    node.disk.volumes.clear();
    restarted(node);
    expect(node.disk.calls.at(-1)).toBe('unstage h1');
    expect(node.disk.devices.size).toBe(0);
  });

  it('ends a pod of which it knows the folder alone, once its driver is there', () => {
    boot().want('u1', volumeOf());
    node = boot({ disk: node.disk, isListening: false });
    node.release('u1');
    node.advance(300_000);
    expect(node.toPods()).toEqual([{ type: 'csi.started' }]);
    node.listen();
    expect(node.disk.calls.slice(2)).toEqual(['unpublish h1', 'unstage h1']);
    expect(node.toPods().at(-1)).toEqual(unmounted('u1'));
  });

  it('does nothing before it knows what is left', () => {
    boot();
    node.want('u1', volumeOf());
    let isReadable = false;
    const { disk } = node;
    node = boot({ disk });
    node.knobs.fault = (name) => (name === 'csi.inventory' && !isReadable ? fail('EIO') : undefined);
    node.release('u2');
    isReadable = true;
    node.advance(10_000);
    expect(node.toPods().at(-1)).toEqual(unmounted('u2'));
  });
});

describe('a crash', () => {
  it('of a volume’s or a device’s actor goes on from the disk', () => {
    boot();
    node.want('u1', volumeOf());
    for (const id of ['mount-0', 'device-1']) {
      node.kernel.dispatch(
        `parent/subject/${id}`,
        { type: id.startsWith('m') ? 'mount.known' : 'device.known', driver: null },
        'test',
      );
    }
    node.advance(6_000);
    node.release('u1');
    node.advance(6_000);
    expect(node.toPods().at(-1)).toEqual(unmounted('u1'));
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1', 'publish h1', 'unpublish h1', 'unstage h1']);
  });
});

it('a pod without such volumes is told at once that it has none', () => {
  boot({ isListening: false });
  node.release('u9');
  expect(node.toPods().at(-1)).toEqual(unmounted('u9'));
  expect(node.askedFor('kube.list')).toEqual([]);
});
