/** A journal that is read: the page shows the same by its records as by the machines. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { KernelFeed, shown } from '../../../src/actors/server/visualizer/feed.ts';
import type { ShownRecord } from '../../../src/actors/server/visualizer/protocol.ts';
import { replayOptions } from '../../../src/bin/insight/replayed.ts';
import { type Journal, readJournal } from '../../../src/kernel/journal/reader.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import type { JournalRecord, KernelRecord } from '../../../src/kernel/records.ts';
import { replay } from '../../../src/kernel/replay.ts';
import { answerOf } from '../../../src/visualizer/answer.ts';
import { Execution } from '../../../src/visualizer/worker/execution.ts';
import { Past } from '../../../src/visualizer/worker/past.ts';
import { Reading } from '../../../src/visualizer/worker/reading.ts';

const JOURNALS = join(import.meta.dirname, '../../golden/journals/v4');
const journalOf = (name: string): Journal => readJournal(join(JOURNALS, name));

interface Seen {
  readonly records: readonly ShownRecord[];
  readonly phases: ReturnType<KernelFeed['phases']>;
  readonly pods: ReturnType<KernelFeed['podList']>;
  readonly drivers: ReturnType<KernelFeed['drivers']>;
}

/** The machines' states in the journal's own turns, because this build may have more states. */
function byMachines(journal: Journal): Seen {
  const records: ShownRecord[] = [];
  let ran: Kernel | undefined;
  const feed = new KernelFeed({
    now: () => ran?.now ?? 0,
    onSeen: (turn) => records.push(...turn.records.map(shown)),
  });
  const own = [...journal.records].filter((record): record is KernelRecord => record.k !== 'gap');
  const ends = own.flatMap((record, at) => (record.k === 'end' ? [at + 1] : []));
  const turns = ends.map((end, turn) => own.slice(ends[turn - 1] ?? 0, end)).values();
  const onTurn = (_: readonly KernelRecord[], kernel: Kernel): void => {
    ran = kernel;
    feed.onTurn(turns.next().value ?? [], kernel);
  };
  replay({ ...replayOptions(journal), onTurn });
  return { records, phases: feed.phases(), pods: feed.podList(), drivers: feed.drivers() };
}

function byRecords(journal: Journal): Seen & { readonly reading: Reading } {
  const reading = new Reading(journal);
  const records = [...reading.run()].flat();
  return { reading, records, phases: reading.phases(), pods: reading.pods(), drivers: reading.drivers() };
}

function actorsOf({ records }: Seen) {
  const past = new Past();
  for (const each of records) past.take(each);
  return new Map(past.all().map((view) => [view.address, view]));
}

const withoutTries = ({ pods }: Seen) =>
  pods.map(({ claims, ...pod }) => {
    const { nextTry: _nextTry, ...wait } = claims ?? {};
    return claims ? { ...pod, claims: wait } : pod;
  });

// The machines of the shop do not belong to a node.
const NAMES = readdirSync(JOURNALS).filter((name) => name !== 'shop');

describe.each(NAMES)('%s', (name) => {
  const journal = journalOf(name);
  const [read, ran] = [byRecords(journal), byMachines(journal)];

  it('has the first screen of the machines', () => {
    expect(read.reading.error).toBeUndefined();
    expect(read.phases).toEqual(ran.phases);
    const now = ran.records.at(-1)!.t;
    expect(answerOf(read.phases, now)).toEqual(answerOf(ran.phases, now));
    expect(withoutTries(read)).toEqual(withoutTries(ran));
  });

  it('has all records, and all actors with their machines and states', () => {
    const kinds = ({ records }: Seen) => records.map(({ n, t, turn, cause, record }) => [n, t, turn, cause, record.k]);
    expect(kinds(read)).toEqual(kinds(ran));
    const actors = actorsOf(read);
    expect([...actors.keys()].toSorted()).toEqual([...actorsOf(ran).keys()].toSorted());
    // The machine of an actor that began and ended within one turn is known only by its records.
    const lasting = [...actorsOf(ran)].filter(([, view]) => view.machine !== '');
    expect(lasting.map(([address]) => [address, actors.get(address)])).toEqual(lasting);
  });

  it('has the rest when the machines have come to its end', () => {
    const execution = new Execution(journal);
    for (const _turn of execution.run());
    expect(execution.ranTo).toBe(ran.records.at(-1)!.n);
    read.reading.kernel.ran = execution.kernel;
    expect(read.reading.pods()).toEqual(ran.pods);
    expect(read.reading.drivers()).toEqual(ran.drivers);
    expect(read.reading.phases()).toEqual(ran.phases);
  });
});

it('of another build is run up to the turn that differs', () => {
  const journal = journalOf('node');
  // Without the hashes of its machines, a journal promises all of their decisions.
  const records = [...journal.records].map((record): JournalRecord => {
    return record.k === 'header' ? { ...record, build: { ...record.build, machines: {} } } : record;
  });
  const execution = new Execution(Object.defineProperty(journal, 'records', { value: records }));
  for (const _turn of execution.run());
  expect(execution.report?.divergence?.n).toBe(execution.unknownFrom);
  const ends = records.filter((record) => record.k === 'end').map((record) => record.n);
  expect([-1, ...ends]).toContain(execution.ranTo);
  expect(execution.unknownFrom! - execution.ranTo).toBeLessThan(16);
  expect(byRecords(journal).records.length).toBe(records.length);
});

it('ends at a gap, and says so', () => {
  const journal = journalOf('node');
  const records = [...journal.records];
  const at = records.findIndex((record) => record.k === 'end' && record.turn === 20);
  const gap: JournalRecord = { k: 'gap', n: records[at]!.n + 1, upto: records[at]!.n + 9, why: 'the disk is full' };
  Object.defineProperty(journal, 'records', { value: [...records.slice(0, at + 1), gap, ...records.slice(at + 10)] });
  const { reading, records: seen } = byRecords(journal);
  expect(seen.at(-1)!.n).toBe(records[at]!.n);
  expect(reading.error).toMatch(/^it was suspended at record \d+ \(the disk is full\)/);
});
