/**
 * Faults around pods: stuck calls, lost replies, crashes of the agent at every step and of single actors, an
 * unreachable runtime. Each ends with the wanted pod, nothing started twice, and a replay without divergence.
 */
import { afterEach, describe, expect, it } from 'vitest';
import { manifest, nodeWith, type PodOptions, PodsNode } from '../../../support/pods-node.ts';

let node: PodsNode;
let expectsCrashes = false;
const prepare = (...pods: PodOptions[]): PodsNode => (node = nodeWith(...pods));
const boot = (...pods: PodOptions[]): PodsNode => prepare(...pods).boot();
const running = (uid: string) => () => node.isReady(uid);
const gone = (uid: string) => () => node.podState(uid) === undefined;
const started = () => node.world.runtime.started;
const aliveNow = () => [...node.world.runtime.containers.values()].filter(({ state }) => state === 'CONTAINER_RUNNING');

afterEach(() => {
  expect(expectsCrashes ? [] : node.crashes()).toEqual([]);
  expectsCrashes = false;
  node.assertReplays();
});

describe('a stuck call of one pod', () => {
  const calls = ['cri.runPodSandbox', 'cri.createContainer', 'cri.startContainer', 'host.preparePod'];
  it.each(calls)('%s delays only that pod, which can be removed nevertheless', (name) => {
    prepare({ uid: 'stuck', name: 'a' }, { uid: 'fine', name: 'b' });
    let isStuck = true;
    node.world.fault = (call, input) =>
      isStuck && call === name && JSON.stringify(input).includes('stuck') ? { hangs: true } : undefined;
    if (name === 'cri.startContainer') {
      node.world.fault = (call, input) => {
        const id = (input as { containerId?: string }).containerId ?? '';
        const uid = node.world.runtime.containers.get(id)?.sandbox.config.metadata?.uid;
        return isStuck && call === name && uid === 'stuck' ? { hangs: true } : undefined;
      };
    }
    node.boot();
    node.until('the other runs', running('fine'), 1_000);
    node.run(60_000);
    expect(running('stuck')()).toBe(false);
    node.world.setManifests([manifest({ uid: 'fine', name: 'b' })]);
    node.run(1_000);
    isStuck = false;
    node.until('the stuck one is gone', gone('stuck'));
    expect(running('fine')()).toBe(true);
    expect(node.world.runtime.sandboxes.size).toBe(1);
  });
});

describe('an inspection that never answers', () => {
  it('is made good by the watch, and repeated for what only an inspection shows', () => {
    prepare({ uid: 'u1' });
    node.world.fault = (name, _, nth) => (name === 'cri.podStatus' && nth % 2 === 0 ? { hangs: true } : undefined);
    node.boot();
    node.until('Running', running('u1'), 1_000);
    node.world.setManifests([]);
    node.until('gone', gone('u1'), 60_000);
  });
});

describe('a call that fails or whose reply is lost', () => {
  const names = [
    'host.preparePod',
    'cri.runPodSandbox',
    'cri.podStatus',
    'cri.imageStatus',
    'cri.createContainer',
    'cri.startContainer',
  ];
  const kinds = [
    ['fails', {}],
    ['succeeds, but the reply is lost', { lost: true }],
  ] as const;
  for (const [kind, fault] of kinds) {
    it.each(names)(`${kind}: %s; the container runs once`, (name) => {
      prepare({ uid: 'u1' });
      node.world.fault = (call, _, nth) =>
        call === name && nth === 0 ? { error: 'deadline exceeded', ...fault } : undefined;
      node.boot();
      node.until('Running', running('u1'), 30_000);
      node.run(30_000);
      expect(aliveNow()).toHaveLength(1);
      expect(started()).toHaveLength(1);
    });
  }

  const endings = ['cri.stopContainer', 'cri.stopPodSandbox', 'cri.removePodSandbox', 'host.removePod'];
  for (const [kind, fault] of kinds) {
    it.each(endings)(`${kind}: %s; nothing is left`, (name) => {
      prepare({ uid: 'u1' });
      node.world.fault = (call, _, nth) =>
        call === name && nth === 0 ? { error: 'deadline exceeded', ...fault } : undefined;
      node.boot();
      node.until('Running', running('u1'));
      node.world.setManifests([]);
      node.until('gone', gone('u1'), 60_000);
      expect(node.world.runtime.sandboxes.size).toBe(0);
      expect([...node.world.folders, ...node.world.files.keys()]).toEqual([]);
    });
  }
});

