/** For a step that the kernel reports as unhandled, XState returns the same snapshot, without actions. */
import { describe, expect, it, vi } from 'vitest';
import { type AnyMachineSnapshot, createActor, createMachine } from 'xstate';
import { unhandledBy } from '../../src/kernel/atomic.ts';

const acted = vi.fn();
const machine = createMachine({
  id: 'node',
  type: 'parallel',
  context: {},
  on: { 'pod.*': { actions: acted }, refused: { guard: () => false, actions: acted } },
  states: {
    life: {
      initial: 'up',
      states: { up: { on: { down: 'down' }, after: { 5_000: 'down' } }, down: { on: { up: 'up' } } },
    },
    watch: { initial: 'idle', states: { idle: { on: { look: 'looking' } }, looking: { on: { '*': 'idle' } } } },
    gate: {
      initial: 'shut',
      states: {
        shut: { on: { unlock: 'ready' } },
        ready: { always: { guard: ({ event }) => event.type === 'go', target: 'shut' } },
      },
    },
  },
});
const isUnhandled = unhandledBy(machine);
const after = (...events: string[]): AnyMachineSnapshot => {
  const actor = createActor(machine).start();
  for (const type of events) actor.send({ type });
  const snapshot = actor.getSnapshot();
  actor.stop();
  return snapshot as AnyMachineSnapshot;
};

describe.each([[[]], [['down']], [['look']], [['unlock']], [['down', 'look', 'unlock']]])('after %j', (events) => {
  const snapshot = after(...events);
  it.each([
    'down',
    'up',
    'look',
    'unlock',
    'go',
    'other',
    'pod.added',
    'pod',
    'podium',
    'refused',
    'xstate.done.actor.x',
    'xstate.error.actor.x',
    'xstate.after.5000.node.life.up',
  ])('%s', (type) => {
    acted.mockClear();
    if (!isUnhandled(snapshot, type)) return;
    const actor = createActor(machine, { snapshot: machine.getPersistedSnapshot(snapshot as never) } as never).start();
    const before = actor.getSnapshot();
    actor.send({ type });
    expect(actor.getSnapshot()).toBe(before);
    expect(acted).not.toHaveBeenCalled();
    actor.stop();
  });
});

it('a handled event, a wildcard, an error and a state with always are never unhandled', () => {
  expect(
    ['down', 'pod.added', 'refused', 'xstate.error.actor.x', 'xstate.stop'].map((type) => isUnhandled(after(), type)),
  ).toEqual([false, false, false, false, false]);
  expect(isUnhandled(after('look'), 'anything')).toBe(false);
  expect(isUnhandled(after('unlock'), 'other')).toBe(false);
  expect(['up', 'other', 'xstate.done.actor.x', 'pod'].map((type) => isUnhandled(after(), type))).toContain(true);
  expect(isUnhandled(after('down'), 'down')).toBe(true);
});
