/**
 * Measures one pod from its manifest to its end, at random phases: start, crash and restart, removal. Statelet and the
 * control take turns in one run (control, Statelet, Statelet, control in each round), because the speed of a machine
 * varies.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RuntimeClient } from '../src/actors/cri/client.ts';
import type { Containerd } from '../test/support/containerd.ts';
import { eventually, SLEEP, shellPod, TestNode } from '../test/support/daemon.ts';
import {
  CALL,
  type PodRequests,
  removeAll,
  renamed,
  requestsOf,
  startContainer,
  startRaw,
  writeFiles,
} from './control.ts';
import type { RuntimeEvents, TaskEvent } from './runtime-events.ts';
import { load, type Measure } from './statistics.ts';

/** Longer than every period in which an agent may poll, so that no phase is favoured. */
export const PHASE_MS = 1_000;
/** Between two pods: the time until the work that follows the first one is done. */
const REST_MS = 200;
const EXIT_POLL_MS = 2;
const PILOT = 'pilot';

export interface Bench {
  readonly containerd: Containerd;
  readonly client: RuntimeClient;
  readonly events: RuntimeEvents;
}

export interface Sizes {
  readonly rounds: number;
  readonly samples: number;
}

interface Life {
  readonly start: number[];
  readonly restart: number[];
  readonly stop: number[];
}

const randomPhase = () => sleep(Math.random() * PHASE_MS);
/** Milliseconds since the epoch, with fractions, as in containerd's events. */
const wallClock = (): number => performance.timeOrigin + performance.now();
const isStart = ({ topic }: TaskEvent) => topic === 'start';
const manifest = (name: string, image: string) => shellPod(name, image, SLEEP);

export async function untilEmpty({ client }: Bench): Promise<void> {
  await eventually('the runtime is empty', async () => {
    const { items } = await client.call('ListPodSandbox', {}, CALL);
    return items.length === 0;
  });
}

export const newNode = ({ containerd }: Bench): TestNode => new TestNode({ endpoint: containerd.endpoint });

/** Runs one pod with Statelet and reads its requests from the journal, which has commands in plain text for it. */
export async function pilot(bench: Bench): Promise<PodRequests> {
  const node = newNode(bench);
  try {
    await node.start(['--journal-plain']);
    const mark = bench.events.mark();
    node.write(`${PILOT}.json`, manifest(PILOT, bench.containerd.image));
    await bench.events.wait(mark, 2, isStart);
    node.remove(`${PILOT}.json`);
    await untilEmpty(bench);
    await node.stop();
    return requestsOf(node.journal, `${PILOT}-node1`);
  } finally {
    await node.close();
  }
}

/**
 * Waits for the exit code, which is the basis of every agent's next decision, and which comes some time after the
 * event.
 */
async function untilExited(client: RuntimeClient, id: string): Promise<void> {
  for (;;) {
    const { status } = await client.call('ContainerStatus', { container_id: id }, CALL);
    if (status?.state === 'CONTAINER_EXITED') return;
    await sleep(EXIT_POLL_MS);
  }
}

async function controlLife(bench: Bench, pilot: PodRequests, samples: number): Promise<Life> {
  const { client, events } = bench;
  const life: Life = { start: [], restart: [], stop: [] };
  for (let i = 0; i < samples; i++) {
    const requests = renamed(pilot, `control-${i}-node1`);
    await writeFiles(requests);
    await randomPhase();
    let mark = events.mark();
    const startAt = wallClock();
    const { sandboxId, containerId } = await startRaw(client, requests);
    const [started] = await events.wait(mark, 1, ({ topic, id }) => topic === 'start' && id === containerId);
    life.start.push(started!.atMs - startAt);

    await randomPhase();
    mark = events.mark();
    const killedAt = wallClock();
    process.kill(started!.pid, 'SIGKILL');
    await events.wait(mark, 1, ({ topic, id }) => topic === 'exit' && id === containerId);
    await untilExited(client, containerId);
    const second = await startContainer(client, sandboxId, requests, 1);
    const [restarted] = await events.wait(mark, 1, ({ topic, id }) => topic === 'start' && id === second);
    life.restart.push(restarted!.atMs - killedAt);

    await randomPhase();
    mark = events.mark();
    const removedAt = wallClock();
    await client.call('StopContainer', { container_id: second, timeout: '1' }, CALL);
    await client.call('StopPodSandbox', { pod_sandbox_id: sandboxId }, CALL);
    const [ended] = await events.wait(mark, 1, ({ topic, id }) => topic === 'exit' && id === sandboxId);
    life.stop.push(ended!.atMs - removedAt);
    await removeAll(client);
    await sleep(REST_MS);
  }
  return life;
}

