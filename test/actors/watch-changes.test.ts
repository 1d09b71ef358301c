import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { watchChanges } from '../../src/actors/pause.ts';

it('emits each change once, emits nothing without an answer, and leaves no listener', async () => {
  const answers = ['a', 'a', null, 'a', 'b', 'b'];
  const emitted: string[] = [];
  const aborter = new AbortController();
  let listeners = 0;
  const ask = async (): Promise<string | null> => {
    listeners = Math.max(listeners, getEventListeners(aborter.signal, 'abort').length);
    if (answers.length === 1) aborter.abort();
    return answers.shift() ?? null;
  };
  await watchChanges({ ask, periodMs: 1, signal: aborter.signal, emit: (item) => void emitted.push(item) });
  expect(emitted).toEqual(['a', 'b']);
  expect(listeners).toBe(0);
});

it('ends at once when the stream is cancelled', async () => {
  const aborter = new AbortController();
  const emit = (): void => aborter.abort();
  expect(await watchChanges({ ask: async () => 'a', periodMs: 60_000, signal: aborter.signal, emit })).toBeNull();
});
