/** Pulls of images: credentials one after the other, records of pulls, back-off across a restart of the agent. */
import { afterEach, describe, expect, it } from 'vitest';
import { imageOriginsMachine } from '../../../../src/machines/charts/images/image-origins.ts';
import type { NodeSettings } from '../../../../src/machines/model/settings/node-settings.ts';
import { pullSecret } from '../../../../src/simulation/world/image-rights.ts';
import { image, manifest, type PodOptions, PodsNode } from '../../../support/pods-node.ts';

const IMAGE = 'a.io/x:1';
const VERIFIED = { imagePullVerification: { policy: 'NeverVerifyPreloadedImages', allowlist: [] } };

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

const pod = (uid: string, secrets: readonly string[] = [], policy = 'IfNotPresent'): PodOptions => ({
  uid,
  name: uid,
  spec: { imagePullSecrets: secrets.map((name) => ({ name })) },
  containers: [{ name: 'app', image: IMAGE, imagePullPolicy: policy }],
});

function prepare(settings: Partial<NodeSettings>, ...pods: PodOptions[]): PodsNode {
  node = new PodsNode({ settings });
  node.world.registry.set(IMAGE, image(IMAGE));
  node.world.setManifests(pods.map(manifest));
  return node;
}

const runs = (uid: string) => () => node.status(uid)?.containerStatuses?.[0]?.state?.running !== undefined;
const waiting = (uid: string) => node.status(uid)?.containerStatuses?.[0]?.state?.waiting;
const waitsFor = (uid: string, reason: string) => () => waiting(uid)?.reason === reason;
const pulls = () =>
  node.sink.records.flatMap((record) =>
    record.k === 'effect' && record.name === 'cri.pullImage' ? [record.input as Record<string, unknown>] : [],
  );
const logins = () => pulls().map(({ auth }) => (auth as { $secret: string } | null)?.$secret ?? null);

describe('credentials', () => {
  it('are tried one after the other: pull secrets in their order, then the node', () => {
    prepare({}, pod('u', ['one', 'two']));
    node.world.setObjects([pullSecret('two', 'second'), pullSecret('one', 'first')]);
    node.world.rights.nodeLogins.push('node');
    node.world.rights.locked.set(IMAGE, 'node');
    node.boot().until('it runs', runs('u'));
    expect(logins()).toEqual(['first', 'second', 'node']);
  });

  it('that are all refused are one error, and one back-off', () => {
    prepare({}, pod('u', ['one', 'two']));
    node.world.setObjects([pullSecret('one', 'first'), pullSecret('two', 'second')]);
    node.world.rights.locked.set(IMAGE, 'other');
    node.boot().until('the error', waitsFor('u', 'ErrImagePull'));
    const error = `[first may not pull ${IMAGE}, second may not pull ${IMAGE}]`;
    expect(waiting('u')?.message).toBe(error);
    node.until('the back-off', waitsFor('u', 'ImagePullBackOff'));
    expect(waiting('u')?.message).toBe(`Back-off pulling image "${IMAGE}": ErrImagePull: ${error}`);
    expect(node.events()).toContain(`Failed: Failed to pull image "${IMAGE}": ${error}`);
    expect(node.events()).toContain('Failed: Error: ErrImagePull');
    expect(node.events()).toContain('Failed: Error: ImagePullBackOff');
  });

  it('without any it is pulled anonymously', () => {
    prepare({}, pod('u')).boot().until('it runs', runs('u'));
    expect(pulls()).toMatchObject([
      { image: IMAGE, auth: null, sandboxConfig: { metadata: { uid: 'u', attempt: 0 } } },
    ]);
  });

  it('that are missing are told, and the others are tried', () => {
    prepare({}, pod('u', ['gone', 'one', 'lost']));
    node.world.setObjects([pullSecret('one', 'first'), pullSecret('gone', 'x', 'elsewhere')]);
    node.boot().until('it runs', runs('u'));
    expect(logins()).toEqual(['first']);
    expect(node.events()).toContain(
      'FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (gone, lost); ' +
        'attempting to pull the image may not succeed.',
    );
  });

  it('of one pod pull for no other', () => {
    prepare({}, pod('u1', ['one'], 'Always'), pod('u2', [], 'Always'));
    node.world.setObjects([pullSecret('one', 'first')]);
    node.world.rights.locked.set(IMAGE, 'first');
    node.boot().until('one runs', runs('u1'));
    node.until('the other fails', waitsFor('u2', 'ErrImagePull'));
    expect(waiting('u2')?.message).toBe(`nobody may not pull ${IMAGE}`);
  });

  it('that cannot be looked up are an error of that pod alone', () => {
    prepare({}, pod('u1', ['one']));
    node.world.fault = (name) =>
      name === 'images.credentials' ? { error: 'pull secret default/one: it is broken', code: 'X' } : undefined;
    node.boot().until('the error', waitsFor('u1', 'ErrImagePull'));
    expect(waiting('u1')?.message).toBe('pull secret default/one: it is broken');
    node.world.fault = () => undefined;
    node.until('it runs', runs('u1'));
  });
});

