/** The order of a pod's start, if earlier parts end, are forgotten, or belong to an older sandbox. */
import { afterEach, expect, it } from 'vitest';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';

const spec = {
  initContainers: [
    { name: 'first', image: 'app:1' },
    { name: 'side', image: 'app:1', restartPolicy: 'Always' },
    { name: 'second', image: 'app:1' },
  ],
};
let node: PodsNode;
const runtime = () => node.world.runtime;
const hasStarted = (name: string) => () => runtime().started.includes(`web-node/${name}`);

function boot(): void {
  node = new PodsNode();
  runtime().images.set('app:1', image('app:1'));
  runtime()
    .programs.set('first', [{ runsMs: 1_000 }])
    .set('second', [{ runsMs: 5_000 }]);
  node.world.setManifests([manifest({ uid: 'u1', spec })]);
  node.boot();
}

function remove(name: string): void {
  const found = [...runtime().containers.values()].find(({ config }) => config.metadata?.name === name);
  runtime().removeContainer(found!.id);
}

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('a sidecar that waits for its next start does not delay the following containers', () => {
  boot();
  runtime().programs.set('side', [{ runsMs: 500, exitCode: 1 }]);
  node.until('the second one', hasStarted('second#0'));
  const begin = node.time.ms;
  node.until('the regular one', hasStarted('app#0'));
  expect(node.time.ms - begin).toBeLessThan(6_000);
  expect(runtime().running('side'), 'it is in its back-off').toBeUndefined();
  node.until('the sidecar again', hasStarted('side#2'));
});

it('what initialised and was removed from the runtime is not run again while the pod still comes up', () => {
  boot();
  node.until('the second one', hasStarted('second#0'));
  node.run(500);
  remove('first');
  node.until('the regular one', hasStarted('app#0'));
  expect(runtime().started).toEqual(['web-node/first#0', 'web-node/side#0', 'web-node/second#0', 'web-node/app#0']);
});

it('nor does a new agent run it again', () => {
  boot();
  node.until('the second one', hasStarted('second#0'));
  node.run(500);
  remove('first');
  node = node.restart();
  node.until('the regular one', hasStarted('app#0'));
  expect(runtime().started).toEqual(['web-node/first#0', 'web-node/side#0', 'web-node/second#0', 'web-node/app#0']);
});

it('a new agent goes on where the one before was in a sandbox that replaced another', () => {
  boot();
  node.until('the regular one', hasStarted('app#0'));
  node.run(500);
  runtime().stopSandbox([...runtime().sandboxes.keys()][0]!);
  node.until('the first one again', hasStarted('first#1'));
  node = node.restart();
  node.until('the regular one again', hasStarted('app#1'));
  expect(runtime().started.slice(4)).toEqual([
    'web-node/first#1',
    'web-node/side#1',
    'web-node/second#1',
    'web-node/app#1',
  ]);
});

it('a new agent lets what runs in a sandbox that has died end with its grace', () => {
  boot();
  runtime().programs.set('app', [{ stopsMs: 2_000 }]);
  node.until('the regular one', hasStarted('app#0'));
  node.run(500);
  [...runtime().sandboxes.values()][0]!.state = 'SANDBOX_NOTREADY';
  node = node.restart();
  node.until('the regular one again', hasStarted('app#1'));
  const [old] = [...runtime().containers.values()].filter(({ config }) => config.metadata?.name === 'app');
  expect(old).toMatchObject({ state: 'CONTAINER_EXITED', exitCode: 143 });
});

it('a regular container begins when the hook of the one before it is done', () => {
  node = new PodsNode();
  runtime().images.set('app:1', image('app:1'));
  const held = { name: 'held', image: 'app:1', lifecycle: { postStart: { sleep: { seconds: 5 } } } };
  const containers = [{ name: 'one', image: 'app:1' }, held, { name: 'after', image: 'app:1' }];
  node.world.setManifests([manifest({ uid: 'u1', spec: { containers } })]);
  node.boot();
  node.until('the one with a hook', hasStarted('held#0'));
  node.run(4_000);
  expect(runtime().started.toSorted()).toEqual(['web-node/held#0', 'web-node/one#0']);
  node.until('the one after it', hasStarted('after#0'));
});

it('or has failed', () => {
  node = new PodsNode();
  node.world.commands.set('false', { takesMs: 2_000, exitCode: 1 });
  runtime().images.set('app:1', image('app:1'));
  const held = { name: 'held', image: 'app:1', lifecycle: { postStart: { exec: { command: ['false'] } } } };
  node.world.setManifests([manifest({ uid: 'u1', spec: { containers: [held, { name: 'after', image: 'app:1' }] } })]);
  node.boot();
  node.until('the one after it', hasStarted('after#0'));
  expect(runtime().running('held')).toBeUndefined();
});

it('a sidecar is not restarted while the only regular container is being stopped for good', () => {
  node = new PodsNode();
  runtime().images.set('app:1', image('app:1'));
  node.world.answers.set('alive', { result: 'failure', output: '' });
  runtime().programs.set('side', [{ runsMs: 500, exitCode: 1 }]);
  const app = {
    name: 'app',
    image: 'app:1',
    lifecycle: { preStop: { sleep: { seconds: 60 } } },
    livenessProbe: { exec: { command: ['alive'] }, initialDelaySeconds: 5, failureThreshold: 1 },
  };
  const side = { name: 'side', image: 'app:1', restartPolicy: 'Always' };
  const ending = {
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: 90,
    containers: [app],
    initContainers: [side],
  };
  node.world.setManifests([manifest({ uid: 'u1', spec: ending })]);
  node.boot();
  node.until('the sidecar has been restarted', hasStarted('side#1'));
  node.until('the regular container is being stopped', () => node.events().some((text) => text.includes('Killing')));
  const before = runtime().started.length;
  node.run(50_000);
  expect(runtime().running('app'), 'its hook runs').toBeDefined();
  expect(runtime().started).toHaveLength(before);
});
