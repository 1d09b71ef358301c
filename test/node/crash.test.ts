/**
 * The agent is killed, again and again, at random moments: no container may notice, every next agent must find
 * everything as it was, and each journal that a kill left behind must verify and replay.
 *
 * STATELET_KILLS (default 12, CI 40, a full run is 200) says how often.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, runtimes } from '../support/observed-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const KILLS = Number(process.env['STATELET_KILLS'] ?? 12);
/** The time after healthz in which a running agent is killed. */
const RUNNING_MS = 1_500;
/** The time in which a booting agent is killed, of that which the last boot took: up to healthz and a little more. */
const BOOT_SHARE = 1.1;
/** A boot with all that a busy machine adds, and the two commands that read its journal. */
const PER_KILL_MS = patient(60_000);
const TIMEOUT_MS = patient(480_000);
const PODS = ['steady-1', 'steady-2', 'steady-3'];
/** After so many kills what they left behind is read: all of it is verified and replayed, in one process each. */
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
    // The embedded runtime dies with the agent and has more to lose; containerd's rounds cost more.
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
  // A busy machine takes its time to start a process: one that is not there yet would not be killed.
  await eventually('the process is there', () => node.isRunning);
  const delayMs = Math.random() * BOOT_SHARE * bootMs;
  await sleep(delayMs);
  await node.stop('SIGKILL');
  await booting;
  return `${Math.round(delayMs)} ms after exec`;
}

/** Kills within the steps of a pod's start and end, where an outcome is not yet known. */
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
    // A start that died with its agent's call has failed for the runtime: it is tried again after a back-off.
    const running = async () => (await node.instances(name)).filter(({ state }) => state === 'CONTAINER_RUNNING');
    await eventually(`${name} runs`, async () => (await running()).length > 0);
    expect(await running(), `${name} runs once`).toHaveLength(1);
    // A sandbox whose making died with its agent's call may stay until it is collected (containerd 2).
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
  // Longer than the soft state of the node gathers changes before it writes them.
  await sleep(2_000);
  await node.stop('SIGKILL');
  await node.start();
  // An agent that is back too late for this back-off begins the next one, which is twice as long.
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
