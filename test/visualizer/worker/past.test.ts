/** The actors at any record are those that the kernel had then. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import type { ShownRecord } from '../../../src/actors/server/visualizer/protocol.ts';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import type { JournalRecord } from '../../../src/kernel/records.ts';
import { replay } from '../../../src/kernel/replay.ts';
import { kubeletMachine } from '../../../src/machines/startup/kubelet.ts';
import { Past } from '../../../src/visualizer/worker/past.ts';
import { startsJournal } from '../../support/starts-journal.ts';
import { executed } from './records.ts';

/** Recorded by this build, because another build may have recorded other states. */
const journal = mkdtempSync(join(tmpdir(), 'statelet-past-'));
await startsJournal(journal);
afterAll(() => rmSync(journal, { recursive: true }));
const { records } = executed(journal);
const past = new Past();
for (const shown of records) past.take(shown);

/** The actors that have a state, replayed up to the end of a turn. */
function actorsAfter(turn: number): Map<string, unknown> {
  const upTo: JournalRecord[] = [];
  for (const record of readJournal(journal).records) {
    upTo.push(record);
    if (record.k === 'end' && record.turn === turn) break;
  }
  const { kernel } = replay({ machine: kubeletMachine, records: upTo });
  return new Map(
    kernel.addresses.flatMap((address) => {
      const { value } = kernel.snapshotOf(address) as { value?: unknown };
      return value === undefined ? [] : [[address, value] as const];
    }),
  );
}

const LAST = records.at(-1)!.turn;

it.each([0, 7, 30, 45, LAST])('after turn %d', (turn) => {
  const end = records.findLast((shown) => shown.turn === turn)!.n;
  const views = past.all(end).filter(({ status }) => status === 'active');
  const expected = actorsAfter(turn);
  expect(new Map(views.map(({ address, value }) => [address, value]))).toEqual(expected);
});

it('names machines, pods, and requests that wait', () => {
  const at = records.find(({ record }) => record.k === 'effect' && record.name === 'cri.startContainer')!.n;
  const end = records.findLast(({ turn }) => turn === records[at]!.turn)!.n;
  const container = past.at('kubelet/pods/pod-u1/container-app', end)!;
  expect(container).toMatchObject({ machine: 'container', value: { waiting: 'starting' } });
  expect(container.requests).toMatchObject([{ name: 'cri.startContainer', n: at }]);
  expect(past.at('kubelet/pods/pod-u1', end)!.named).toEqual({ uid: 'u1', name: 'web-node-1' });
  expect(past.at('kubelet/pods/pod-u1', 3)).toBeUndefined();
});

it('forgets what lies between two records, and knows what was so after them', () => {
  const thinned = new Past();
  for (const shown of records) thinned.take(shown);
  thinned.forget(100, 300);
  for (const { address } of past.all()) {
    expect(thinned.at(address, 400)).toEqual(past.at(address, 400));
    expect(thinned.at(address, 99)).toEqual(past.at(address, 99));
  }
  const entries = (of: Past) => of.all().reduce((sum, { address }) => sum + of.history(address).length, 0);
  expect(entries(thinned)).toBeLessThan(entries(past));
});

it('forgets an actor whose life lies between two records, when it is not among the last that ended', () => {
  const many = new Past();
  const state = (n: number, at: string, status?: 'done'): ShownRecord => {
    const record = { n, k: 'state' as const, at, value: 'on', ...(status ? { status } : {}) };
    return { n, t: n, turn: n, record };
  };
  for (let n = 0; n < 1_000; n += 2) {
    many.take(state(n, `a/${n}`));
    many.take(state(n + 1, `a/${n}`, 'done'));
  }
  many.forget(0, 400);
  expect(many.history('a/100')).toEqual([]);
  expect(many.history('a/900')).toHaveLength(2);
  expect(many.all()).toHaveLength(200);
});

it.each([
  [100, 300],
  [300, 100],
  [250, 251],
])('tells from what was so after record %d what is so after record %d', (one, other) => {
  const { actors, gone } = past.between(one, other);
  const views = new Map(past.all(one).map((view) => [view.address, view]));
  for (const address of gone) views.delete(address);
  for (const view of actors) views.set(view.address, view);
  const expected = new Map(past.all(other).map((view) => [view.address, view]));
  expect(Object.fromEntries(views)).toEqual(Object.fromEntries(expected));
});
