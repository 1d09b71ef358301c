/** Observations and reports of the node: `pleg`, `syncLoop`, `status`, and how a `container` handles them. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nodeWith, type PodOptions, PodsNode } from '../../../support/pods-node.ts';

let node: PodsNode;
const prepare = (...pods: PodOptions[]): PodsNode => (node = nodeWith(...pods));
const running = (uid: string) => () => node.phase(uid) === 'Running';
const reported = (to: string, type: string) =>
  node.sink.records.flatMap((each) =>
    each.k === 'message' && each.to === to && each.event.type === type ? [each.event] : [],
  );
const stateOf = (address: string) => (node.kernel.snapshotOf(address) as { value: unknown }).value;

/** The number of crashes that the test has caused. */
let crashes: number;
beforeEach(() => {
  crashes = 0;
});

afterEach(() => {
  expect(node.crashes()).toHaveLength(crashes);
  node.assertReplays();
});

describe('pleg', () => {
  const send = (type: string) => node.kernel.dispatch('kubelet/pleg', { type, message: 'refused' }, 'test');

  it('is healthy with the first complete list, and unhealthy when listing has failed for three minutes', () => {
    prepare().boot().run(10);
    const health = () => (stateOf('kubelet/pleg') as { health: string }).health;
    expect(health()).toBe('healthy');
    send('runtime.relistFailing');
    node.run(179_000);
    expect(health()).toBe('failing');
    node.run(1_000);
    expect(health()).toBe('unhealthy');
    expect(reported('kubelet', 'pleg.unhealthy').at(-1)).toMatchObject({
      message: 'PLEG is not healthy: pleg was last seen active 3m0s ago; threshold is 3m0s',
    });
    send('runtime.relistWorking');
    expect(health()).toBe('healthy');
  });

  it('opens the watch again when it breaks', () => {
    prepare({ uid: 'u1' });
    node.world.fault = (name, _, nth) => (name === 'cri.watchPods' && nth === 0 ? { error: 'broken' } : undefined);
    node.boot().until('Running', running('u1'));
    expect(node.world.callsOf('cri.watchPods')).toHaveLength(2);
  });
});

