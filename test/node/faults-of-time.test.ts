/**
 * Fault 11: the clock of the machine is set an hour ahead and back, while containers wait for their next start, while
 * pods start and end, and while no agent runs. Only the time that has passed counts.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exchange, headerOf } from '../actors/server/exchange.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';
import { clocksAvailable, SetClock } from '../support/set-clock.ts';

const HOUR_SECONDS = 3_600;
const TIMEOUT_MS = patient(480_000);
/** The shortest and the longest back-off, so that the third one is short, too. */
const BACKOFF_SECONDS = 10;
const CONFIGURATION = `featureGates: { KubeletCrashLoopBackOffMax: true }
crashLoopBackOff: { maxContainerRestartPeriod: ${BACKOFF_SECONDS}s }`;
/** The delay of a back-off on a busy machine; a back-off by the changed clock would take an hour. */
const LATE_SECONDS = patient(120);
/** For steps that wait only for the runtime. */
const SOON_MS = patient(120_000);

describe.each(runtimes)('a clock that is set, on $name', (choice) => {
  const isContainerd = choice.name === 'containerd';
  const runtimeIsMissing = requirement('containerd', isContainerd ? choice.unavailable : null).skip;
  const skip = requirement('faketime', clocksAvailable()).skip || runtimeIsMissing;
  let runtime: RuntimeInUse;
  let node: ObservedNode;
  let clock: SetClock;

  beforeAll(async () => {
    if (skip) return;
    runtime = await choice.start();
    node = new ObservedNode(runtime, { flags: ['--anonymous-auth=true'], configuration: CONFIGURATION });
    clock = new SetClock(node.directory);
    await node.start([], clock.environment);
    node.write('steady.json', shellPod('steady', node.image, SLEEP, { containers: [probed('steady')] }));
    node.write('loop.json', shellPod('loop', node.image, 'exit 6'));
    await ready('steady');
  });
  afterAll(async () => {
    if (skip) return;
    await node.close();
    await runtime.close();
  });

  const probed = (name: string) => {
    const [only] = shellPod(name, node.image, `touch /tmp/ready-${process.pid}-${name}; ${SLEEP}`).spec.containers;
    const exec = { command: ['test', '-e', `/tmp/ready-${process.pid}-${name}`] };
    const readinessProbe = { exec, periodSeconds: 1, timeoutSeconds: patient(1) };
    return { ...only, readinessProbe };
  };
  const ready = (pod: string) =>
    eventually(
      `${pod} is ready`,
      async () =>
        (await node.status(pod))?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True'),
      SOON_MS,
    );
  /** Older instances may be removed at any time. */
  const newestOfTheLoop = async () => (await node.instances('loop')).findLast(({ startedAt }) => startedAt !== '0');
  const startAfter = (attempt: number) =>
    eventually(
      `a start of the loop after ${attempt}`,
      async () => {
        const newest = await newestOfTheLoop();
        return newest !== undefined && newest.attempt > attempt ? newest : null;
      },
      TIMEOUT_MS,
    );
  const backOff = () =>
    eventually('the back-off', async () => {
      const container = (await node.status('loop'))?.containerStatuses?.[0];
      return container?.state?.waiting?.message?.includes(`back-off ${BACKOFF_SECONDS}s`);
    });

  /** Sets the clock, and checks that the agent reads it. */
  async function set(offsetSeconds: number): Promise<void> {
    clock.set(offsetSeconds);
    await eventually('the agent reads it', async () => {
      const shown = Date.parse(headerOf(await exchange('GET', '/nowhere', { port: node.port }), 'date') ?? '');
      return Math.abs(shown - Date.now() - offsetSeconds * 1_000) < 5_000;
    });
  }

  /**
   * The next start comes when this number of seconds has passed since the last one, however the clock is set meanwhile.
   */
  async function waits(offsetSeconds: number): Promise<void> {
    await backOff();
    const before = (await newestOfTheLoop())!;
    await set(offsetSeconds);
    const after = await startAfter(before.attempt);
    // The runtime and its containers have the true clock.
    const passed = Number(BigInt(after.startedAt) - BigInt(before.startedAt)) / 1e9;
    expect(passed).toBeGreaterThan(BACKOFF_SECONDS - 0.5);
    expect(passed).toBeLessThan(BACKOFF_SECONDS + LATE_SECONDS);
  }

  async function podsComeAndGo(name: string): Promise<void> {
    const began = performance.now();
    node.write(`${name}.json`, shellPod(name, node.image, SLEEP, { containers: [probed(name)] }));
    await ready(name);
    node.remove(`${name}.json`);
    await node.gone(name);
    expect(performance.now() - began).toBeLessThan(2 * SOON_MS);
  }

  it.skipIf(skip)('an hour ahead, in a back-off', () => waits(HOUR_SECONDS), TIMEOUT_MS);
  it.skipIf(skip)('pods come and go an hour ahead', () => podsComeAndGo('ahead'), TIMEOUT_MS);
  it.skipIf(skip)('two hours back, in a back-off', () => waits(-HOUR_SECONDS), TIMEOUT_MS);
  it.skipIf(skip)('pods come and go an hour back', () => podsComeAndGo('back'), TIMEOUT_MS);

  it.skipIf(skip)(
    'a new agent that begins on such a clock takes up everything as it was',
    async () => {
      const [steady] = await node.instances('steady');
      await backOff();
      const before = (await newestOfTheLoop())!;
      await node.stop();
      clock.set(-HOUR_SECONDS - HOUR_SECONDS);
      await node.start([], clock.environment);
      await ready('steady');
      await podsComeAndGo('again');
      const began = performance.now();
      await startAfter(before.attempt);
      expect((performance.now() - began) / 1_000).toBeLessThan(BACKOFF_SECONDS + LATE_SECONDS);
      expect(await node.instances('steady'), 'who has nothing to do with it').toEqual([steady]);
    },
    TIMEOUT_MS,
  );

  it.skipIf(skip)(
    'every journal verifies and replays',
    async () => {
      await node.stop();
      expect(node.journalFaults()).toEqual([]);
      await node.start([], clock.environment);
      for (const name of ['steady', 'loop']) node.remove(`${name}.json`);
      for (const name of ['steady', 'loop']) await node.gone(name);
    },
    TIMEOUT_MS,
  );
});
