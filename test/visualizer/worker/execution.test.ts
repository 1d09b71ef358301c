/** A replayed journal: contexts of the past, their changes in a turn, and how actors decided. */
import { expect, it } from 'vitest';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { Past } from '../../../src/visualizer/worker/past.ts';
import { executed, GOLDEN } from './records.ts';

const { execution, records } = executed();
const past = new Past();
for (const shown of records) past.take(shown);

const turnOf = (operation: string, kind: 'effect' | 'result'): number =>
  records.find(({ record }) => record.k === kind && record.name === operation)!.turn;
const CONTAINER = 'kubelet/pods/pod-u1/container-app';

it('decides the same as the journal', () => {
  expect(execution.error).toBeUndefined();
  const journal = [...readJournal(GOLDEN).records];
  expect(execution.report).toMatchObject({ divergence: null, records: journal.length });
});

it('has the context that an actor had after a turn', () => {
  const context = (turn: number) => {
    const end = records.findLast((shown) => shown.turn === turn)!.n;
    return JSON.parse(execution.detail(past.at(CONTAINER, end)!, turn, end).context!);
  };
  const [before, after] = [turnOf('cri.createContainer', 'effect'), turnOf('cri.createContainer', 'result')];
  const created = records.find(({ record }) => record.k === 'result' && record.name === 'cri.createContainer')!;
  const { containerId } = (created.record as { output: { containerId: string } }).output;
  expect(JSON.stringify(context(before))).not.toContain(containerId);
  expect(JSON.stringify(context(after))).toContain(containerId);
});

it('names what a turn changed in a context', () => {
  const changes = execution.changes(CONTAINER, turnOf('cri.createContainer', 'result'))!;
  expect(changes.length).toBeGreaterThan(0);
  expect(changes.every(({ before, after }) => before !== after)).toBe(true);
  expect(execution.changes('kubelet/status', turnOf('cri.createContainer', 'result'))).toEqual([]);
});

it('names the transitions that were considered, and what their guards said', () => {
  const step = execution.step(CONTAINER, turnOf('cri.createContainer', 'result'))!;
  expect(step.event).toBe('xstate.done.actor.create');
  expect(step.edges).toMatchObject([
    { source: 'container.waiting.creating', targets: ['container.waiting.starting'], result: 'taken' },
  ]);
  const decided = past
    .all()
    .flatMap(({ address }) => records.flatMap(({ turn }) => execution.step(address, turn)?.edges ?? []));
  expect(decided.some(({ guard, result }) => guard !== undefined && result === 'taken')).toBe(true);
  expect(decided.some(({ guard, result }) => guard !== undefined && result === 'no')).toBe(true);
});

it('hides values of variables in contexts', () => {
  const texts = records.map((shown) => JSON.stringify(shown)).join();
  expect(texts).not.toContain('§');
});