describe('syncLoop', () => {
  /** The numbers of these messages in the journal. */
  const places = (to: string, type: string): number[] =>
    node.sink.records.flatMap((each, i) =>
      each.k === 'message' && each.to === to && each.event.type === type ? [i] : [],
    );

  it('hears that a source or the runtime has spoken after `pods` has heard what it said', () => {
    prepare({ uid: 'u1' }).boot().until('Running', running('u1'));
    expect(places('kubelet/pods', 'config.pods')[0]).toBeLessThan(
      places('kubelet/syncLoop', 'config.sourceReady').at(-1)!,
    );
    const [listed] = places('kubelet/pods', 'runtime.relisted');
    expect(listed).toBeLessThan(places('kubelet/syncLoop', 'runtime.relisted')[0]!);
    expect(listed).toBeLessThan(places('kubelet/pods', 'pods.housekeeping')[0]!);
  });

  it('cleans up only after everything was said again to `pods` that started anew', () => {
    prepare({ uid: 'u1' }).boot().until('Running', running('u1'));
    const sincePods = node.sink.records.length;
    node.kernel.dispatch('kubelet/pods', { type: 'config.pods', op: 'ADD', source: 'file', pods: null }, 'test');
    crashes = 1;
    node.run(10_000);
    const later = (to: string, type: string) => places(to, type).find((place) => place > sincePods + 1)!;
    const house = later('kubelet/pods', 'pods.housekeeping');
    expect(later('kubelet/pods', 'config.pods')).toBeLessThan(house);
    expect(later('kubelet/pods', 'runtime.podChanged')).toBeLessThan(house);
    expect(later('kubelet/pods', 'runtime.relisted')).toBeLessThan(house);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('asks no source for its pods before the runtime was up', () => {
    prepare({ uid: 'u1' });
    node.kernel.boot();
    node.kernel.dispatch('kubelet', { type: 'pleg.unhealthy' }, 'test');
    node.world.fault = (name) => (name === 'cri.watchPods' ? { extraMs: 5_000 } : undefined);
    node.run(4_000);
    expect(stateOf('kubelet/podConfig')).toBe('waiting');
    expect(node.world.callsOf('host.watchManifests')).toEqual([]);
    expect(places('kubelet/pods', 'config.pods')).toEqual([]);
    node.until('Running', running('u1'), 5_000);
  });

  it('ends nothing while a source has not spoken', () => {
    prepare({ uid: 'u1' }).boot().until('Running', running('u1'));
    const instance = node.world.runtime.running('app');
    node.world.manifests = [];
    node.world.fault = (name) => (name === 'host.watchManifests' ? { hangs: true } : undefined);
    node = node.restart();
    node.run(300_000);
    expect(stateOf('kubelet/syncLoop')).toBe('starting');
    expect(node.podState('u1')).toBe('unclaimed');
    expect(instance?.state).toBe('CONTAINER_RUNNING');
    expect(node.world.runtime.running('app')).toBe(instance);
  });

  it('pauses housekeeping while the runtime is down', () => {
    prepare().boot().run(10);
    expect(stateOf('kubelet/syncLoop')).toBe('syncing');
    node.kernel.dispatch('kubelet/syncLoop', { type: 'runtime.down', errors: ['no'] }, 'test');
    expect(stateOf('kubelet/syncLoop')).toBe('starting');
    const before = reported('kubelet/pods', 'pods.housekeeping').length;
    node.run(300_000);
    expect(reported('kubelet/pods', 'pods.housekeeping')).toHaveLength(before);
    expect(node.logs('Skipping pod synchronization')).toEqual([{ err: 'no' }]);
  });
});

describe('status', () => {
  it('says each change of phase, readiness and restarts once, and forgets pods that are gone', () => {
    prepare({ uid: 'u1' });
    node.world.runtime.programs.set('app', [{ runsMs: 100, exitCode: 1 }, {}]);
    node.boot().until('a restart', () => node.world.runtime.started.length === 2);
    node.run(5_000);
    const lines = node.logs('Pod status').map(({ phase, ready, restarts }) => [phase, ready, restarts]);
    expect(lines[0]).toEqual(['Pending', false, 0]);
    expect(lines[1]).toEqual(['Running', true, 0]);
    expect(lines.at(-1)).toEqual(['Running', true, 1]);
    const texts = lines.map((line) => JSON.stringify(line));
    expect(texts.every((text, i) => text !== texts[i - 1])).toBe(true);
    node.world.setManifests([]);
    node.until('gone', () => node.podState('u1') === undefined);
    expect((node.kernel.snapshotOf('kubelet/status') as { context: unknown }).context).toMatchObject({ pods: {} });
  });
});

describe('container', () => {
  it('takes an instance that was created and never started, instead of making another', () => {
    prepare({ uid: 'u1' });
    node.world.fault = (name) => (name === 'cri.startContainer' ? { hangs: true } : undefined);
    node.boot().until('the start', () => node.world.callsOf('cri.startContainer').length === 1);
    node.world.fault = () => undefined;
    node = node.restart();
    node.until('Running', running('u1'), 5_000);
    expect(node.world.runtime.containers.size).toBe(1);
    expect(node.world.callsOf('cri.createContainer')).toHaveLength(1);
  });

  it('does not believe an observation that began before its own call ended', () => {
    prepare({ uid: 'u1' }).boot();
    node.until('the start', () => node.world.callsOf('cri.startContainer').length === 1);
    const stale = { ...node.world.runtime.inspect('u1'), observedAtMs: node.time.ms };
    node.until('Running', running('u1'));
    node.kernel.dispatch('kubelet/pleg', { type: 'runtime.podChanged', status: { ...stale, containers: [] } }, 'test');
    node.kernel.dispatch('kubelet/pleg', { type: 'runtime.podChanged', status: stale }, 'test');
    node.run(30_000);
    expect(running('u1')()).toBe(true);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('whose configuration cannot be, says why and makes nothing', () => {
    const containers = [{ name: 'app', image: 'app:1', securityContext: { runAsNonRoot: true } }];
    prepare({ uid: 'u1', containers }).boot();
    const waiting = () => node.status('u1')?.containerStatuses?.[0]?.state?.waiting;
    node.until('the refusal', () => waiting()?.reason === 'CreateContainerConfigError');
    expect(waiting()!.message).toContain('container has runAsNonRoot and image will run as root');
    node.run(60_000);
    expect(node.world.callsOf('cri.createContainer')).toEqual([]);
    expect(node.events().filter((text) => text.startsWith('Failed: Error: '))).not.toEqual([]);
  });
});
