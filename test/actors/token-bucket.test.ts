import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { TokenBucket } from '../../src/actors/token-bucket.ts';

const QPS = 10;
const BURST = 2;
const never = new AbortController().signal;

/** Takes tokens; returns the names in the order in which they are taken. */
function taking(bucket: TokenBucket, requests: readonly (readonly [name: string, lane?: string])[]): string[] {
  const order: string[] = [];
  for (const [name, lane] of requests) void bucket.take(never, lane).then(() => order.push(name));
  return order;
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('TokenBucket', () => {
  it('gives a burst at once, then as many a second as it may, in order', async () => {
    const order = taking(
      new TokenBucket(QPS, BURST),
      ['a', 'b', 'c', 'd', 'e'].map((name) => [name]),
    );
    await vi.advanceTimersByTimeAsync(0);
    expect(order).toEqual(['a', 'b']);
    await vi.advanceTimersByTimeAsync(110);
    expect(order).toEqual(['a', 'b', 'c']);
    await vi.advanceTimersByTimeAsync(200);
    expect(order).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('lets lanes take turns, so that many requests of one do not delay those of another', async () => {
    const many = Array.from({ length: 1_000 }, (_, at) => [`many-${at}`, 'many'] as const);
    const order = taking(new TokenBucket(QPS, BURST), [...many, ['one'], ['two'], ['three', 'other']]);
    await vi.advanceTimersByTimeAsync(650);
    expect(order).toEqual(['many-0', 'many-1', 'many-2', 'one', 'three', 'many-3', 'two', 'many-4']);
  });

  it('forgets a request that was aborted while it waited', async () => {
    const bucket = new TokenBucket(QPS, 1);
    const abort = new AbortController();
    const order = taking(bucket, [['first']]);
    const aborted = bucket.take(abort.signal);
    const late = taking(bucket, [['second']]);
    abort.abort(new Error('not needed'));
    await expect(aborted).rejects.toThrow('not needed');
    await vi.advanceTimersByTimeAsync(110);
    expect([...order, ...late]).toEqual(['first', 'second']);
    await expect(bucket.take(abort.signal)).rejects.toThrow('not needed');
  });
});
