/** The list of pods and the story of one, for starts of the real supervisor. */
import { expect, it } from 'vitest';
import { KernelFeed } from '../../src/actors/server/visualizer/feed.ts';
import type { ShownRecord } from '../../src/actors/server/visualizer/protocol.ts';
import { type Lane, podLanes } from '../../src/visualizer/lanes.ts';
import { podAnswer, podEvents } from '../../src/visualizer/pod-answer.ts';
import { ARGV, BootNode } from '../machines/startup/boot-node.ts';
import { image, manifest } from '../support/pods-node.ts';

/** A node with one pod, and the page's data about it. */
class WatchedPod {
  readonly node: BootNode;
  private readonly feed: KernelFeed;
  readonly records: ShownRecord[] = [];

  constructor(prepare: (node: BootNode) => void = () => {}) {
    this.feed = new KernelFeed({
      now: () => this.node.world.time.now(),
      onSeen: ({ records }) => this.records.push(...records),
    });
    this.node = new BootNode({ argv: ARGV, onTurn: this.feed.onTurn });
    this.node.world.pods.registry.set('app:1', image('app:1'));
    this.node.world.pods.setManifests([manifest({ uid: 'u1' })]);
    prepare(this.node);
    this.node.boot();
  }

  get pod() {
    return this.feed.podList()[0]!;
  }

  lanes(records = this.records): readonly Lane[] {
    return podLanes('kubelet/pods/pod-u1', records, this.node.world.time.now());
  }

  answer(): string {
    return podAnswer(this.pod, this.lanes(), podEvents(this.pod, this.records), this.node.world.time.now());
  }
}

const stepsOf = (lanes: readonly Lane[], name: string) =>
  lanes.find(({ address }) => address.endsWith(name))!.segments.map(({ text, activity }) => [text, activity]);

it('a pod that runs: when it was seen, when it ran, and each step of its container', () => {
  const watched = new WatchedPod();
  watched.node.run(10_000);
  const { pod } = watched;
  expect(pod).toMatchObject({ uid: 'u1', phase: 'Running', ready: true, restarts: 0 });
  expect(pod.running!).toBeGreaterThan(pod.seen);
  const ran = `Running and ready, ran ${pod.running! - pod.seen} ms after it was seen`;
  expect(watched.answer()).toMatch(new RegExp(`^${ran}, \\d+% of it while container-app waited for its image \\(`));
  const lanes = watched.lanes();
  expect(lanes[0]!.address).toBe('kubelet/pods/pod-u1');
  expect(stepsOf(lanes, 'container-app').map(([text]) => text)).toEqual([
    'waiting.image',
    'waiting.turn',
    'waiting.creating',
    'waiting.starting',
    'running',
  ]);
  expect(stepsOf(lanes, 'container-app').at(-1)).toEqual(['running', 'active']);
});

it('each stretch of a lane begins where the one before it ended, and the last one lasts', () => {
  const watched = new WatchedPod();
  watched.node.run(10_000);
  for (const { segments } of watched.lanes()) {
    segments.slice(1).forEach(({ from }, i) => expect(from).toBe(segments[i]!.to));
    expect(segments.map(({ lasts }) => lasts)).toEqual(segments.map((_, i) => i === segments.length - 1));
    expect(segments.at(-1)!.to).toBe(watched.node.world.time.now());
  }
});

it('a pod whose first records are not kept any more began in the state that it was in', () => {
  const watched = new WatchedPod();
  watched.node.run(10_000);
  const { records } = watched;
  const running = records.findIndex(
    ({ record }) => record.k === 'state' && record.at.endsWith('container-app') && record.value === 'running',
  );
  const [first] = watched
    .lanes(records.slice(running))
    .find(({ address }) => address.endsWith('container-app'))!.segments;
  expect(first).toMatchObject({ text: 'waiting.starting', lasts: false });
  expect(first).not.toHaveProperty('n');
});

it('a pod whose image cannot be pulled says so, with the last warning', () => {
  const watched = new WatchedPod(({ world }) => {
    world.pods.fault = (name) => (name === 'cri.pullImage' ? { error: 'no route to the registry' } : undefined);
  });
  watched.node.run(10_000);
  expect(watched.pod).toMatchObject({ phase: 'Pending', ready: false });
  expect(watched.answer()).toMatch(
    /^Pending for 9\.\d\d s: container-app waits for the next try to get its image \(Failed: Failed to pull image .*no route to the registry/,
  );
  expect(podEvents(watched.pod, watched.records).map(({ reason }) => reason)).toContain('Failed');
});

it('a pod that is removed is gone, and stays in the list', () => {
  const watched = new WatchedPod();
  watched.node.run(10_000);
  watched.node.world.pods.setManifests([]);
  watched.node.run(60_000);
  expect(watched.answer()).toMatch(/^Gone after \d+\.\d+ s: it was /);
  expect(stepsOf(watched.lanes(), 'pods/pod-u1').at(-1)![1]).toBe('done');
});
