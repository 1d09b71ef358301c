/** Instances that another agent started, lost or left behind: how the actor of a container treats them. */
import { afterEach, expect, it } from 'vitest';
import { image, manifest, nodeWith, PodsNode } from '../../../../support/pods-node.ts';
import { nodeBefore } from '../support.ts';

let node: PodsNode;
const status = () => node.status('u1')?.containerStatuses?.[0];
const isRunning = () => node.phase('u1') === 'Running';

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('one that the runtime lost has not ended in a way that requires a restart of all containers', () => {
  const restartPolicyRules = [{ action: 'RestartAllContainers', exitCodes: { operator: 'NotIn', values: [0] } }];
  node = nodeWith({
    uid: 'u1',
    containers: [{ name: 'app', image: 'app:1', restartPolicy: 'Always', restartPolicyRules }],
  });
  node.boot().until('Running', isRunning);
  node.run(20_000);
  node.world.runtime.removeContainer(node.world.runtime.running('app')!.id);
  node.run(60_000);
  expect(node.world.runtime.started).toEqual(['web-node/app#0', 'web-node/app#1']);
});

it.each([
  ['goes on with the numbers of its logs', undefined, 4],
  ['began with 0 before', nodeBefore('containersAsKubelet'), 0],
])('one that neither the runtime nor the agent knows %s', (_, behavior, restartCount) => {
  node = new PodsNode(behavior === undefined ? {} : { settings: { behavior } });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests([manifest({ uid: 'u1' })]);
  node.world.nextLogs.set('/var/log/pods/default_web-node_u1/app', 4);
  node.boot().until('Running', isRunning);
  expect(node.world.runtime.started).toEqual([`web-node/app#${restartCount}`]);
  expect(status()).toMatchObject({ restartCount });
  node.world.runtime.exit(node.world.runtime.running('app')!, 1);
  node.until('the next one', () => node.world.runtime.started.length === 2);
  expect(status()).toMatchObject({ restartCount: restartCount + 1 });
});

it('one that the runtime knows has the number that follows, whatever logs there are', () => {
  node = nodeWith({ uid: 'u1' });
  node.boot().until('Running', isRunning);
  node.world.nextLogs.set('/var/log/pods/default_web-node_u1/app', 9);
  const [sandbox] = [...node.world.runtime.sandboxes.values()];
  sandbox!.state = 'SANDBOX_NOTREADY';
  node.world.runtime['changed'](sandbox!);
  node.until('the next one', () => node.world.runtime.started.length === 2, 60_000);
  expect(node.world.runtime.started).toEqual(['web-node/app#0', 'web-node/app#1']);
});

/**
 * The machine went down between create and start; like containerd, the runtime does not end a container that never ran.
 */
function createdInDeadSandbox() {
  node = nodeWith({ uid: 'u1' });
  const { runtime } = node.world;
  node.world.fault = (name) => (name === 'cri.startContainer' ? { hangs: true } : undefined);
  node.boot().until('the start', () => node.world.callsOf('cri.startContainer').length === 1);
  node.run(10);
  const [created] = [...runtime.containers.values()];
  created!.sandbox.state = 'SANDBOX_NOTREADY';
  return created!;
}

it('one that was created in a sandbox which died is not started; the next one has the next number', () => {
  const created = createdInDeadSandbox();
  const started: unknown[] = [];
  node.world.fault = (name, input) => {
    if (name === 'cri.startContainer') started.push((input as { containerId: string }).containerId);
    return undefined;
  };
  node = node.restart();
  node.until('Running', () => status()?.state?.running !== undefined);
  expect(started).not.toContain(created.id);
  expect(status()).toMatchObject({ restartCount: 1 });
});

it('one whose start was given up when its sandbox died, and that never ran, is not waited for', () => {
  const created = createdInDeadSandbox();
  node.world.fault = () => undefined;
  node.world.runtime['changed'](created.sandbox);
  node.until('Running', () => status()?.state?.running !== undefined);
  expect(node.world.runtime.started).toEqual(['web-node/app#1']);
  expect(status()).toMatchObject({ restartCount: 1 });
});

