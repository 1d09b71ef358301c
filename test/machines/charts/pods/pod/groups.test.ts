/** A pod with more containers than one turn starts: they start in groups, also with a new agent, and end together. */
import { afterEach, expect, it } from 'vitest';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';

const IMAGE = 'app:1';
const COUNT = 130;
/** The containers of a group. */
const GROUP = 40;
const containers = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `c${i}`, image: IMAGE }));

let node: PodsNode;
const runtime = () => node.world.runtime;
const running = () => [...runtime().containers.values()].filter(({ state }) => state === 'CONTAINER_RUNNING').length;
const begun = (turn: readonly { readonly k: string }[]): number =>
  turn.filter((each) => each.k === 'message' && JSON.stringify(each).includes('/container-c')).length;

/** The maximum number of containers whose actors start in one turn. */
function largestGroup(): number {
  let largest = 0;
  let turn: { readonly k: string }[] = [];
  for (const record of node.sink.records) {
    if (record.k === 'message' && record.event.type === 'xstate.init') turn.push(record);
    if (record.k !== 'end') continue;
    largest = Math.max(largest, begun(turn));
    turn = [];
  }
  return largest;
}

function boot(spec: Record<string, unknown> = {}, count = COUNT): void {
  node = new PodsNode({ settings: { serializeImagePulls: false } });
  runtime().images.set(IMAGE, image(IMAGE));
  node.world.setManifests([manifest({ uid: 'u1', spec, containers: containers(count) })]);
  node.boot();
}

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

it('starts all, a group in a turn', () => {
  boot();
  node.until('all run', () => running() === COUNT);
  node.until('and are ready', () => node.isReady('u1'));
  expect(largestGroup()).toBe(GROUP);
});

it('starts all when the image of the first cannot be had', () => {
  node = new PodsNode({ settings: { serializeImagePulls: false } });
  runtime().images.set(IMAGE, image(IMAGE));
  const missing = containers(COUNT).map((each, i) =>
    i % 2 === 0 ? { ...each, image: 'gone:1', imagePullPolicy: 'Never' } : each,
  );
  node.world.setManifests([manifest({ uid: 'u1', containers: missing })]);
  node.boot().until('the others run', () => running() === COUNT / 2);
});

it('comes after its init containers, of which there may be more than a group', () => {
  const inits = Array.from({ length: GROUP + 5 }, (_, i) => ({ name: `i${i}`, image: IMAGE }));
  node = new PodsNode({ settings: { serializeImagePulls: false } });
  runtime().images.set(IMAGE, image(IMAGE));
  for (const { name } of inits) runtime().programs.set(name, [{ runsMs: 10 }]);
  node.world.setManifests([manifest({ uid: 'u1', spec: { initContainers: inits }, containers: containers(COUNT) })]);
  node.boot().until('all run', () => running() === COUNT);
  expect(runtime().started.slice(0, inits.length)).toEqual(inits.map(({ name }) => `web-node/${name}#0`));
});

it('a new agent takes all over and touches none', () => {
  boot();
  node.until('ready', () => node.isReady('u1'));
  const started = runtime().started.length;
  node = node.restart();
  node.until('ready again', () => node.isReady('u1'));
  node.run(60_000);
  expect(running()).toBe(COUNT);
  expect(runtime().started).toHaveLength(started);
  expect(largestGroup()).toBe(GROUP);
});

it('ends all when it is removed before a new agent has taken over the last of them', () => {
  boot();
  node.until('ready', () => node.isReady('u1'));
  node = node.restart();
  node.until('some are known', () => node.kernel.addresses.some((address) => address.includes('/container-c')));
  expect(node.kernel.addresses.filter((address) => /container-c\d+$/.test(address)).length).toBeLessThan(COUNT);
  node.world.setManifests([]);
  node.until('nothing is left', () => runtime().containers.size === 0 && runtime().sandboxes.size === 0);
});

it('is not over while containers run that a new agent has not taken over yet', () => {
  const side = { name: 'side', image: IMAGE, restartPolicy: 'Always' };
  node = new PodsNode({ settings: { serializeImagePulls: false } });
  runtime().images.set(IMAGE, image(IMAGE));
  for (let i = 0; i < GROUP; i++) runtime().programs.set(`c${i}`, [{ runsMs: 10 }]);
  const spec = { restartPolicy: 'Never', initContainers: [side] };
  node.world.setManifests([manifest({ uid: 'u1', spec, containers: containers(GROUP + 5) })]);
  node.boot().until('some have ended', () => running() === 6 && runtime().started.length === GROUP + 6);
  node.run(5_000);
  node = node.restart();
  node.run(60_000);
  expect(running(), 'five and the sidecar').toBe(6);
});