it('no image is pulled for a pod that cannot run here', () => {
  const { spec, ...rest } = pod('u');
  prepare({}, { ...rest, spec: { ...spec, hostUsers: false } })
    .boot()
    .run(60_000);
  expect(pulls()).toEqual([]);
  expect(node.events()).toContain(
    "FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, " +
      'runtime does not support user namespaces',
  );
});

describe('an image that is there', () => {
  it('may be used by every pod if the node did not pull it', () => {
    prepare(VERIFIED, pod('u')).world.runtime.images.set(IMAGE, image(IMAGE));
    node.boot().until('it runs', runs('u'));
    expect(pulls()).toEqual([]);
    expect(node.world.rights.records.size).toBe(0);
  });

  it('may be used by every pod if it was pulled without a secret', () => {
    prepare(VERIFIED, pod('u1')).boot().until('one runs', runs('u1'));
    node.world.setManifests([manifest(pod('u1')), manifest(pod('u2'))]);
    node.until('the other runs', runs('u2'));
    expect(pulls()).toHaveLength(1);
    expect(node.world.rights.intents.size).toBe(0);
  });

  function withOwner(...others: PodOptions[]) {
    prepare(VERIFIED, pod('u1', ['one']));
    node.world.setObjects([pullSecret('one', 'first'), pullSecret('same', 'first'), pullSecret('two', 'second')]);
    node.world.rights.locked.set(IMAGE, 'first');
    node.boot().until('the owner runs', runs('u1'));
    node.world.setManifests([pod('u1', ['one']), ...others].map(manifest));
  }

  it('is pulled again for a pod that shows nothing, and the registry refuses', () => {
    withOwner(pod('u2'));
    node.until('the refusal', waitsFor('u2', 'ErrImagePull'));
    expect(logins()).toEqual(['first', null]);
  });

  it('is given to a pod that shows the same secret, or another one with the same login', () => {
    withOwner(pod('u2', ['one']), pod('u3', ['same']));
    node.until('both run', () => runs('u2')() && runs('u3')());
    expect(pulls()).toHaveLength(1);
    const [record] = [...node.world.rights.records.values()];
    expect(record?.['a.io/x']?.secrets.map(({ name }) => name)).toEqual(['one', 'same']);
    expect(node.events()).toContain(
      `Pulled: Container image "${IMAGE}" already present on machine and can be accessed by the pod`,
    );
  });

  it('is there no more for a pod that must not pull and shows nothing', () => {
    withOwner(pod('u2', [], 'Never'));
    node.until('the refusal', waitsFor('u2', 'ErrImageNeverPull'));
    expect(waiting('u2')?.message).toBe(`Container image "${IMAGE}" is not present with pull policy of Never`);
    expect(pulls()).toHaveLength(1);
  });

  it('of unknown origin has to be pulled: an agent died while it pulled', () => {
    prepare(VERIFIED, pod('u')).world.runtime.images.set(IMAGE, image(IMAGE));
    node.world.rights.intents.add(IMAGE);
    node.boot().until('it runs', runs('u'));
    expect(pulls()).toHaveLength(1);
    expect(node.world.rights.intents.size).toBe(0);
  });

  it.each([
    ['AlwaysVerify', [], 1],
    ['NeverVerify', [], 0],
    ['NeverVerifyAllowlistedImages', ['a.io/*'], 0],
    ['NeverVerifyAllowlistedImages', ['a.io/x'], 0],
    ['NeverVerifyAllowlistedImages', ['a.io/xy', 'b.io/*'], 1],
  ])('under the policy %s %j costs %d pulls', (policy, allowlist, count) => {
    prepare({ imagePullVerification: { policy, allowlist } }, pod('u'));
    node.world.runtime.images.set(IMAGE, image(IMAGE));
    node.boot().until('it runs', runs('u'));
    expect(pulls()).toHaveLength(count);
  });

  it.each([
    ['x', 0],
    ['docker.io/library/x', 1],
    ['docker.io/library/*', 1],
  ])('that a pod names by its short name is on the list as %s and costs %d pulls', (listed, count) => {
    const short = { ...pod('u'), containers: [{ name: 'app', image: 'x:1', imagePullPolicy: 'IfNotPresent' }] };
    prepare({ imagePullVerification: { policy: 'NeverVerifyAllowlistedImages', allowlist: [listed] } }, short);
    for (const images of [node.world.runtime.images, node.world.registry]) images.set('x:1', image('x:1'));
    node.boot().until('it runs', runs('u'));
    expect(pulls()).toHaveLength(count);
    const [record = {}] = [...node.world.rights.records.values()];
    expect(Object.keys(record)).toEqual(count === 0 ? [] : ['x']);
  });

  it('is pulled when the records cannot be read', () => {
    prepare(VERIFIED, pod('u')).world.runtime.images.set(IMAGE, image(IMAGE));
    node.world.fault = (name) => (name === 'images.pullRecord' ? { error: 'damaged', code: 'X' } : undefined);
    node.boot().until('it runs', runs('u'));
    expect(pulls()).toHaveLength(1);
  });

  it('is not pulled while the intent cannot be written', () => {
    prepare(VERIFIED, pod('u'));
    node.world.fault = (name) => (name === 'images.recordIntent' ? { error: 'disk full', code: 'ENOSPC' } : undefined);
    node.boot().until('the error', waitsFor('u', 'ErrImagePull'));
    expect(waiting('u')?.message).toBe(`Failed to record image pull intent for container image "${IMAGE}": disk full`);
    expect(pulls()).toEqual([]);
  });
});

