/**
 * Faults 3 and 5: a runtime that stands still, and an event stream that drops, doubles, reorders and breaks just when
 * many containers die together.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { containerdAvailable } from '../support/containerd.ts';
import type { StreamInterference } from '../support/cri-proxy.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { FaultyNode } from '../support/faulty-node.ts';
import { requirement } from '../support/require.ts';

/** They die together. */
const CROWD = 20;
const FROZEN_MS = 10_000;
/** Shorter than the freeze, so that calls meet their deadline. */
const REQUEST_TIMEOUT_SECONDS = 2;
/** Calls that may wait for a frozen runtime: the list, the status, and some for each of the few pods. */
const UNANSWERED_MAX = 25;
/** An event that comes after the one that follows it. */
const HELD_MS = 400;
/** Some seconds; a busy machine may take many times that. */
const TIMEOUT_MS = 240_000;

const pass: StreamInterference = (_method, message, send) => send(message);
const { skip } = requirement('containerd', containerdAvailable());

describe.skipIf(skip)('fault 5: an event stream that lies while many containers die', () => {
  let node: FaultyNode;
  beforeAll(async () => {
    node = await FaultyNode.create();
  });
  afterAll(() => node.close());
  afterEach(() => {
    node.proxy.interfereWithStream = pass;
  });

  let held: (() => void) | undefined;
  const cases: readonly (readonly [string, StreamInterference])[] = [
    ['drops every event', () => {}],
    ['doubles every event', (_method, message, send) => (send(message), send(message))],
    [
      'holds every other event back',
      (_method, message, send) => {
        if (held === undefined) {
          held = () => send(message);
          setTimeout(() => (held?.(), (held = undefined)), HELD_MS);
        } else send(message);
      },
    ],
  ];

  test.each(cases)(
    '%s: each container starts again, once',
    (what, interference) => dieTogether(what, interference),
    TIMEOUT_MS,
  );

  test(
    'breaks: each container starts again, once',
    () => dieTogether('breaks', pass, () => node.proxy.breakStreams()),
    TIMEOUT_MS,
  );

  async function dieTogether(what: string, interference: StreamInterference, before = () => {}): Promise<void> {
    const pods = Array.from({ length: CROWD }, (_, i) => `${what.replaceAll(' ', '-')}-${i}`);
    for (const pod of pods) node.write(`${pod}.json`, shellPod(pod, node.image, SLEEP));
    for (const pod of pods) await node.untilReady(pod);
    node.proxy.interfereWithStream = interference;
    before();
    await node.killContainers(pods);
    for (const pod of pods) {
      await eventually(
        `${pod} runs again`,
        async () => {
          const alive = (await node.instances(pod)).filter(({ state }) => state === 'CONTAINER_RUNNING');
          return alive.length === 1 && alive[0]!.attempt === 1;
        },
        TIMEOUT_MS,
      );
    }
    node.proxy.interfereWithStream = pass;
    await node.keepsPromises(pods);
    for (const pod of pods) {
      expect((await node.status(pod))?.containerStatuses, pod).toMatchObject([{ restartCount: 1 }]);
      node.remove(`${pod}.json`);
    }
    for (const pod of pods) await node.gone(pod);
  }

  test('every journal verifies and replays', () => node.keepsItsWord(), TIMEOUT_MS);
});

describe.skipIf(skip)('fault 3: a runtime that stands still', () => {
  let node: FaultyNode;
  beforeAll(async () => {
    node = await FaultyNode.create({ configuration: `runtimeRequestTimeout: ${REQUEST_TIMEOUT_SECONDS}s` });
  });
  afterAll(() => node.close());

  test(
    'costs no container anything, piles no calls up, and what was asked meanwhile is done',
    async () => {
      for (const pod of ['one', 'two']) node.write(`${pod}.json`, shellPod(pod, node.image, SLEEP));
      for (const pod of ['one', 'two']) await node.untilReady(pod);
      const before = [await node.instances('one'), await node.instances('two')];
      const runtime = node.containerd.pid;
      process.kill(runtime, 'SIGSTOP');
      try {
        node.write('meanwhile.json', shellPod('meanwhile', node.image, SLEEP));
        await sleep(FROZEN_MS);
        expect(node.unanswered().length).toBeLessThan(UNANSWERED_MAX);
        expect(await node.healthz(), 'the agent itself is well').toBe(true);
      } finally {
        process.kill(runtime, 'SIGCONT');
      }
      await node.keepsPromises(['one', 'two', 'meanwhile']);
      expect([await node.instances('one'), await node.instances('two')]).toEqual(before);
    },
    TIMEOUT_MS,
  );

  test('every journal verifies and replays', () => node.keepsItsWord(), TIMEOUT_MS);
});
