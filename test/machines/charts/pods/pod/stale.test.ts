/** A pod that cannot be inspected in the runtime is reported as by the kubelet, until it can be inspected. */
import { afterEach, expect, it } from 'vitest';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

const REFUSED = 'rpc error: code = Unknown desc = no such task';
const OVERDUE = 'rpc error: code = DeadlineExceeded desc = context deadline exceeded';
const isRunning = () => node.phase('u1') === 'Running';

let node: PodsNode;
const reports = (): readonly string[] => node.events().filter((text) => text.startsWith('FailedSync'));

function prepare(behavior?: number): PodsNode {
  node = new PodsNode(behavior === undefined ? {} : { settings: { behavior } });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests([manifest({ uid: 'u1' })]);
  return node;
}

const watchFails = (uid = 'u1') =>
  void node.kernel.dispatch('kubelet/pods', { type: 'runtime.podStale', uid, message: REFUSED }, 'test');

/** Only an inspection shows the sandbox. */
function onlyInspected(fault: object): void {
  prepare();
  node.world.fault = (name) => {
    if (name === 'cri.runPodSandbox') return { showsNothing: true };
    return name === 'cri.podStatus' ? fault : undefined;
  };
  node.boot();
}

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('at once and every ten to fifteen seconds, when the watch of the runtime could not inspect it', () => {
  prepare().boot().until('Running', isRunning);
  watchFails();
  expect(reports()).toEqual([`FailedSync: error determining status: ${REFUSED}`]);
  node.run(31_000);
  expect(reports().length).toBeGreaterThanOrEqual(3);
  expect(reports().length).toBeLessThanOrEqual(4);
});

it('no more when the watch has inspected it', () => {
  prepare().boot().until('Running', isRunning);
  watchFails();
  const [sandbox] = [...node.world.runtime.sandboxes.values()];
  const status = { ...node.world.runtime.inspect('u1'), observedAtMs: node.world.time.now() };
  expect(sandbox).toBeDefined();
  node.kernel.dispatch('kubelet/pods', { type: 'runtime.podChanged', status }, 'test');
  node.run(31_000);
  expect(reports()).toHaveLength(1);
});

it('when its own inspection fails, however often that is tried', () => {
  onlyInspected({ error: REFUSED });
  node.run(8_000);
  expect(reports()).toEqual([`FailedSync: error determining status: ${REFUSED}`]);
  node.world.fault = () => undefined;
  node.until('Running', isRunning);
  node.run(31_000);
  expect(reports()).toHaveLength(1);
});

it('not while the runtime is away, for all pods', () => {
  onlyInspected({ error: 'rpc error: code = Unavailable desc = error reading from server: EOF' });
  node.run(20_000);
  expect(node.world.callsOf('cri.podStatus').length).toBeGreaterThan(5);
  expect(reports()).toEqual([]);
});

it('when its own inspection never answers', () => {
  onlyInspected({ hangs: true });
  node.run(20_000);
  expect(reports()).toEqual([`FailedSync: error determining status: ${OVERDUE}`]);
});

it('not while it ends', () => {
  prepare().boot().until('Running', isRunning);
  watchFails();
  node.world.setManifests([]);
  node.run(60_000);
  expect(reports()).toHaveLength(1);
});

it('was only logged before', () => {
  prepare(nodeBefore('containersAsKubelet')).boot().until('Running', isRunning);
  watchFails();
  node.run(31_000);
  expect(reports()).toEqual([]);
});