describe('records of pulls', () => {
  it('are looked after by a machine of their own, once a start', () => {
    prepare(VERIFIED, pod('u')).boot().until('it runs', runs('u'));
    expect(imageOriginsMachine.id).toBe('imageOrigins');
    expect(node.world.callsOf('images.listIntents')).toHaveLength(1);
  });

  it('are made for what an agent had begun to pull when it died', () => {
    prepare(VERIFIED).world.runtime.images.set(IMAGE, image(IMAGE));
    node.world.runtime.images.set('busybox', { ...image('busybox'), repo_tags: ['docker.io/library/busybox:1'] });
    for (const name of [IMAGE, 'busybox:1', 'gone:1']) node.world.rights.intents.add(name);
    node.boot().run(1_000);
    expect([...node.world.rights.records]).toEqual([
      [image(IMAGE).id, {}],
      [image('busybox').id, {}],
    ]);
    expect([...node.world.rights.intents]).toEqual(['gone:1']);
  });

  it('go with their images', () => {
    prepare(VERIFIED, pod('u')).boot().until('it runs', runs('u'));
    node.world.rights.records.set('sha256:unused:1', {});
    node.world.runtime.images.set('unused:1', image('unused:1'));
    node.world.disk = { capacityBytes: '1000000', availableBytes: '100000' };
    node.run(310_000);
    expect([...node.world.rights.records.keys()]).toEqual([image(IMAGE).id]);
  });
});

