/** Requests and answers over real message ports, between two ends in one thread. */
import { MessageChannel } from 'node:worker_threads';
import { expect, it, onTestFinished } from 'vitest';
import { type Answers, Channel } from '../../../../src/actors/server/thread/channel.ts';
import { carrying, traceparent } from '../../../../src/actors/tracing/propagation.ts';
import { OperationError } from '../../../../src/kernel/json.ts';

/** Both ends; the far one answers. */
function pair(answers: Answers = {}) {
  const { port1, port2 } = new MessageChannel();
  onTestFinished(() => port1.close());
  const far = new Channel(port2, answers);
  return { near: new Channel(port1, {}), far };
}

it('a question gets its own answer, whatever their order, with bytes and large numbers as they are', async () => {
  const waiting: (() => void)[] = [];
  const { near } = pair({
    echo: (value) => value,
    slow: async (value) => {
      await new Promise<void>((resolve) => waiting.push(resolve));
      return value;
    },
  });
  const slow = near.ask('slow', 'first');
  const bytes = { bytes: new Uint8Array([1, 2]), large: 2n ** 63n, none: undefined };
  expect(await near.ask('echo', bytes)).toEqual(bytes);
  expect(await near.ask('echo', undefined)).toBe(null);
  waiting[0]!();
  expect(await slow).toBe('first');
});

it('an error keeps its code, and a request without an answer is an error', async () => {
  const { near } = pair({
    fail: () => {
      throw new OperationError('no room', { code: 'RESOURCE_EXHAUSTED', retriable: true });
    },
    unsendable: () => () => {},
  });
  await expect(near.ask('fail', null)).rejects.toMatchObject({
    message: 'no room',
    code: 'RESOURCE_EXHAUSTED',
    retriable: true,
  });
  await expect(near.ask('other', null)).rejects.toThrow('this thread has no answer to other');
  await expect(near.ask('unsendable', null)).rejects.toThrow(/could not be cloned/);
  await expect(near.ask('fail', () => {})).rejects.toThrow(/could not be cloned/);
});

it('what is done for a question belongs to the span of the one who asks', async () => {
  const { near } = pair({ span: async () => traceparent() ?? 'none' });
  expect(await carrying('header', () => near.ask('span', null))).toBe('header');
  expect(await near.ask('span', null)).toBe('none');
});

it('items come in their order, and a side that takes slowly holds up the one that sends', async () => {
  let sent = 0;
  const { near } = pair({
    count: async (_input, { emit }) => {
      for (let n = 0; n < 1_000; n++) {
        await emit(n);
        sent = n;
      }
      return 'end';
    },
  });
  const taken: number[] = [];
  const ahead: number[] = [];
  const onItem = async (n: number): Promise<void> => {
    await new Promise((resolve) => setImmediate(resolve));
    taken.push(n);
    ahead.push(sent - taken.length);
  };
  expect(await near.ask('count', null, { onItem })).toBe('end');
  await expect.poll(() => taken.length).toBe(1_000);
  expect(taken).toEqual(Array.from({ length: 1_000 }, (_, n) => n));
  expect(Math.max(...ahead)).toBeLessThan(40);
});

it('an abort is heard, also by a side that waits for its items to be taken', async () => {
  const { near } = pair({
    endless: async (_input, { signal, emit }) => {
      while (!signal.aborted) await emit('more');
      return 'aborted';
    },
  });
  const abort = new AbortController();
  const answer = near.ask('endless', null, { signal: abort.signal, onItem: () => new Promise(() => {}) });
  setTimeout(() => abort.abort(), 5);
  expect(await answer).toBe('aborted');
  expect(await near.ask('endless', null, { signal: AbortSignal.abort() })).toBe('aborted');
});

it('a channel that is closed fails whatever was asked, and aborts whatever was to be answered', async () => {
  const heard: AbortSignal[] = [];
  const { near, far } = pair({
    wait: async (_input, { signal }) => {
      heard.push(signal);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    },
  });
  const asked = [near.ask('wait', 1), near.ask('wait', 2)];
  await expect.poll(() => heard.length).toBe(2);
  near.close(new Error('the other side is gone'));
  far.close(new Error('gone'));
  for (const each of asked) await expect(each).rejects.toThrow('the other side is gone');
  await expect(near.ask('wait', 3)).rejects.toThrow('the other side is gone');
  expect(heard.map(({ aborted }) => aborted)).toEqual([true, true]);
});

it('a side may ask so many questions at once and no more', async () => {
  const { near } = pair({ wait: () => new Promise(() => {}) });
  for (let n = 0; n < 8_192; n++) near.ask('wait', null).catch(() => {});
  await expect(near.ask('wait', null)).rejects.toThrow('too many requests are under way');
  near.close(new Error('over'));
});

it('many questions that take their time leave time for everything else', async () => {
  let rounds = 0;
  const seen: number[] = [];
  const { near } = pair({
    busy: () => {
      for (const endMs = performance.now() + 6; performance.now() < endMs; );
      seen.push(rounds);
    },
  });
  const everythingElse = setInterval(() => (rounds += 1), 0);
  onTestFinished(() => clearInterval(everythingElse));
  await Promise.all(Array.from({ length: 20 }, () => near.ask('busy', null)));
  expect(seen).toHaveLength(20);
  expect(new Set(seen).size).toBeGreaterThan(10);
});

it('a question that is cancelled before its round is answered, and knows it', async () => {
  const cancel = new AbortController();
  const { near } = pair({
    busy: () => {
      for (const endMs = performance.now() + 6; performance.now() < endMs; );
    },
    isAborted: (_input, { signal }) => signal.aborted,
  });
  const first = near.ask('busy', null);
  const second = near.ask('isAborted', null, { signal: cancel.signal });
  cancel.abort();
  await first;
  expect(await second).toBe(true);
});
