/** Changes of code, replayed with golden journals: all are found, with the right actor; no refactoring is reported. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildInfo } from '../../src/kernel/build-info.ts';
import { readJournal } from '../../src/kernel/journal/reader.ts';
import type { JournalRecord } from '../../src/kernel/records.ts';
import { type ReplayReport, replay } from '../../src/kernel/replay.ts';
import type { AnyStateMachine } from '../../src/kernel/xstate.ts';
import { kubeletMachine } from '../../src/machines/startup/kubelet.ts';
import { BootNode } from '../machines/startup/boot-node.ts';
import { image, manifest } from '../support/pods-node.ts';
import { type Edit, shopWith } from './journal/mutated-shop.ts';
import { NODE_CHANGES, REFACTORINGS, SHOP_CHANGES, withNodeChange } from './seeded-changes.ts';

const JOURNALS = join(import.meta.dirname, '../golden/journals/v4');

const shop = [...readJournal(join(JOURNALS, 'shop')).records];
/** Recorded by today's machines, so that everything is compared. */
const node: readonly JournalRecord[] = recordedNow();

function recordedNow(): readonly JournalRecord[] {
  const booted = new BootNode({ answers: {} });
  booted.world.pods.registry.set('app:1', image('app:1'));
  booted.world.pods.setManifests([manifest({ uid: 'u1', name: 'web' })]);
  const build = buildInfo(kubeletMachine, 'test');
  return booted
    .boot()
    .run(1_000)
    .records.map((record) => (record.k === 'header' ? { ...record, build } : record));
}

const ofShop = async (edits: readonly Edit[], strict: boolean): Promise<ReplayReport> =>
  replay({ machine: await shopWith(...edits), records: shop, strict });

it('there are sixty changes and twenty refactorings, no two of one name', () => {
  const names = [...SHOP_CHANGES, ...REFACTORINGS].map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(SHOP_CHANGES.length + NODE_CHANGES.length).toBeGreaterThanOrEqual(60);
  expect(REFACTORINGS).toHaveLength(20);
});

describe('a change of the shop is found', () => {
  it.each(SHOP_CHANGES)('$name', async ({ by, edits }) => {
    const { divergence } = await ofShop(edits, true);
    expect(divergence).not.toBeNull();
    expect(
      divergence!.actors.some((actor) => by.test(actor)),
      divergence!.actors.join(),
    ).toBe(true);
    const lenient = await ofShop(edits, false);
    expect(lenient.divergence !== null || lenient.noted > 0).toBe(true);
  });
});

describe('a change of the node is found', () => {
  it.each(NODE_CHANGES)('$machine $guard$delay', (change) => {
    const machine = kubeletMachine as AnyStateMachine;
    const { divergence } = withNodeChange(change, () => replay({ machine, records: node, strict: true }));
    expect(divergence?.actors).toContain(change.by);
  });

  it('and nothing where nothing changed', () => {
    expect(replay({ machine: kubeletMachine as AnyStateMachine, records: node, strict: true }).divergence).toBeNull();
  });
});

describe('a refactoring is not reported', () => {
  it.each(REFACTORINGS)('$name', async ({ isExact, edits }) => {
    const { divergence, noted } = await ofShop(edits, isExact);
    expect(divergence).toBeNull();
    expect(noted > 0).toBe(!isExact);
  });
});
