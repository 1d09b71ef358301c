import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { limitMs, pause, TIMER_MAX_MS } from '../../src/actors/pause.ts';

/** Node's timers reduce this to one millisecond. */
const LONG_MS = 3_000_000_000;

it.each([[LONG_MS], [9e18], [Number.POSITIVE_INFINITY]])(
  'a wait of %d milliseconds lasts until the abort',
  async (ms) => {
    const aborter = new AbortController();
    let isOver = false;
    const waiting = pause(ms, aborter.signal).then(() => (isOver = true));
    await sleep(50);
    expect(isOver).toBe(false);
    aborter.abort();
    await waiting;
  },
);

it('a short wait ends by itself, no sooner than asked', async () => {
  const beganMs = performance.now();
  await pause(20, new AbortController().signal);
  expect(performance.now() - beganMs).toBeGreaterThanOrEqual(19);
  await pause(-5, new AbortController().signal);
});

it('a delay that is no number does not wait', async () => {
  await expect(pause(Number.NaN, new AbortController().signal)).rejects.toThrow('a wait of NaN milliseconds');
});

it('a limit is never longer than a timer', () => {
  expect([limitMs(5), limitMs(LONG_MS)]).toEqual([5, TIMER_MAX_MS]);
});
