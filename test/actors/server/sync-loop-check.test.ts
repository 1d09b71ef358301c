/** The check `syncloop` on a node with a real loop, and with a clock alone. */
import { expect, it } from 'vitest';
import { KernelView, SyncLoopCheck } from '../../../src/actors/server/node-view.ts';
import { BootNode } from '../../machines/startup/boot-node.ts';

const MINUTE_MS = 60_000;
const LATE = 'sync Loop took longer than expected';
const loop = (runtimeUp: boolean, status = 'active') => ({ status, context: { runtimeUp } });

it('a loop that goes round is well, one that does not is late after five minutes', () => {
  let nowMs = 1;
  const check = new SyncLoopCheck(() => nowMs);
  nowMs = 60 * MINUTE_MS;
  expect(check.problem(MINUTE_MS), 'it was never entered').toBe(null);
  check.turned(loop(true));
  nowMs += 5 * MINUTE_MS;
  expect(check.problem(MINUTE_MS)).toBe(null);
  nowMs += 1;
  expect(check.problem(MINUTE_MS)).toBe(LATE);
  expect(check.problem(3 * MINUTE_MS), 'two long periods').toBe(null);
  check.turned(loop(true));
  expect(check.problem(MINUTE_MS)).toBe(null);
});

it.each([
  ['the runtime is down', loop(false)],
  ['the loop has failed', loop(true, 'error')],
  ['there is no loop', undefined],
])('turns are no rounds while %s', (_why, snapshot) => {
  let nowMs = 0;
  const check = new SyncLoopCheck(() => nowMs);
  check.turned(loop(true));
  for (; nowMs < 6 * MINUTE_MS; nowMs += MINUTE_MS) check.turned(snapshot);
  expect(check.problem(MINUTE_MS)).toBe(LATE);
});

it('a node where nothing happens goes round by itself', () => {
  let nowMs = 0;
  const view = new KernelView(() => nowMs);
  const node = new BootNode({ onTurn: (records, kernel) => view.onTurn(records, kernel) });
  node.boot().run(MINUTE_MS);
  for (; nowMs < 20 * MINUTE_MS; nowMs += MINUTE_MS) {
    expect(view.checks.syncloop(), `after ${nowMs} ms`).toBe(null);
    node.run(MINUTE_MS);
  }
  nowMs += 6 * MINUTE_MS;
  expect(view.checks.syncloop()).toBe(LATE);
});