it('one whose start was cancelled for a restart of all containers, and that never ran, is not waited for', () => {
  const restartPolicyRules = [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [7] } }];
  const containers = [
    { name: 'app', image: 'app:1', restartPolicy: 'Always', restartPolicyRules },
    { name: 'slow', image: 'app:1' },
  ];
  node = nodeWith({ uid: 'u1', containers });
  const { runtime } = node.world;
  runtime.programs.set('app', [{ runsMs: 5_000, exitCode: 7 }, {}]);
  let hangs = true;
  node.world.fault = (name, input) => {
    if (name !== 'cri.startContainer' || !hangs) return undefined;
    const { containerId } = input as { containerId: string };
    return runtime.containers.get(containerId)?.config.metadata?.name === 'slow' ? { hangs: true } : undefined;
  };
  node.boot().until('the end', () => [...runtime.containers.values()].some(({ exitCode }) => exitCode === 7));
  hangs = false;
  node.until('Running', () => node.status('u1')?.containerStatuses?.every(({ ready }) => ready) === true);
  expect(runtime.started).toEqual(['web-node/app#0', 'web-node/app#1', 'web-node/slow#1']);
});

it('one that was created in a sandbox which another agent replaced is not started either', () => {
  createdInDeadSandbox();
  node.world.fault = (name) => (name === 'cri.createContainer' ? { hangs: true } : undefined);
  node = node.restart();
  node.until('a sandbox', () => node.world.callsOf('cri.createContainer').length === 2);
  node.run(10);
  node.world.fault = () => undefined;
  node = node.restart();
  node.until('Running', () => status()?.state?.running !== undefined);
  expect(node.world.runtime.started).toEqual(['web-node/app#1']);
});

it('one that waits for its next start is shown with its last words by the next agent, too', () => {
  node = nodeWith({ uid: 'u1' });
  node.world.runtime.programs.set('app', [{ runsMs: 1_000, exitCode: 3 }]);
  node.boot().until('a crash loop', () => {
    const mounts = node.world.runtime.running('app')?.config.mounts ?? [];
    const file = mounts.find(({ container_path }) => container_path === '/dev/termination-log')?.host_path;
    if (file !== undefined) node.world.messages.set(file, 'no space for my hat');
    return node.world.runtime.started.length === 3 && status()?.state?.waiting?.reason === 'CrashLoopBackOff';
  });
  node.run(2_000);
  const before = status();
  expect(before?.lastState?.terminated?.message).toBe('no space for my hat');
  node = node.restart();
  node.run(5_000);
  expect(status()).toEqual(before);
  expect(node.world.runtime.started).toHaveLength(3);
});

it('one of which the runtime does not know any more how it is says so when it is killed', () => {
  node = nodeWith({ uid: 'u1' });
  node.boot().until('Running', isRunning);
  node.run(20_000);
  const instance = node.world.runtime.running('app')!;
  Object.assign(instance, { state: 'CONTAINER_UNKNOWN' });
  node.world.runtime['changed'](instance.sandbox);
  node.run(1_000);
  expect(node.events()).toContain('Killing: Container is in "unknown" state, try killing it before restart');
});

it('one whose making was never answered, and that its sandbox took with it, has its number for itself', () => {
  node = nodeWith({ uid: 'u1' });
  const { runtime } = node.world;
  node.world.fault = (name) => (name === 'cri.createContainer' ? { error: 'lost', lost: true } : undefined);
  node.boot().until('the container', () => runtime.containers.size === 1);
  const [created] = [...runtime.containers.values()];
  runtime.stopSandbox(created!.sandbox.id);
  node.world.fault = () => undefined;
  node.until('Running', () => status()?.state?.running !== undefined, 60_000);
  expect(runtime.started).toEqual(['web-node/app#1']);
  expect(status()).toMatchObject({ restartCount: 1 });
});