describe('pulls that follow each other too fast', () => {
  const NAMES = ['a.io/x:1', 'a.io/y:1', 'a.io/z:1'];
  const fast = (settings: Partial<NodeSettings>) => {
    const pods = NAMES.map((name, at) => ({ ...pod(`u${at}`), containers: [{ name: 'app', image: name }] }));
    prepare({ serializeImagePulls: false, registryPullQPS: 1, registryBurst: 2, ...settings }, ...pods);
    for (const name of NAMES) node.world.registry.set(name, image(name));
    return node.boot();
  };
  const last = () => NAMES.findIndex((_, at) => waiting(`u${at}`)?.reason === 'ErrImagePull');

  it.each<[string, Partial<NodeSettings>]>([
    ['without records', {}],
    ['with records of pulls', VERIFIED],
  ])('fail in the words of the kubelet and wait out their back-off, %s', (_, settings) => {
    fast(settings).until('one is too much', () => last() >= 0);
    const [uid, name] = [`u${last()}`, NAMES[last()]!];
    expect(waiting(uid)?.message).toBe('pull QPS exceeded');
    const events = [`Pulling: Pulling image "${name}"`, `Failed: Failed to pull image "${name}": pull QPS exceeded`];
    expect(node.events()).toEqual(expect.arrayContaining([...events, 'Failed: Error: ErrImagePull']));
    expect(pulls()).toHaveLength(2);
    node.until('its back-off', waitsFor(uid, 'ImagePullBackOff'));
    expect(waiting(uid)?.message).toBe(`Back-off pulling image "${name}": ErrImagePull: pull QPS exceeded`);
    for (const each of ['u0', 'u1', 'u2']) node.until('it runs', runs(each));
    expect(pulls()).toHaveLength(3);
    expect([...node.world.rights.intents]).toEqual([]);
  });

  it('are none where there is no limit', () => {
    fast({ registryPullQPS: 0 });
    for (const each of ['u0', 'u1', 'u2']) node.until('it runs', runs(each));
    expect(node.events().filter((each) => each.startsWith('Failed'))).toEqual([]);
  });
});

describe('an image that must not be pulled', () => {
  const start = () =>
    prepare({}, pod('u', [], 'Never'))
      .boot()
      .until('the refusal', waitsFor('u', 'ErrImageNeverPull'));

  it('is found within ten seconds after it was loaded', () => {
    start().run(60_000);
    node.world.runtime.images.set(IMAGE, image(IMAGE));
    node.run(12_000);
    expect(runs('u')()).toBe(true);
    expect(pulls()).toEqual([]);
  });
});

describe('a pull that waits for its turn', () => {
  const NAMES = ['a.io/x:1', 'a.io/y:1'];

  it('is told at once, once', () => {
    const pods = NAMES.map((name, at) => ({ ...pod(`u${at}`), containers: [{ name: 'app', image: name }] }));
    prepare({ serializeImagePulls: true }, ...pods);
    for (const name of NAMES) node.world.registry.set(name, image(name));
    node.world.fault = (name) => (name === 'cri.pullImage' ? { hangs: true } : undefined);
    node.boot().run(5_000);
    expect(pulls()).toHaveLength(1);
    const told = node.events().filter((each) => each.startsWith('Pulling: '));
    expect(told.toSorted()).toEqual(NAMES.map((name) => `Pulling: Pulling image "${name}"`));
  });
});

it('an image without a tag is shown as the runtime names it: by its id', () => {
  const name = `a.io/x@sha256:${'a'.repeat(64)}`;
  prepare({}, { ...pod('u'), containers: [{ name: 'app', image: name }] });
  node.world.registry.set(name, { ...image(name), repo_tags: [] });
  node.boot().until('it runs', runs('u'));
  expect(node.status('u')?.containerStatuses?.[0]?.image).toBe(image(name).id);
});

describe('an image that no pod requests', () => {
  const address = `kubelet/images/image-${encodeURIComponent(IMAGE)}`;
  const isHeld = () => node.kernel.snapshotOf(address) !== undefined;

  it('is forgotten, and known again after the next request', () => {
    prepare({}, pod('u1')).boot().until('it runs', runs('u1'));
    node.run(4 * 60_000);
    expect(isHeld()).toBe(true);
    node.run(2 * 60_000);
    expect(isHeld()).toBe(false);
    node.world.setManifests([manifest(pod('u1')), manifest(pod('u2'))]);
    node.until('it runs', runs('u2'));
    expect(isHeld()).toBe(true);
    node.run(6 * 60_000);
    expect(isHeld()).toBe(false);
  });

  it('is held while a back-off counts', () => {
    prepare({}, pod('u')).world.rights.locked.set(IMAGE, 'other');
    node.boot().until('the back-off', waitsFor('u', 'ImagePullBackOff'));
    node.world.setManifests([]);
    node.run(10 * 60_000);
    expect(isHeld()).toBe(true);
    node.run(60_000);
    expect(isHeld()).toBe(false);
  });
});

