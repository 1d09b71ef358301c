/**
 * A journal replayed by changed machines: effects on the world must be the same; different messages between machines
 * are notes.
 */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildInfo } from '../../src/kernel/build-info.ts';
import { readJournal } from '../../src/kernel/journal/reader.ts';
import { replay } from '../../src/kernel/replay.ts';
import { type Edit, shopWith } from './journal/mutated-shop.ts';

const JOURNAL = join(import.meta.dirname, '../golden/journals/v4/shop');

async function replayed(...edits: readonly Edit[]) {
  return replay({ machine: await shopWith(...edits), records: readJournal(JOURNAL).records });
}

/** A desk between the clerk and the shop, which forwards messages in both directions. */
const DESK: readonly Edit[] = [
  [
    'export const shopMachine = setup({',
    `const deskMachine = setup({
  types: { input: {} as { name: string }, context: {} as { name: string }, events: {} as { type: string } },
  actors: { clerk: clerkMachine },
}).createMachine({
  id: 'desk',
  context: ({ input }) => input,
  invoke: { id: 'clerk', src: 'clerk', input: ({ context }) => ({ name: context.name }) },
  on: {
    'item.sold': { actions: sendParent(({ event }) => event) },
    'sale.asked': { actions: sendTo('clerk', ({ event }) => event) },
    'clerk.fainted': { actions: sendTo('clerk', ({ event }) => event) },
    'xstate.error.actor.*': { actions: assign(() => { throw new Error('fainted'); }) },
  },
});

export const shopMachine = setup({`,
  ],
  [
    "actors: { clerk: clerkMachine, ...pick(operations, 'shop.look'",
    "actors: { clerk: deskMachine, ...pick(operations, 'shop.look'",
  ],
];

describe('replays the same, with notes', () => {
  it('when actors have other ids', async () => {
    const report = await replayed(
      ['id: `clerk-${event.name}`', 'id: `till-${event.name}`'],
      ['stopChild(({ event }) => `clerk-${event.name}`)', 'stopChild(({ event }) => `till-${event.name}`)'],
      ['({ event }) => `clerk-${event.to}`,\n', '({ event }) => `till-${event.to}`,\n'],
      [
        "sendTo(({ event }) => `clerk-${event.to}`, { type: 'clerk.fainted' })",
        "sendTo(({ event }) => `till-${event.to}`, { type: 'clerk.fainted' })",
      ],
    );
    expect(report.divergence).toBeNull();
    expect(report.noted).toBeGreaterThan(0);
  });

  it('when requests have other ids', async () => {
    expect((await replayed(["id: 'sell',", "id: 'sale',"], ["id: 'look',", "id: 'glance',"])).divergence).toBeNull();
  });

  it('when a machine stands between two others', async () => {
    const report = await replayed(...DESK);
    expect(report.divergence).toBeNull();
    expect(report.noted).toBeGreaterThan(0);
  });

  it('when a machine has another name, and states have', async () => {
    const states: Edit[] = [
      ['    selling: {\n', '    atWork: {\n'],
      ["{ target: 'selling', actions", "{ target: 'atWork', actions"],
      ["{ after: { 1_000: 'selling' } }", "{ after: { 1_000: 'atWork' } }"],
    ];
    expect(
      (await replayed(["id: 'clerk',\n  context", "id: 'assistant',\n  context"], ...states)).divergence,
    ).toBeNull();
  });

  it('when a machine remembers more', async () => {
    const report = await replayed(['income: 0, rang: 0,', 'income: 0, open: true, rang: 0,']);
    expect(report.divergence).toBeNull();
    expect(report.notes[0]).toMatchObject({ kind: 'digest', turn: 0 });
  });
});

describe('finds', () => {
  it('another input of an operation behind a machine that is new', async () => {
    const report = await replayed(...DESK, [
      'input: ({ context }) => ({ item: context.item }),',
      "input: ({ context }) => ({ item: context.item + '!' }),",
    ]);
    expect(report.divergence).toMatchObject({
      kind: 'different',
      expected: { k: 'effect', name: 'shop.sell' },
      differences: expect.arrayContaining([expect.objectContaining({ path: '.input.item' })]) as unknown,
    });
  });

  it('a line that is not said any more by an actor with another id', async () => {
    const report = await replayed(
      ['5_000: { actions: line', '5_000: { guard: () => false, actions: line'],
      ["id: 'sell',", "id: 'sale',"],
    );
    expect(report.divergence).toMatchObject({ kind: 'missing', expected: { k: 'log', text: 'nobody comes' } });
  });

  it('another delay', async () => {
    const report = await replayed(['{ after: { 1_000:', '{ after: { 6_000:']);
    expect(report.divergence).toMatchObject({ kind: 'deadline', actors: [expect.stringMatching(/^shop\/clerk-/)] });
  });
});

it('the hash of a machine covers its functions, not how they are laid out in memory', async () => {
  const of = async (...edits: readonly Edit[]) => buildInfo(await shopWith(...edits), '0').machines;
  const now = await of();
  expect(await of()).toEqual(now);
  const guard = await of([
    'income: ({ context, event }) => context.income + event.price',
    'income: ({ event }) => event.price',
  ]);
  expect(guard['clerk']).toBe(now['clerk']);
  expect(guard['shop']).not.toBe(now['shop']);
});
