/**
 * Counts the decisions for the start of a pod: inputs, records, events of XState, digests, CRI calls. The run is in the
 * world of the tests and the counts are no times, so they are equal on every machine and under any load.
 *
 *   node bench/decisions.ts [--pods 1,30] [--kinds 15]
 *
 * Below the counts are the kinds of records with the most bytes, for the last number of pods.
 */
import { parseArgs } from 'node:util';
import { type Decisions, decisionsOf } from '../test/support/decisions.ts';
import { printTable } from './statistics.ts';

const { values: flags } = parseArgs({
  options: { pods: { type: 'string', default: '1,30' }, kinds: { type: 'string', default: '15' } },
});
const crowds = flags.pods.split(',').map(Number);

const LABELS: Readonly<Record<keyof Decisions, string>> = {
  inputs: 'inputs, each a turn',
  records: 'records',
  messages: 'messages between actors',
  states: 'changes of state',
  requests: 'requests to the world',
  criCalls: 'of them calls of CRI',
  criReads: 'of them reads',
  journalBytes: 'journal, bytes of its lines',
  macrosteps: 'events that XState took',
  microsteps: 'steps that it made',
  digested: 'contexts digested',
  digestedUnchanged: 'of them unchanged',
};

const shown = (count: number): string => String(Number(count.toFixed(1)));

const results = crowds.map(decisionsOf);
const rows = Object.entries(LABELS).map(([name, label]) => [
  label,
  ...results.map(({ each }) => shown(each[name as keyof Decisions])),
]);
printTable(['a pod', ...crowds.map((pods) => `${pods} at once`)], rows);

const pods = crowds.at(-1)!;
const largest = [...results.at(-1)!.kinds].toSorted(([, a], [, b]) => b.bytes - a.bytes);
const kinds = largest.slice(0, Number(flags.kinds));
console.log();
printTable(
  ['records of a kind', 'a pod', 'bytes a pod'],
  kinds.map(([kind, { count, bytes }]) => [kind, shown(count / pods), (bytes / pods).toFixed(0)]),
);
