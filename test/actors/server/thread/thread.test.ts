/** The parts of the servers' thread that decide alone: its pace, the kernel's life, the pods that it knows. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { NodePod } from '../../../../src/actors/server/node-pods.ts';
import { RestartDelay, SilenceLimit } from '../../../../src/actors/server/thread/host.ts';
import { KnownPods, type PodSource, PodVersions } from '../../../../src/actors/server/thread/known-pods.ts';
import { MainThreadHealth, remoteNode } from '../../../../src/actors/server/thread/serve.ts';

afterEach(() => void vi.useRealTimers());

it('the pace: at once after a while, then ever slower up to half a second', () => {
  let nowMs = 0;
  const pace = new RestartDelay(() => nowMs);
  const lostAfter = (ms: number): number => {
    pace.started();
    nowMs += ms;
    return pace.lost();
  };
  expect([1, 1, 1, 1, 1, 1, 1].map(lostAfter)).toEqual([0, 50, 100, 200, 400, 500, 500]);
  expect([10_000, 1, 1].map(lostAfter)).toEqual([0, 50, 100]);
});

it('a silent thread is ended: late while it loads, after five seconds then, and later after each that was ended', () => {
  const silence = new SilenceLimit();
  const checksUntilTheEnd = (): number => {
    let checks = 1;
    while (silence.tooLong() === null) checks++;
    return checks;
  };
  const lives = (hasAnswered: boolean): number => {
    silence.started();
    if (hasAnswered) silence.answered();
    return checksUntilTheEnd();
  };
  expect(lives(true)).toBe(6);
  expect(lives(false)).toBe(61);
  expect([true, true, true].map(lives)).toEqual([21, 41, 61]);
  silence.started();
  for (let second = 0; second < 600; second++) silence.answered();
  expect(checksUntilTheEnd()).toBe(6);
});

it('a summary and the configuration are asked for once at a time, for all who want them', async () => {
  const asked: string[] = [];
  const ask = async (name: string, input: unknown) => {
    asked.push(`${name} ${JSON.stringify(input)}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
    return {};
  };
  const facts = { flags: {}, program: { startedAt: 0, version: '' }, logDirectory: '', checks: [] };
  const { stats, view } = remoteNode(ask, facts);
  const all = () => Promise.all([false, true, false, true].map((only) => stats.summary({ onlyCpuAndMemory: only })));
  await Promise.all([all(), all(), view.configuration(), view.configuration()]);
  expect(asked).toEqual([
    'summary {"onlyCpuAndMemory":false}',
    'summary {"onlyCpuAndMemory":true}',
    'configuration null',
  ]);
  await view.configuration();
  expect(asked).toHaveLength(4);
});

describe('the life of the kernel', () => {
  it('is what the kernel says', async () => {
    const life = new MainThreadHealth(async () => ({ ping: null, syncloop: 'late' }));
    expect([await life.problem('ping'), await life.problem('syncloop')]).toEqual([null, 'late']);
  });

  it('is told in a moment while the kernel is busy, and fails when it is stuck', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let nowMs = 0;
    let answer: (result: Record<string, string | null>) => void = () => {};
    let asked = 0;
    const life = new MainThreadHealth(
      () => {
        asked++;
        return new Promise((resolve) => (answer = resolve));
      },
      () => nowMs,
    );
    const problem = async (): Promise<string | null> => {
      const result = Promise.race([
        life.problem('ping'),
        new Promise((resolve) => setTimeout(resolve, 250, 'too late')),
      ]);
      await vi.advanceTimersByTimeAsync(300);
      return (await result) as string | null;
    };
    expect(await problem()).toBe(null);
    nowMs = 9_999;
    expect(await problem()).toBe(null);
    nowMs = 12_000;
    expect(await problem()).toBe('the kernel has not answered for 12 s');
    expect(asked).toBe(1);
    answer({ ping: null });
    await vi.advanceTimersByTimeAsync(1);
    expect(await problem()).toBe(null);
    expect(asked).toBe(2);
  });
});

describe('the pods that the thread knows', () => {
  const sources = new Map<string, PodSource>();
  const change = (uid: string, name = uid): void => {
    sources.set(uid, { uid, state: {}, read: () => ({ uid, name }) as NodePod });
  };
  const names = (pods: readonly NodePod[]): string[] => pods.map(({ name }) => name);

  it('are asked for by what changed, in parts, and keep their order', async () => {
    sources.clear();
    for (let n = 0; n < 100; n++) change(`p${n}`);
    const versions = new PodVersions();
    const copied: number[] = [];
    const known = new KnownPods(async (since) => {
      const answer = versions.changedSince(since, [...sources.values()]);
      copied.push(answer.changed.length);
      return answer;
    });
    expect(names(await known.all())).toEqual([...sources.keys()]);
    expect(copied.splice(0)).toEqual([32, 32, 32, 4]);
    expect(await known.all()).toHaveLength(100);
    change('p7', 'changed');
    sources.delete('p8');
    change('late');
    expect(names(await known.all()).slice(6, 9)).toEqual(['p6', 'changed', 'p9']);
    expect(copied).toEqual([0, 2]);
  });

  it('are requested once for all concurrent callers, and not again afterwards', async () => {
    sources.clear();
    change('a');
    const versions = new PodVersions();
    let asked = 0;
    const known = new KnownPods(async (since) => {
      asked++;
      await new Promise((resolve) => setImmediate(resolve));
      return versions.changedSince(since, [...sources.values()]);
    });
    const first = known.all();
    await Promise.resolve();
    const rest = [known.all(), known.all(), known.all()];
    change('b');
    expect(names(await first).length).toBeGreaterThan(0);
    for (const each of await Promise.all(rest)) expect(names(each)).toEqual(['a', 'b']);
    expect(asked).toBeLessThanOrEqual(2);
  });

  it('are asked for anew after a failure', async () => {
    let isBroken = true;
    const known = new KnownPods(async (since) => {
      if (isBroken) throw new Error('not yet');
      return new PodVersions().changedSince(since, []);
    });
    await expect(known.all()).rejects.toThrow('not yet');
    isBroken = false;
    expect(await known.all()).toEqual([]);
  });
});