describe('an agent that dies', () => {
  const spec = { initContainers: [{ name: 'first', image: 'app:1' }] };

  /** Kills the agent after `steps` steps and lets the next one finish; false if the pod runs before. */
  function dieAfter(steps: number, until: () => boolean): boolean {
    for (let i = 0; i < steps; i++) {
      if (until()) return false;
      node.time.step();
    }
    node = node.restart();
    return true;
  }

  it('at any step of a pod that starts: the next one finishes, and nothing runs twice', () => {
    for (let steps = 1; ; steps++) {
      prepare({ uid: 'u1', spec });
      node.world.runtime.programs.set('first', [{ runsMs: 50 }]);
      node.boot();
      if (!dieAfter(steps, running('u1'))) break;
      node.until(`Running after a death at step ${steps}`, running('u1'), 60_000);
      node.run(20_000);
      expect(aliveNow().map(({ config }) => config.metadata?.name)).toEqual(['app']);
      expect(started().filter((name) => name.includes('/app#'))).toHaveLength(1);
      expect(started().filter((name) => name.includes('/first#'))).toHaveLength(1);
      node.assertReplays();
    }
  });

  it('at any step of a pod that ends: the next one finishes', () => {
    for (let steps = 1; ; steps++) {
      boot({ uid: 'u1', spec });
      node.world.runtime.programs.set('first', [{ runsMs: 50 }]);
      node.until('Running', running('u1'));
      node.world.setManifests([]);
      if (!dieAfter(steps, gone('u1'))) break;
      const isClean = () => node.world.runtime.sandboxes.size === 0 && node.podState('u1') === undefined;
      node.until(`gone after a death at step ${steps}`, isClean, 60_000);
      expect(aliveNow()).toEqual([]);
      node.assertReplays();
    }
  });

  it('leaves running pods untouched', () => {
    const pods = Array.from({ length: 20 }, (_, i) => ({ uid: `u${i}`, name: `p${i}` }));
    boot(...pods);
    node.until('all Running', () => pods.every(({ uid }) => running(uid)()));
    const before = started().length;
    node = node.restart();
    node.until('all Running', () => pods.every(({ uid }) => running(uid)()), 1_000);
    node.run(60_000);
    const touched = node.world.calls.filter(({ name }) => /cri\.(stop|remove)/.test(name));
    expect(touched).toEqual([]);
    expect(started()).toHaveLength(before);
  });
});

describe('a crash of one actor', () => {
  const crash = (address: string, type: string) =>
    node.kernel.dispatch(
      address,
      { type, status: null, name: 'app', view: null, pods: null, manifests: null, uids: 5 },
      'test',
    );
  const cases: [string, string][] = [
    ['kubelet/pods/pod-u1', 'runtime.podChanged'],
    ['kubelet/pods/pod-u1', 'container.changed'],
    ['kubelet/pods/pod-u1/container-app', 'container.observed'],
    ['kubelet/pods', 'config.pods'],
    ['kubelet/syncLoop', 'runtime.down'],
    ['kubelet/podConfig', 'xstate.error.actor.fileSource'],
    ['kubelet/podConfig/fileSource', 'manifests.changed'],
    ['kubelet/images/image-app%3A1', 'image.asked'],
    ['kubelet/status', 'status.changed'],
    ['kubelet/eventRecorder', 'event.recorded'],
  ];

  it.each(cases)('%s by %s: everything goes on, and nothing that runs is touched', (address, type) => {
    expectsCrashes = true;
    boot({ uid: 'u1' });
    node.until('Running', running('u1'));
    crash(address, type);
    node.run(5_000);
    expect(node.crashes()).not.toEqual([]);
    expect(running('u1')()).toBe(true);
    expect(started()).toHaveLength(1);
    expect(node.world.calls.filter(({ name }) => /cri\.(stop|remove)/.test(name))).toEqual([]);
    node.world.setManifests([]);
    node.until('gone', gone('u1'));
    expect(node.world.runtime.sandboxes.size).toBe(0);
  });

  it('while it starts: the pod comes to Running nevertheless, once', () => {
    for (const [address, type] of cases) {
      for (let steps = 1; steps < 20; steps += 3) {
        expectsCrashes = true;
        boot({ uid: 'u1' });
        for (let i = 0; i < steps; i++) node.time.step();
        crash(address, type);
        node.until(`Running after a crash of ${address} at step ${steps}`, running('u1'), 60_000);
        node.run(10_000);
        expect(started()).toHaveLength(1);
        node.assertReplays();
      }
    }
  });
});

describe('a runtime that is away', () => {
  it('holds up pods until it is back', () => {
    prepare({ uid: 'u1' });
    node.world.fault = (name, _, nth) =>
      name.startsWith('cri.') && nth < 3 ? { error: 'connection refused', code: 'UNAVAILABLE' } : undefined;
    node.boot();
    node.until('Running', running('u1'), 60_000);
    expect(started()).toHaveLength(1);
  });

  it('has orphaned pods: they end with the shortest grace period, after all sources have published', () => {
    boot({ uid: 'u1' });
    node.until('Running', running('u1'));
    node.world.runtime.running('app')!.program = { stopsMs: Number.POSITIVE_INFINITY };
    node.world.manifests = [];
    node = node.restart();
    const begin = node.time.ms;
    node.until('gone', () => node.world.runtime.sandboxes.size === 0, 10_000);
    expect(node.time.ms - begin).toBeGreaterThanOrEqual(2_000);
    expect(node.time.ms - begin).toBeLessThan(3_000);
    node.until('forgotten', gone('u1'));
    expect([...node.world.folders, ...node.world.files.keys()]).toEqual([]);
  });

  it('cannot list its folders for a while: what a pod has left that is gone is found later', () => {
    boot({ uid: 'u1' });
    node.until('Running', running('u1'));
    node.world.manifests = [];
    node.world.runtime.sandboxes.clear();
    node.world.runtime.containers.clear();
    node = node.restart();
    const until = node.time.ms + 90_000;
    node.world.fault = (name) => (name === 'volume.podFolders' && node.time.ms < until ? { error: 'EIO' } : undefined);
    const left = () => [...node.world.folders].filter((path) => path.startsWith('/var/lib/'));
    node.run(60_000);
    expect(left()).not.toEqual([]);
    node.run(120_000);
    expect(left()).toEqual([]);
  });
});