describe('while another pod pulls the present image', () => {
  const other = pod('u2', [], 'Always');
  const pulling = `Pulling: Pulling image "${IMAGE}"`;

  function withPull(settings: Partial<NodeSettings>, ...later: PodOptions[]): void {
    prepare(settings, pod('u1')).boot().until('one runs', runs('u1'));
    node.world.fault = (name) => (name === 'cri.pullImage' ? { hangs: true } : undefined);
    node.world.setManifests([pod('u1'), other].map(manifest));
    node.until('the pull', () => pulls().length === 2);
    node.world.setManifests([pod('u1'), other, ...later].map(manifest));
  }

  it.each([[{}], [VERIFIED]])('a pod that may use it starts at once (%j)', (settings) => {
    withPull(settings, pod('u3'));
    node.until('it runs', runs('u3'));
    expect(runs('u2')()).toBe(false);
    expect(pulls()).toHaveLength(2);
  });

  it('a pod that must pull waits, too, and each of them has an event', () => {
    withPull(VERIFIED, pod('u3', [], 'Always'));
    node.run(5_000);
    expect(runs('u3')()).toBe(false);
    expect(pulls()).toHaveLength(2);
    expect(node.events().filter((text) => text === pulling)).toHaveLength(3);
  });

  it('a pod waits if the origin of the image is unknown', () => {
    prepare(VERIFIED, other).world.runtime.images.set(IMAGE, image(IMAGE));
    node.world.fault = (name) => (name === 'cri.pullImage' ? { hangs: true } : undefined);
    node.boot().until('the pull', () => pulls().length === 1);
    node.world.setManifests([other, pod('u3')].map(manifest));
    node.run(5_000);
    expect(runs('u3')()).toBe(false);
  });
});

describe('the back-off of a pull', () => {
  it('of a pod that is gone is forgotten when it is long over', () => {
    prepare({}, pod('u1'));
    node.world.rights.locked.set(IMAGE, 'other');
    node.boot().until('the back-off', waitsFor('u1', 'ImagePullBackOff'));
    node.world.setManifests([manifest(pod('u2'))]);
    node.run(15 * 60_000);
    const address = `kubelet/images/image-${encodeURIComponent(IMAGE)}`;
    const { backoff } = (node.kernel.snapshotOf(address) as { context: { backoff: object } }).context;
    expect(Object.keys(backoff)).toEqual(['u2']);
  });

  it('goes on after a restart of the agent', () => {
    prepare({}, pod('u')).world.registry.clear();
    node.boot().until('three tries', () => pulls().length === 3);
    node.until('the third failure', waitsFor('u', 'ImagePullBackOff'));
    const lastPullMs = node.world.callsOf('cri.pullImage').at(-1)!.atMs;
    node = node.run(2_000).restart();
    node.until('the back-off', waitsFor('u', 'ImagePullBackOff'));
    expect(waiting('u')?.message).toContain(`Back-off pulling image "${IMAGE}": ErrImagePull: `);
    node.until('the fourth try', () => pulls().length === 1);
    expect(node.world.callsOf('cri.pullImage').at(-1)!.atMs - lastPullMs).toBeGreaterThanOrEqual(40_000);
    node.world.registry.set(IMAGE, image(IMAGE));
    node.until('it runs', runs('u')).run(2_000);
    expect(node.world.softState.pulls).toEqual({});
  });

  it('has the reason that the runtime names', () => {
    prepare({}, pod('u'));
    node.world.fault = (name) =>
      name === 'cri.pullImage'
        ? { error: 'rpc error: code = Unknown desc = RegistryUnavailable: it is down', code: 'UNKNOWN' }
        : undefined;
    node.boot().until('the error', waitsFor('u', 'RegistryUnavailable'));
    expect(waiting('u')?.message).toBe(
      `image pull failed for ${IMAGE} because the registry is unavailable: it is down`,
    );
  });
});

it('a pod that wants the image after a pull has ended is not said to have pulled it', () => {
  prepare({}, pod('first', [], 'Always'));
  node.world.runtime.images.set(IMAGE, image(IMAGE));
  const address = `kubelet/images/image-${encodeURIComponent(IMAGE)}`;
  const verifies = () => (node.kernel.snapshotOf(address) as { value?: unknown } | undefined)?.value === 'verifying';
  node.boot().until('the pull has ended', verifies);
  node.world.setManifests([pod('first', [], 'Always'), pod('second')].map(manifest));
  node.until('both run', () => runs('first')() && runs('second')());
  const told = node.events().filter((event) => event.startsWith('Pulled'));
  expect(told).toEqual([
    expect.stringContaining('Successfully pulled image'),
    expect.stringContaining('already present on machine'),
  ]);
});
