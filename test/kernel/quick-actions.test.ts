/** Actions that leave the active states as they are give the snapshot that XState's own give, without computing it. */
import { expect, it } from 'vitest';
import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  assign,
  createActor,
  createMachine,
  enqueueActions,
  fromCallback,
  setup,
  spawnChild,
  stateIn,
  stopChild,
} from 'xstate';
import { quickenActions } from '../../src/kernel/quick-actions.ts';

type Counted = { context: { count: number } };
type Spawn = (src: 'child', options: { id: string }) => unknown;

const count: never = assign({ count: ({ context }: Counted) => context.count + 1 }) as never;
const child = fromCallback(() => {});

const machineOf = (): AnyStateMachine =>
  setup({ actors: { child }, actions: { count } }).createMachine({
    id: 'node',
    type: 'parallel',
    context: ({ spawn }: { spawn: Spawn }) => ({ count: 0, first: spawn('child', { id: 'first' }) }),
    on: {
      counted: { actions: 'count' },
      inlined: { actions: assign({ count: 7, last: ({ spawn }) => spawn('child', { id: 'last' }) }) },
      enqueued: {
        actions: enqueueActions(({ enqueue }) => {
          enqueue.assign({ count: 9 });
          enqueue.spawnChild('child', { id: 'third' });
          enqueue.stopChild('first');
          enqueue('count');
          enqueue(enqueueActions((inner) => inner.enqueue.assign({ inner: true })));
        }),
      },
    },
    states: {
      life: {
        initial: 'up',
        states: {
          up: { tags: ['ready'], entry: spawnChild('child', { id: 'second' }), exit: count, on: { down: 'down' } },
          down: {
            tags: ['failed', 'quiet'],
            invoke: { src: 'child', id: 'invoked' },
            entry: [stopChild('second'), count],
            always: {
              guard: ({ context }: Counted) => context.count > 20,
              target: 'up',
              actions: assign({ count: 0 }),
            },
            on: { up: { target: 'up', actions: count } },
          },
        },
      },
      watch: { initial: 'idle', states: { idle: { on: { look: 'looking' } }, looking: {} } },
    },
  } as never) as never;

const quick = machineOf();
quickenActions(quick);
quickenActions(quick);
const EVENTS = ['counted', 'inlined', 'look', 'enqueued', 'down', 'counted', 'up', 'inlined', 'down', 'enqueued'];

const seen = (snapshot: AnyMachineSnapshot) => ({
  ...snapshot,
  machine: undefined,
  _nodes: (snapshot as unknown as { _nodes: { id: string }[] })._nodes.map(({ id }) => id),
  tags: [...snapshot.tags],
  context: { ...snapshot.context, first: undefined, last: typeof snapshot.context.last },
  children: Object.keys(snapshot.children),
});

it('after each event, members and their order are those of XState', () => {
  const [own, ours] = [createActor(machineOf()).start(), createActor(quick).start()];
  for (const type of ['xstate.unknown', ...EVENTS]) {
    own.send({ type });
    ours.send({ type });
    expect(seen(ours.getSnapshot()), type).toEqual(seen(own.getSnapshot()));
    expect(Object.keys(ours.getSnapshot())).toEqual(Object.keys(own.getSnapshot()));
    expect(ours.getPersistedSnapshot()).toEqual(own.getPersistedSnapshot());
  }
});

it.each(['counted', 'inlined', 'enqueued'])('on %s, the states are the objects that they were', (type) => {
  const actor = createActor(quick).start();
  const before: AnyMachineSnapshot = actor.getSnapshot();
  actor.send({ type });
  const { value, tags, context } = actor.getSnapshot();
  expect(context).not.toEqual(before.context);
  expect(value).toBe(before.value);
  expect(tags).toBe(before.tags);
});

it('a guard in a list of actions sees the active states', () => {
  const machine = createMachine({
    initial: 'up',
    context: { found: false },
    states: { up: {} },
    on: {
      asked: {
        actions: enqueueActions(({ enqueue, check }) => enqueue.assign({ found: check(stateIn('up')) })),
      },
    },
  });
  quickenActions(machine as never);
  const actor = createActor(machine).start();
  actor.send({ type: 'asked' });
  expect(actor.getSnapshot().context).toEqual({ found: true });
});
