/** A runtime that does not tell its status for a while is not down yet. */
import { expect, it } from 'vitest';
import { StatusPatience } from '../../../src/actors/runtime/status-patience.ts';
import type { RuntimeStatusItem } from '../../../src/machines/model/operations/runtime.ts';

const READY: RuntimeStatusItem = { type: 'runtime.statusChanged', conditions: [], handlers: [], features: null };
const REFUSED: RuntimeStatusItem = { type: 'runtime.statusFailed', message: 'connection refused' };
const DOWN_AFTER_MS = 200;

const silence = () => new Promise<void>((resolve) => setTimeout(resolve, DOWN_AFTER_MS + 20));

function patience(...answers: (RuntimeStatusItem | Promise<RuntimeStatusItem>)[]): StatusPatience {
  const ask = () => Promise.resolve(answers.shift() ?? READY);
  return new StatusPatience(ask, new AbortController().signal, DOWN_AFTER_MS);
}

it('that refuses is down only when it has refused for the whole time', async () => {
  const status = patience(READY, REFUSED, REFUSED);
  expect(await status.next()).toEqual(READY);
  expect(await status.next()).toBeNull();
  await silence();
  expect(await status.next()).toEqual(REFUSED);
  expect(await status.next()).toEqual(READY);
});

it('that is restarted in time was never down', async () => {
  const status = patience(REFUSED, READY, REFUSED);
  expect(await status.next()).toBeNull();
  expect(await status.next()).toEqual(READY);
  expect(await status.next()).toBeNull();
});

it('that hangs is down after the same time, and up with its late answer', async () => {
  const late = Promise.withResolvers<RuntimeStatusItem>();
  const status = patience(late.promise, REFUSED);
  const told = { type: 'runtime.statusFailed', message: 'it has not answered for 0.2s' };
  expect(await status.next()).toEqual(told);
  expect(await status.next()).toEqual(told);
  late.resolve(READY);
  expect(await status.next()).toEqual(READY);
  expect(await status.next()).toBeNull();
});
