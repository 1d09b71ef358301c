/** A journal that this build does not decide as it is recorded: what the page shows is from the records. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Journal, readJournal } from '../../../src/kernel/journal/reader.ts';
import type { JournalRecord } from '../../../src/kernel/records.ts';
import { answerOf } from '../../../src/visualizer/answer.ts';
import { Execution } from '../../../src/visualizer/worker/execution.ts';
import { Past } from '../../../src/visualizer/worker/past.ts';

const pathOf = (name: string): string => join(import.meta.dirname, '../../golden/journals/v4', name);

/** A journal as it is recorded, but with another digest at the end of a turn: what another build remembered. */
function divergingAt(name: string, turn: number): Journal {
  const records = [...readJournal(pathOf(name)).records].map((record): JournalRecord => {
    // Without the hashes of its machines, a journal promises all that they decided.
    if (record.k === 'header') return { ...record, build: { ...record.build, machines: {} } };
    return record.k === 'end' && record.turn === turn ? { ...record, digest: 'other' } : record;
  });
  return Object.defineProperty(readJournal(pathOf(name)), 'records', { value: records });
}

function run(journal: Journal) {
  const execution = new Execution(journal);
  const records = [...execution.run()].flat();
  const past = new Past();
  for (const shown of records) past.take(shown);
  return { execution, records, past };
}

const whole = (name: string) => run(readJournal(pathOf(name)));

describe.each([
  'node',
  'shop',
  'claims-waiting',
  'resize-pending',
  'seed-1',
  'seed-5',
  'startup-runtime-not-ready',
  'startup-runtime-refused',
  'startup-wrong-configuration',
])('from the first turns of %s on', (name) => {
  const [same, other] = [whole(name), run(divergingAt(name, 2))];

  it('the first screen is that of the machines', () => {
    const [phases, now] = [other.execution.phases(), other.records.at(-1)!.t];
    expect(phases).toEqual(same.execution.phases());
    expect(answerOf(phases, now)).toEqual(answerOf(same.execution.phases(), now));
    const withoutTimers = same.execution.pods().map(({ claims, ...pod }) => {
      const { nextTry: _nextTry, ...wait } = claims ?? {};
      return claims ? { ...pod, claims: wait } : pod;
    });
    expect(other.execution.pods()).toEqual(withoutTimers);
  });

  it('all records are shown, and all actors with their machines and states', () => {
    const kinds = ({ records }: typeof same) => records.map(({ n, t, turn, record }) => [n, t, turn, record.k]);
    expect(other.execution.recordedFrom).toBeLessThan(16);
    expect(kinds(other)).toEqual(kinds(same));
    const actors = new Map(other.past.all().map((view) => [view.address, view]));
    for (const view of same.past.all()) {
      // The machine of an actor that began and ended within one turn is known by its records only.
      if (view.machine !== '') expect(actors.get(view.address)).toEqual(view);
      actors.delete(view.address);
    }
    expect([...actors.keys()]).toEqual([]);
  });
});
