/**
 * The agent is killed again and again at random moments: no container may be affected, every next agent must find
 * everything unchanged, and each journal of a killed agent must verify and replay.
 *
 * STATELET_KILLS (default 12, CI 40, a full run is 200) is the number of kills.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, runtimes } from '../support/observed-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const KILLS = Number(process.env['STATELET_KILLS'] ?? 12);
/** The time after healthz within which a running agent is killed. */
const RUNNING_MS = 1_500;
/** The time within which a starting agent is killed, relative to the last start: until healthz and a little longer. */
const BOOT_SHARE = 1.1;
/** For a start on a busy machine, and the two commands that read its journal. */
const PER_KILL_MS = patient(60_000);
const TIMEOUT_MS = patient(480_000);
const PODS = ['steady-1', 'steady-2', 'steady-3'];
/** After this number of kills the journals are verified and replayed, in one process each. */
const READ_EVERY = 4;

for (const choice of runtimes) {
  const { skip } = requirement('containerd', choice.unavailable);
  describe.skipIf(skip)(`an agent that is killed, on ${choice.name}`, () => {
    let node: ObservedNode;
    beforeAll(async () => {
      node = await ObservedNode.on(choice);
      await node.start();
    });
    afterAll(() => node.close());
    // The embedded runtime ends with the agent and can lose more; rounds with containerd take longer.
    const kills = runtimes.indexOf(choice) === 0 ? KILLS : Math.ceil(KILLS / 4);
    it(`${kills} times, touches no container`, () => killOften(node, kills), kills * PER_KILL_MS);
    it('while pods come and go, leaves exactly the wanted ones', () => killWhileChanging(node), TIMEOUT_MS);
    it('in a crash loop, forgets neither the count nor the back-off', () => killInBackOff(node), TIMEOUT_MS);
  });
}

async function killOften(node: ObservedNode, kills: number): Promise<void> {
  for (const name of PODS) node.write(`${name}.json`, shellPod(name, node.image, SLEEP));
  for (const name of PODS) await node.untilPhase(name, 'Running');
  const before = await Promise.all(PODS.map((name) => node.instances(name)));
  const unread = new Set<string>();
  let bootMs = 0;
  for (let kill = 1; kill <= kills; kill++) {
    const killed = kill % 2 === 0 ? killWhileBooting(node, bootMs) : killWhileRunning(node);
    const what = `kill ${kill} of ${kills}, ${await killed}`;
    unread.add(node.incarnations().at(-1)!);
    bootMs = await node.start().catch((error: Error) => {
      throw new Error(`after ${what}: ${error.message}`, { cause: error });
    });
    const isRead = kill % READ_EVERY === 0 || kill === kills;
    expect(isRead ? node.journalFaults([...unread]) : [], `${what}, and those before it`).toEqual([]);
    if (isRead) unread.clear();
    expect(await Promise.all(PODS.map((name) => node.instances(name))), what).toEqual(before);
  }
  for (const name of PODS) await node.untilPhase(name, 'Running');
  for (const name of PODS) node.remove(`${name}.json`);
  for (const name of PODS) await node.gone(name);
}

async function killWhileRunning(node: ObservedNode): Promise<string> {
  const delayMs = Math.random() * RUNNING_MS;
  await sleep(delayMs);
  await node.stop('SIGKILL');
  return `${Math.round(delayMs)} ms after healthz`;
}

async function killWhileBooting(node: ObservedNode, bootMs: number): Promise<string> {
  await node.stop('SIGKILL');
  const booting = node.start().catch(() => 'killed');
  // A busy machine starts processes slowly: a process that does not exist yet would not be killed.
  await eventually('the process is there', () => node.isRunning);
  const delayMs = Math.random() * BOOT_SHARE * bootMs;
  await sleep(delayMs);
  await node.stop('SIGKILL');
  await booting;
  return `${Math.round(delayMs)} ms after exec`;
}

/** Kills during the steps of a pod's start and end, when an outcome is unknown. */
async function killWhileChanging(node: ObservedNode): Promise<void> {
  const earlier = new Set(node.incarnations());
  const names = Array.from({ length: 8 }, (_, i) => `changing-${i}`);
  for (const [i, name] of names.entries()) {
    node.write(`${name}.json`, shellPod(name, node.image, SLEEP));
    if (i % 2 === 1) node.remove(`${names[i - 1]}.json`);
    await sleep(Math.random() * 400);
    await node.stop('SIGKILL');
    await node.start();
  }
  const wanted = names.filter((_, i) => i % 2 === 1);
  for (const name of wanted) {
    await node.untilPhase(name, 'Running');
    // A start that ended with its agent's call has failed for the runtime: it is retried after a back-off.
    const running = async () => (await node.instances(name)).filter(({ state }) => state === 'CONTAINER_RUNNING');
    await eventually(`${name} runs`, async () => (await running()).length > 0);
    expect(await running(), `${name} runs once`).toHaveLength(1);
    // A sandbox whose creation ended with its agent's call may stay until it is collected (containerd 2).
    expect(await node.readySandboxes(name)).toBe(1);
  }
  for (const name of names.filter((_, i) => i % 2 === 0)) await node.gone(name);
  await node.stop();
  expect(node.journalFaults(node.incarnations().filter((name) => !earlier.has(name)))).toEqual([]);
  await node.start();
  for (const name of wanted) node.remove(`${name}.json`);
  for (const name of wanted) await node.gone(name);
}

async function killInBackOff(node: ObservedNode): Promise<void> {
  node.write('loop.json', shellPod('loop', node.image, 'exit 6'));
  const backingOff = () =>
    eventually('the back-off shows', async () => {
      const container = (await node.status('loop'))?.containerStatuses?.[0];
      const [, seconds] = /back-off (\d+)s/.exec(container?.state?.waiting?.message ?? '') ?? [];
      return container && seconds !== undefined ? { ...container, seconds: Number(seconds) } : null;
    });
  expect(await backingOff()).toMatchObject({ restartCount: 1, seconds: 10 });
  const exited = (await node.instances('loop')).at(-1)!;
  // Longer than the node waits before it writes changes of its soft state.
  await sleep(2_000);
  await node.stop('SIGKILL');
  await node.start();
  // An agent that starts too late for this back-off begins the next one, which is twice as long.
  const { restartCount, seconds, lastState } = await backingOff();
  expect(seconds, `after ${restartCount} restarts`).toBe(10 * 2 ** (restartCount - 1));
  expect(lastState).toMatchObject({ terminated: { exitCode: 6 } });
  const next = await eventually('the next start', async () =>
    (await node.instances('loop')).find(({ attempt, startedAt }) => attempt === 2 && startedAt !== '0'),
  );
  const gapMs = Number((BigInt(next.startedAt) - BigInt(exited.startedAt)) / 1_000_000n);
  expect(gapMs).toBeGreaterThanOrEqual(9_900);
  node.remove('loop.json');
  await node.gone('loop');
}
