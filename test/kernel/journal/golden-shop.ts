/**
 * The actors that recorded `shop` in `test/golden/journals`, as they are: a shop that hires clerks. Between them they make a record of every
 * kind. They never change, for the recording must replay for as long as its format is read.
 */
import {
  assign,
  line,
  now,
  type OperationTable,
  once,
  pick,
  query,
  random,
  sendParent,
  sendTo,
  setup,
  stopChild,
  stream,
} from '../../../src/kernel/xstate.ts';

const operations = {
  'shop.look': query<{ shelf: string }, { items: readonly string[] }>(),
  'shop.sell': once<{ item: string }, { price: number }>(),
  'shop.listen': stream<{ door: string }, { readonly type: 'bell.rang'; readonly times: number }>(),
} satisfies OperationTable;

type ClerkEvent = { type: 'sale.asked'; item: string } | { type: 'clerk.fainted' };

const clerkMachine = setup({
  types: {
    input: {} as { name: string },
    context: {} as { name: string; item: string; sold: readonly string[]; luck: number; atMs: number },
    events: {} as ClerkEvent,
  },
  actors: pick(operations, 'shop.sell'),
}).createMachine({
  id: 'clerk',
  context: ({ input }) => ({ ...input, item: '', sold: [], luck: 0, atMs: 0 }),
  initial: 'idle',
  on: {
    'clerk.fainted': {
      actions: assign(() => {
        throw new Error('fainted');
      }),
    },
  },
  states: {
    idle: {
      on: { 'sale.asked': { target: 'selling', actions: assign({ item: ({ event }) => event.item }) } },
      after: { 5_000: { actions: line('info', ({ context }) => ['nobody comes', { clerk: context.name }]) } },
    },
    selling: {
      invoke: {
        id: 'sell',
        src: 'shop.sell',
        input: ({ context }) => ({ item: context.item }),
        onDone: {
          target: 'idle',
          actions: [
            assign((args) => ({
              sold: [...args.context.sold, args.context.item],
              luck: random(args),
              atMs: now(args),
            })),
            sendParent(({ context, event }) => ({ type: 'item.sold', by: context.name, price: event.output.price })),
          ],
        },
        onError: 'waiting',
      },
    },
    waiting: { after: { 1_000: 'selling' } },
  },
});

type ShopEvent =
  | { type: 'clerk.hired' | 'clerk.left'; name: string }
  | { type: 'customer.came'; to: string; item: string }
  | { type: 'clerk.pushed'; to: string }
  | { type: 'item.sold'; by: string; price: number }
  | { type: 'bell.rang'; times: number }
  | { type: 'list.came'; text: string }
  | { type: 'evening' }
  | { type: 'xstate.error.actor.clerk'; actorId: string; error: unknown };

export const shopMachine = setup({
  types: {
    context: {} as { income: number; rang: number; list: string; lost: readonly string[] },
    events: {} as ShopEvent,
  },
  actors: { clerk: clerkMachine, ...pick(operations, 'shop.look', 'shop.listen') },
}).createMachine({
  id: 'shop',
  context: { income: 0, rang: 0, list: '', lost: [] },
  initial: 'opening',
  on: {
    'clerk.hired': {
      actions: assign(({ event, spawn }) => {
        spawn('clerk', { id: `clerk-${event.name}`, input: { name: event.name } });
        return {};
      }),
    },
    'clerk.left': { actions: stopChild(({ event }) => `clerk-${event.name}`) },
    'customer.came': {
      actions: sendTo(
        ({ event }) => `clerk-${event.to}`,
        ({ event }) => ({ type: 'sale.asked', item: event.item }),
      ),
    },
    'clerk.pushed': { actions: sendTo(({ event }) => `clerk-${event.to}`, { type: 'clerk.fainted' }) },
    'item.sold': { actions: assign({ income: ({ context, event }) => context.income + event.price }) },
    'bell.rang': { actions: assign({ rang: ({ context, event }) => context.rang + event.times }) },
    'list.came': { actions: assign({ list: ({ event }) => event.text }) },
    'xstate.error.actor.*': {
      actions: assign({ lost: ({ context, event }) => [...context.lost, (event as { actorId: string }).actorId] }),
    },
    evening: '.closed',
  },
  states: {
    opening: { invoke: { id: 'look', src: 'shop.look', input: { shelf: 'left' }, onDone: 'open', onError: 'open' } },
    open: { invoke: { id: 'listen', src: 'shop.listen', input: { door: 'front' }, onError: 'closed' } },
    closed: { type: 'final' },
  },
});
