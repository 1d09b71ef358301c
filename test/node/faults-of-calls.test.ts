/**
 * Faults 1, 2 and 4: the agent or the runtime ends during a call, and calls fail, arrive late, arrive twice or lose
 * their answer. Each ends with the promises of a node, and with a journal that verifies and replays.
 */
import { existsSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { containerdAvailable } from '../support/containerd.ts';
import { type Interference, ProxyRefusal, type RecordedCall } from '../support/cri-proxy.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { BYSTANDER, FaultyNode } from '../support/faulty-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

/** The calls for the start and the end of a pod. */
const COMING = ['RunPodSandbox', 'CreateContainer', 'StartContainer'];
const GOING = ['StopContainer', 'StopPodSandbox', 'RemovePodSandbox'];
/** A late call arrives after others have stopped waiting for events. */
const LATE_MS = 1_500;
/** The time until the runtime is back does not affect which call it ended in. */
const AWAY_MS = [0, 3_000];
const MINUTE_MS = 60_000;
/** The number of agents that end, each during the start of one container. */
const DEATHS = 3;
/** It takes some seconds; a busy machine may need many times that. */
const TIMEOUT_MS = patient(480_000);

const pass: Interference = (_call, forward) => forward();
const { skip } = requirement('containerd', containerdAvailable());

describe.skipIf(skip)('a call in the middle of which something dies', () => {
  let node: FaultyNode;
  beforeAll(async () => {
    node = await FaultyNode.withBystander();
  }, TIMEOUT_MS);
  afterAll(() => node.close());
  afterEach(async () => {
    node.proxy.interfere = pass;
    if (!node.isRunning) await node.start();
    node.removeOthers();
  });
  const write = (name: string) => node.write(`${name}.json`, shellPod(name, node.image, SLEEP));

  /** Causes `fault` in the first call with this name for this pod; resolves when the call was made. */
  function inCall(method: string, pod: string, fault: Interference): Promise<RecordedCall> {
    return new Promise((resolve) => {
      node.proxy.interfere = (call, forward) => {
        if (call.method !== method || node.podOf(call) !== pod) return forward();
        node.proxy.interfere = pass;
        resolve(call);
        return fault(call, forward);
      };
    });
  }

  /** Starts or ends a pod, causes a fault in the call with this name, repairs it, and checks the node's promises. */
  async function through(method: string, name: string, fault: Interference, mend: () => Promise<void>) {
    const before = await node.instances(BYSTANDER);
    if (GOING.includes(method)) {
      write(name);
      await node.untilReady(name);
    }
    const called = inCall(method, name, fault);
    if (COMING.includes(method)) write(name);
    else node.remove(`${name}.json`);
    await called;
    await mend();
    await node.keepsPromises(COMING.includes(method) ? [BYSTANDER, name] : [BYSTANDER]);
    expect(await node.instances(BYSTANDER), 'who has nothing to do with it').toEqual(before);
    expect(COMING.includes(method) ? await node.starts(name) : 1, 'starts').toBe(1);
    if (COMING.includes(method)) node.remove(`${name}.json`);
    await node.gone(name);
  }

  const dead = (): never => {
    throw new ProxyRefusal(status.UNAVAILABLE, 'nobody hears this');
  };

  it.each([...COMING, ...GOING])(
    'fault 1: the agent dies before %s and after it',
    async (method) => {
      const die = () => void node.stop('SIGKILL');
      const before: Interference = async () => (die(), dead());
      await through(method, `before-${method.toLowerCase()}`, before, () => restarted());
      const after: Interference = async (_call, forward) => (await forward(), die(), dead());
      await through(method, `after-${method.toLowerCase()}`, after, () => restarted());
    },
    TIMEOUT_MS,
  );

  async function restarted(): Promise<void> {
    await eventually('the agent is dead', () => !node.isRunning);
    await node.start();
  }

  it.each([...COMING, ...GOING].map((method, at) => [method, AWAY_MS[at % AWAY_MS.length]!] as const))(
    'fault 2: the runtime dies in %s, and is back after %i ms',
    async (method, awayMs) => {
      let back: Promise<void> = Promise.resolve();
      const die: Interference = (_call, forward) => {
        back = node.containerd.restart(awayMs);
        return forward();
      };
      await through(method, `away-${method.toLowerCase()}`, die, () => back);
    },
    TIMEOUT_MS,
  );

  it(
    'fault 2: the runtime dies while calls of every kind are under way, and is away for a minute',
    async () => {
      const nameOf = (method: string) => `minute-${method.toLowerCase()}`;
      const goers = GOING.map(nameOf);
      for (const name of goers) write(name);
      for (const name of goers) await node.untilReady(name);
      const before = await node.instances(BYSTANDER);
      const held = new Map<string, () => void>();
      node.proxy.interfere = async (call, forward) => {
        const pod = node.podOf(call);
        if (pod !== nameOf(call.method) || held.has(pod)) return forward();
        await new Promise<void>((resolve) => held.set(pod, resolve));
        return forward();
      };
      for (const method of COMING) write(nameOf(method));
      for (const name of goers) node.remove(`${name}.json`);
      await eventually('all are under way', () => held.size === COMING.length + GOING.length, TIMEOUT_MS);
      for (const release of held.values()) release();
      await node.containerd.restart(MINUTE_MS);
      const comers = COMING.map(nameOf);
      await node.keepsPromises([BYSTANDER, ...comers]);
      expect(await node.instances(BYSTANDER), 'who has nothing to do with it').toEqual(before);
      for (const name of goers) await node.gone(name);
      for (const name of comers) node.remove(`${name}.json`);
      for (const name of comers) await node.gone(name);
    },
    TIMEOUT_MS,
  );

  it(
    'fault 1: a start that dies with its agent is no crash of the app',
    async () => {
      const name = 'dying';
      const starts = heldStarts(node.containerd.directory);
      const held: Interference = (_call, forward) => (starts.hold(), forward());
      let called = inCall('StartContainer', name, held);
      write(name);
      // If the runtime notices too late that its client is gone, it completes the start.
      const goesThrough = () => node.untilReady(name).then(() => true);
      let deaths = 0;
      let wentThrough = false;
      for (; deaths < DEATHS; deaths++) {
        if (deaths > 0) wentThrough = await Promise.race([called.then(() => false), goesThrough()]);
        else await called;
        if (wentThrough) break;
        await eventually('the start is under way', () => starts.areHeld());
        await node.stop('SIGKILL');
        starts.release();
        if (deaths < DEATHS - 1) called = inCall('StartContainer', name, held);
        await node.start();
      }
      await node.keepsPromises([BYSTANDER, name]);
      const { attempt } = await node.running(name);
      expect(attempt, 'starts that died').toBeGreaterThanOrEqual(wentThrough ? 0 : 1);
      expect(attempt, 'starts that died').toBeLessThanOrEqual(deaths);
      expect(node.log).not.toContain('Back-off restarting failed container');
      node.remove(`${name}.json`);
      await node.gone(name);
    },
    TIMEOUT_MS,
  );

  it('every journal verifies and replays', () => node.keepsItsWord(), TIMEOUT_MS);
});

/** Stops the runtime during each start of a process: its runc waits while a file exists. */
function heldStarts(directory: string) {
  const [program, held, door] = ['bin/runc', 'held', 'door'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  const real = readlinkSync(program);
  rmSync(program);
  const wait = `case " $* " in *' start '*) [ -e ${door} ] && : >${held}; while [ -e ${door} ]; do sleep 0.01; done;; esac`;
  writeFileSync(program, `#!/bin/sh\n${wait}\nexec ${real} "$@"\n`, { mode: 0o755 });
  return {
    hold: () => writeFileSync(door, ''),
    areHeld: () => existsSync(held),
    release: () => [door, held].forEach((path) => rmSync(path)),
  };
}

type Kind = 'error' | 'late' | 'lost' | 'twice';
const KINDS: readonly Kind[] = ['error', 'late', 'lost', 'twice'];
const READS = ['PodSandboxStatus', 'ContainerStatus'];

describe.skipIf(skip)('fault 4: a call that fails, is late, loses its answer or comes twice', () => {
  const plan = new Map(
    [...COMING, ...GOING, ...READS].flatMap((method) =>
      KINDS.map((kind) => [`${method.toLowerCase()}-${kind}`, { method, kind }] as const),
    ),
  );
  let node: FaultyNode;
  beforeAll(async () => {
    node = await FaultyNode.create();
    node.proxy.interfere = once(node, plan);
    for (const name of plan.keys()) node.write(`${name}.json`, shellPod(name, node.image, SLEEP));
  });
  afterAll(() => node.close());

  it('when pods come', () => node.keepsPromises([...plan.keys()]), TIMEOUT_MS);

  it(
    'when they go',
    async () => {
      for (const name of plan.keys()) node.remove(`${name}.json`);
      await node.keepsPromises([]);
      for (const name of plan.keys()) await node.gone(name);
    },
    TIMEOUT_MS,
  );

  it('every journal verifies and replays', () => node.keepsItsWord(), TIMEOUT_MS);
});

/** Each pod has its fault once, in the first call of its method. */
function once(
  node: FaultyNode,
  plan: ReadonlyMap<string, { readonly method: string; readonly kind: Kind }>,
): Interference {
  const met = new Set<string>();
  return (call, forward) => {
    const pod = node.podOf(call);
    const planned = plan.get(pod);
    if (planned?.method !== call.method || met.has(pod)) return forward();
    met.add(pod);
    return faults[planned.kind](forward);
  };
}

const faults: Readonly<Record<Kind, (forward: () => Promise<Buffer>) => Promise<Buffer>>> = {
  error: () => Promise.reject(new ProxyRefusal(status.UNKNOWN, 'an error that the test made')),
  late: async (forward) => {
    await sleep(LATE_MS);
    return forward();
  },
  lost: async (forward) => {
    await forward();
    throw new ProxyRefusal(status.UNAVAILABLE, 'the answer was lost');
  },
  twice: async (forward) => {
    await forward();
    return forward();
  },
};
