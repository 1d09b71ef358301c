/** The report of a replay on the first turn that differs: the record, the actor, its state, and the causes. */
import { expect, it } from 'vitest';
import type { Divergence } from '../../src/kernel/divergence.ts';
import type { KernelRecord } from '../../src/kernel/records.ts';
import { type ReplayOptions, replay } from '../../src/kernel/replay.ts';
import { bootBoss, bossMachine } from './support.ts';

type From = NonNullable<ReplayOptions['from']>;

/** A worker is hired, makes a chair and reports it. `from`: the records after the order. */
function recorded(): { records: KernelRecord[]; from: From } {
  const { kernel, world, sink } = bootBoss();
  kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
  kernel.dispatch('boss', { type: 'order', name: 'a' }, 'test');
  const from = { checkpoint: kernel.checkpoint(), header: sink.records[0] as never };
  world.answer('world.make', { output: { made: 'chair' } });
  kernel.dispatch('boss', { type: 'hire', name: 'b' }, 'test');
  return { records: sink.records, from };
}

type Loose = KernelRecord & Record<string, unknown>;
const isLine = ({ k }: KernelRecord): boolean => k === 'log';
const isMade = (record: KernelRecord): boolean => record.k === 'message' && record.event.type === 'worker.made';

/** As recorded by code that did not produce this record; all later numbers are smaller. */
function without(records: readonly KernelRecord[], where: (record: KernelRecord) => boolean): KernelRecord[] {
  const gone = records.find(where)!.n;
  const less = (n: number): number => (n > gone ? n - 1 : n);
  return records
    .filter(({ n }) => n !== gone)
    .map((record) => {
      const moved = { ...record, n: less(record.n) } as Loose & { cause?: number };
      return moved.cause === undefined ? moved : { ...moved, cause: less(moved.cause) };
    });
}

/** As recorded by code that produced one more record; all later numbers are greater. */
function withOneMore(records: readonly KernelRecord[], where: (record: KernelRecord) => boolean, more: object) {
  const at = records.find(where)!.n;
  const later = (n: number): number => (n >= at ? n + 1 : n);
  const moved = records.map((record) => {
    const { cause } = record as { cause?: number };
    return { ...record, n: later(record.n), ...(cause === undefined ? {} : { cause: later(cause) }) };
  });
  return [...moved.slice(0, at), { ...more, n: at }, ...moved.slice(at)] as KernelRecord[];
}

function divergenceOf(records: readonly KernelRecord[], from?: From): Divergence {
  const options = from ? { from, records: records.slice(from.checkpoint.n) } : { records };
  return replay({ machine: bossMachine, ...options }).divergence!;
}

it('a record that the log lacks is extra, and what follows it is the same', () => {
  const { records } = recorded();
  expect(divergenceOf(without(records, isLine))).toMatchObject({
    kind: 'extra',
    expected: null,
    actual: { k: 'log', text: 'made a thing' },
    actors: ['boss/worker-a'],
    state: 'making',
    behind: [],
  });
});

it('a record that does not come any more is missing, and what follows it is the same', () => {
  const { records } = recorded();
  const more = { k: 'log', at: 'boss', level: 'info', text: 'paid for it' };
  const { n } = records.find(isMade)!;
  expect(divergenceOf(withOneMore(records, isMade, more))).toMatchObject({
    n,
    kind: 'missing',
    expected: more,
    actual: null,
    actors: ['boss'],
    state: 'opening',
    behind: [],
  });
});

it('a message that changed is its sender’s, with its path and the records that led there', () => {
  const { records } = recorded();
  const made = structuredClone(records.find(isMade)!) as Loose;
  Object.assign(made['event'] as object, { name: 'z' });
  const changed = records.map((record) => (record.n === made.n ? made : record));
  const divergence = divergenceOf(changed);
  expect(divergence).toMatchObject({
    kind: 'different',
    actors: ['boss/worker-a'],
    state: 'making',
    differences: [{ path: '.event.name', expected: 'z', actual: 'a' }],
  });
  expect(divergence.chain.map(({ n }) => n)).toEqual([(made as { cause?: number }).cause, made.n]);
  expect(divergence.chain[0]).toBe(divergence.input);
});

it('a chain of several records begins with the input', () => {
  const { records } = recorded();
  const isRequest = (record: KernelRecord): boolean => record.k === 'effect' && record.name === 'world.make';
  const { chain, actors } = divergenceOf(without(records, isRequest));
  expect(chain.map(({ k }) => k)).toEqual(['in', 'message', 'effect']);
  expect(actors).toEqual(['boss/worker-a']);
});

it('several differences of one turn are told in their order, each for itself', () => {
  const { records } = recorded();
  const line = records.find(isLine)!;
  const changed = without(records, isMade).map((record) =>
    record.n === line.n && record.k === 'log' ? { ...record, text: 'z' } : record,
  );
  const { kind, n, behind } = divergenceOf(changed);
  expect([kind, n]).toEqual(['different', line.n]);
  expect(behind.map((mismatch) => [mismatch.kind, mismatch.actual?.k])).toEqual([['extra', 'message']]);
});

it.each([
  [0, 'boss', '.context.made'],
  [1, 'boss/worker-a', '.context.done.0'],
])('where only digest %i of a turn differs, it names its actor and what changes in it', (at, actor, change) => {
  const { records } = recorded();
  const other = (digest: string): string => `${digest.slice(0, 6 * at)}zzzzzz${digest.slice(6 * at + 6)}`;
  const changed = records.map((record) =>
    record.k === 'end' && record.turn === 3 ? { ...record, digest: other(record.digest) } : record,
  );
  const divergence = divergenceOf(changed);
  expect(divergence).toMatchObject({ kind: 'digest', actors: [actor] });
  expect(divergence.changes).toContain(change);
});

it('where a turn has more digests than today, it names who heard or said something', () => {
  const { records } = recorded();
  const changed = records.map((record) =>
    record.k === 'end' && record.turn === 3 ? { ...record, digest: `${record.digest}zzzzzz` } : record,
  );
  expect(divergenceOf(changed)).toMatchObject({ kind: 'digest', actors: ['boss/worker-a', 'boss'] });
});

it('states are known from a checkpoint, too', () => {
  const { records, from } = recorded();
  const changed = records.map((record) => (record.k === 'log' ? { ...record, text: 'z' } : record));
  expect(divergenceOf(changed, from)).toMatchObject({ kind: 'different', actors: ['boss/worker-a'], state: 'making' });
});

it('a timer that is set for another time is a deadline, with whose it is', () => {
  const { records } = recorded();
  const before = records.find((record) => record.k === 'end' && record.armed !== undefined)!;
  const armed = (before as { armed: Record<string, number> }).armed;
  const [id, ms] = Object.entries(armed)[0]!;
  const slower = records.map((record) =>
    record === before ? { ...record, armed: { ...armed, [id]: ms - 4_000 } } : record,
  );
  expect(divergenceOf(slower as KernelRecord[])).toMatchObject({
    kind: 'deadline',
    n: before.n,
    actors: ['boss/worker-a'],
    differences: [{ path: `.armed.${id}`, expected: ms - 4_000, actual: ms }],
    timers: [{ id: Number(id), target: 'boss/worker-a' }],
  });
});
