/**
 * Faults 3 and 5: a frozen runtime, and an event stream that drops, doubles, reorders and breaks while many containers
 * die together.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { containerdAvailable } from '../support/containerd.ts';
import type { StreamInterference } from '../support/cri-proxy.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { FaultyNode } from '../support/faulty-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

/** A hundred containers that die together. */
const byNumber = (a: number, b: number): number => a - b;
const [PODS, CONTAINERS_PER_POD] = [20, 5];
/** So few pods start at a time that their start causes no further fault. */
const PODS_AT_ONCE = 4;
const MANY_PODS = Array.from({ length: PODS }, (_, at) => `one-of-many-${at}`);
/** The maximum restart period is a second, so that back-offs stay short after the second death. */
const CONFIGURATION = `featureGates: { KubeletCrashLoopBackOffMax: true }
crashLoopBackOff: { maxContainerRestartPeriod: 1s }`;
const FROZEN_MS = patient(10_000);
/** Shorter than the freeze, so that calls reach their deadline. */
const REQUEST_TIMEOUT_SECONDS = patient(2);
/** The calls that may wait for a frozen runtime: the list, the status, and some for each of the few pods. */
const UNANSWERED_MAX = 25;
/** An event arrives this much after the one that follows it. */
const HELD_MS = 400;
/** It takes some seconds; a busy machine may need many times that. */
const TIMEOUT_MS = patient(480_000);

const pass: StreamInterference = (_method, message, send) => send(message);
const { skip } = requirement('containerd', containerdAvailable());

describe.skipIf(skip)('fault 5: an event stream that lies while many containers die', () => {
  let node: FaultyNode;
  beforeAll(async () => {
    node = await FaultyNode.create({ configuration: CONFIGURATION });
    const [only] = shellPod('', node.image, SLEEP).spec.containers;
    const containers = Array.from({ length: CONTAINERS_PER_POD }, (_, at) => ({ ...only, name: `c${at}` }));
    for (let at = 0; at < PODS; at += PODS_AT_ONCE) {
      const some = MANY_PODS.slice(at, at + PODS_AT_ONCE);
      for (const pod of some) node.write(`${pod}.json`, shellPod(pod, node.image, SLEEP, { containers }));
      for (const pod of some) await allRun(pod, []);
    }
  }, 2 * TIMEOUT_MS);
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

  it.each(cases)(
    '%s: each container starts again, once',
    (_what, interference) => dieTogether(interference),
    2 * TIMEOUT_MS,
  );

  it(
    'breaks: each container starts again, once',
    () => dieTogether(pass, () => node.proxy.breakStreams()),
    2 * TIMEOUT_MS,
  );

  const alive = async (pod: string) => (await node.instances(pod)).filter(({ state }) => state === 'CONTAINER_RUNNING');
  const allRun = (pod: string, dead: readonly string[]) =>
    eventually(
      `${pod} runs`,
      async () => {
        const ids = (await alive(pod)).map(({ id }) => id);
        return ids.length === CONTAINERS_PER_POD && !ids.some((id) => dead.includes(id));
      },
      TIMEOUT_MS,
    );
  const refusals = () => {
    const refused = node.proxy.callsOf('StartContainer').filter(({ response }) => response === undefined);
    return `starts; refused: ${refused.map(({ message }) => message).join('\n')}`;
  };

  async function dieTogether(interference: StreamInterference, before = () => {}): Promise<void> {
    const dead = (await Promise.all(MANY_PODS.map(alive))).flat().map(({ id }) => id);
    const startsBefore = await node.starts();
    node.proxy.interfereWithStream = interference;
    before();
    await node.killContainers(MANY_PODS);
    for (const pod of MANY_PODS) await allRun(pod, dead);
    node.proxy.interfereWithStream = pass;
    await node.keepsPromises(MANY_PODS, CONTAINERS_PER_POD);
    expect((await node.starts()) - startsBefore, refusals()).toBe(PODS * CONTAINERS_PER_POD);
    for (const pod of MANY_PODS) {
      const shown = (await node.status(pod))?.containerStatuses?.map(({ restartCount }) => restartCount) ?? [];
      const attempts = (await alive(pod)).map(({ attempt }) => attempt);
      expect(shown.toSorted(byNumber), pod).toEqual(attempts.toSorted(byNumber));
    }
  }

  it('every journal verifies and replays', () => node.keepsItsWord(), TIMEOUT_MS);
});

describe.skipIf(skip)('fault 3: a runtime that stands still', () => {
  let node: FaultyNode;
  beforeAll(async () => {
    node = await FaultyNode.create({ configuration: `runtimeRequestTimeout: ${REQUEST_TIMEOUT_SECONDS}s` });
  });
  afterAll(() => node.close());

  it(
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

  it('every journal verifies and replays', () => node.keepsItsWord(), TIMEOUT_MS);
});