async function ourLife(bench: Bench, samples: number): Promise<Life> {
  const { events, containerd } = bench;
  const life: Life = { start: [], restart: [], stop: [] };
  const node = newNode(bench);
  try {
    await node.start();
    await sleep(PHASE_MS);
    for (let i = 0; i < samples; i++) {
      const name = `ours-${i}`;
      await randomPhase();
      let mark = events.mark();
      const writtenAt = wallClock();
      node.write(`${name}.json`, manifest(name, containerd.image));
      const [sandbox, started] = await events.wait(mark, 2, isStart);
      await assertIsContainer(bench, started!.id, `${name}-node1`);
      life.start.push(started!.atMs - writtenAt);

      await randomPhase();
      mark = events.mark();
      const killedAt = wallClock();
      process.kill(started!.pid, 'SIGKILL');
      const [restarted] = await events.wait(mark, 1, isStart);
      await assertIsContainer(bench, restarted!.id, `${name}-node1`);
      life.restart.push(restarted!.atMs - killedAt);

      await randomPhase();
      mark = events.mark();
      const removedAt = wallClock();
      node.remove(`${name}.json`);
      const [ended] = await events.wait(mark, 1, ({ topic, id }) => topic === 'exit' && id === sandbox!.id);
      life.stop.push(ended!.atMs - removedAt);
      await untilEmpty(bench);
      await sleep(REST_MS);
    }
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${node.log}`, { cause: error });
  } finally {
    await node.stop();
    await node.close();
    await removeAll(bench.client);
  }
  return life;
}

/**
 * The measured container is that of the pod, and it runs; the event comes shortly before the runtime's own status
 * changes.
 */
async function assertIsContainer({ client }: Bench, id: string, pod: string): Promise<void> {
  await eventually(`${id} is a running container of ${pod}`, async () => {
    const { status } = await client.call('ContainerStatus', { container_id: id }, CALL);
    return status?.labels['io.kubernetes.pod.name'] === pod && status.state === 'CONTAINER_RUNNING';
  });
}

export async function podLife(bench: Bench, requests: PodRequests, { rounds, samples }: Sizes): Promise<Measure[]> {
  const start: Measure = measure('pod start', 'manifest or first call to container started: 3 calls');
  const restart: Measure = measure('crash to restart', 'SIGKILL to started: exit seen in the runtime, 2 calls');
  const stop: Measure = measure('removal', 'manifest gone or first call to sandbox ended: 2 calls');
  for (let round = 0; round < rounds; round++) {
    console.log(`round ${round + 1} of ${rounds}, load ${load()}`);
    const control = [await controlLife(bench, requests, samples)];
    const ours = [await ourLife(bench, samples), await ourLife(bench, samples)];
    control.push(await controlLife(bench, requests, samples));
    const joined = (lives: Life[], what: keyof Life) => lives.flatMap((life) => life[what]);
    for (const [into, what] of [
      [start, 'start'],
      [restart, 'restart'],
      [stop, 'stop'],
    ] as const) {
      into.rounds.push({ control: joined(control, what), ours: joined(ours, what) });
    }
  }
  return [start, restart, stop];
}

export const measure = (name: string, control: string, unit = 'ms'): Measure => ({ name, unit, control, rounds: [] });
