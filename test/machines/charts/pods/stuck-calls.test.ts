/**
 * No call of one pod delays another pod: for each kind of call there is one that never answers, while other pods start,
 * are probed, and end. (For the agent's own resources in calls that hang, see `faults-of-mounts.test.ts` and others.)
 */
import { afterEach, describe, expect, it } from 'vitest';
import { image, manifest, PodsNode } from '../../../support/pods-node.ts';

/** The time for the start of a pod without delays, on the modelled node. */
const START_MS = 1_500;
const END_MS = 4_000;

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

/** A pod with every kind of call. */
const pod = (uid: string) =>
  manifest({
    uid,
    name: uid,
    spec: {
      terminationGracePeriodSeconds: 2,
      volumes: [{ name: 'v', emptyDir: { medium: 'Memory' } }],
    },
    containers: [
      {
        name: 'app',
        image: `${uid}:1`,
        volumeMounts: [{ name: 'v', mountPath: '/v', subPath: 'part' }],
        readinessProbe: { exec: { command: ['ready'] }, periodSeconds: 1 },
        lifecycle: { postStart: { exec: { command: ['begin'] } }, preStop: { exec: { command: ['end'] } } },
      },
    ],
  });

const isReady = (uid: string) => () =>
  node.phase(uid) === 'Running' && node.status(uid)?.containerStatuses?.every(({ ready }) => ready) === true;
const isGone = (uid: string) => () => node.podState(uid) === undefined;
const want = (...uids: string[]) => node.world.setManifests(uids.map(pod));

/** The call with this name hangs if it is a call of `stuck`, or about its image. */
function hang(name: string, command = ''): void {
  node.world.fault = (call, input) => {
    const { command: run } = input as { command?: readonly string[] };
    const isStuck = node.world.calls.at(-1)?.pod === 'stuck' || JSON.stringify(input).includes('stuck');
    const isMeant = call === name && (command === '' || run?.[0] === command);
    return isStuck && isMeant ? { hangs: true } : undefined;
  };
}

function boot(...uids: string[]): void {
  node = new PodsNode({ settings: { serializeImagePulls: false, maxParallelImagePulls: 0 } });
  for (const uid of ['stuck', 'one', 'two', 'three']) node.world.registry.set(`${uid}:1`, image(`${uid}:1`));
  want(...uids);
}

/** Other pods start and end while `stuck` is stuck; in the end `stuck` is removed, too, once its call may end. */
function othersComeAndGo(): void {
  want('stuck', 'one', 'two');
  node.until('another comes', isReady('two'), START_MS);
  want('stuck', 'one', 'three');
  node.until('it goes', isGone('two'), END_MS);
  node.until('a third one comes', isReady('three'), START_MS);
  node.run(30_000);
  expect(isReady('one')()).toBe(true);
  expect(node.world.runtime.started.filter((name) => name.startsWith('one-'))).toHaveLength(1);
}

describe('a call that never answers', () => {
  const starting: (readonly [call: string, command: string])[] = [
    ['cri.imageStatus', ''],
    ['images.credentials', ''],
    ['cri.pullImage', ''],
    ['host.preparePod', ''],
    ['volume.setUp', ''],
    ['volume.bindSubPaths', ''],
    ['cri.runPodSandbox', ''],
    ['cri.createContainer', ''],
    ['cri.startContainer', ''],
    ['cri.execSync', 'begin'],
    ['probe.watch', ''],
  ];
  it.each(starting)('%s%s of a pod that starts delays no other', (name, command) => {
    boot('stuck', 'one');
    hang(name, command);
    node.boot().until('the other runs', isReady('one'), START_MS);
    expect(node.world.callsOf(name).length, 'it was called').toBeGreaterThan(0);
    expect(isReady('stuck')()).toBe(false);
    othersComeAndGo();
  });

  const ending: (readonly [call: string, command: string])[] = [
    ['cri.execSync', 'end'],
    ['cri.stopContainer', ''],
    ['host.terminationMessage', ''],
    ['cri.stopPodSandbox', ''],
    ['cri.podStatus', ''],
    ['cri.removePodSandbox', ''],
    ['volume.tearDown', ''],
    ['host.removePod', ''],
    ['logs.unlink', ''],
  ];
  it.each(ending)('%s%s of a pod that ends delays no other', (name, command) => {
    boot('stuck', 'one');
    node.boot().until('both run', () => isReady('one')() && isReady('stuck')(), START_MS);
    hang(name, command);
    want('one');
    node.until('it is called', () => node.world.callsOf(name).some(({ pod: uid }) => uid === 'stuck'), END_MS);
    node.run(1_000);
    want('one', 'two');
    node.until('another comes', isReady('two'), START_MS);
    want('one', 'three');
    node.until('it goes', isGone('two'), END_MS);
    node.until('a third one comes', isReady('three'), START_MS);
    expect(isReady('one')()).toBe(true);
  });
});

it('the pull of an image that never comes delays no pod whose image is there, where pulls wait for each other', () => {
  boot('stuck', 'one');
  node = new PodsNode({ world: node.world, settings: { serializeImagePulls: true } });
  for (const uid of ['one', 'two', 'three']) node.world.runtime.images.set(`${uid}:1`, image(`${uid}:1`));
  hang('cri.pullImage');
  node.boot().until('the other runs', isReady('one'), START_MS);
  expect(node.world.callsOf('cri.pullImage')).toHaveLength(1);
  othersComeAndGo();
});

it('a runtime that answers slowly, and reports no end, is not called again before it has answered', () => {
  boot('stuck');
  node.boot().until('it runs', isReady('stuck'), START_MS);
  node.world.runtime.onChange = () => {};
  node.world.fault = (call) => (call === 'cri.podStatus' ? { extraMs: 3_000 } : undefined);
  want();
  node.until('it is gone', isGone('stuck'), 30_000);
});
