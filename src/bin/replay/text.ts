/** The outcome of a replay for people at a terminal. */
import { shortText } from '../../actors/server/visualizer/trim.ts';
import type { BuildInfo, JournalRecord } from '../../kernel/records.ts';
import type { Difference } from '../../kernel/replay.ts';
import { actorOf, recordText } from '../../visualizer/words.ts';
import { type Outcome, thisBuild } from './outcome.ts';

/** Characters of one value on the terminal. */
const VALUE_MAX_CHARS = 200;

export function describeOutcome(outcome: Outcome): string {
  const { log, verdict, records, turns, inputs, seconds } = outcome;
  if (verdict === 'invalid') return `${log}: cannot be replayed: ${outcome.error}\n`;
  if (verdict === 'not-tested') return `${log}: not tested: ${outcome.error}\n`;
  const size = `${records} records, ${turns} turns, ${inputs} inputs in ${seconds!.toFixed(2)} s`;
  const torn = outcome.tornBytes
    ? `  the last ${outcome.tornBytes} bytes are not a whole turn and were left out\n`
    : '';
  const head = `${log}: ${verdict} (incarnation ${outcome.incarnation}; ${size})\n${torn}`;
  return outcome.divergence ? head + describeDivergence(outcome) : head;
}

function describeDivergence({ divergence, machinesChanged = [], recordedBy, verdict }: Outcome): string {
  const { n, turn, kind, expected, actual, differences, input } = divergence!;
  const changed = machinesChanged.length > 0 ? machinesChanged.join(', ') : 'none';
  return [
    `  first difference at record ${n} of turn ${turn}: ${kind}`,
    `  the turn began with ${saidBy(input)}`,
    `  the log has  ${saidBy(expected)}`,
    `  now comes    ${saidBy(actual)}`,
    ...differences.flatMap(describeDifference),
    `  recorded by ${builtOf(recordedBy!)}; this is ${builtOf(thisBuild())}`,
    `  machines whose definition changed since the log: ${changed}`,
    ...(verdict === 'non-deterministic'
      ? ['  a second replay differed in another way: the code is not deterministic']
      : ['  the whole records: --output json']),
    '',
  ].join('\n');
}

const describeDifference = ({ path, expected, actual }: Difference): string[] => [
  `  ${path}`,
  `      log  ${valueText(expected)}`,
  `      now  ${valueText(actual)}`,
];

const valueText = (value: unknown): string =>
  value === undefined ? 'nothing' : shortText(JSON.stringify(value), VALUE_MAX_CHARS);

/** One line for people: which record, of whom, what it says. */
function saidBy(record: JournalRecord | null): string {
  if (record === null) return 'nothing';
  if (record.k === 'dropped' || record.k === 'gap') return `record ${record.n}, ${record.k}`;
  const said = shortText(recordText(record), VALUE_MAX_CHARS);
  return `record ${record.n}, ${[record.k, actorOf(record)].filter(Boolean).join(' ')}: ${said}`;
}

const builtOf = ({ statelet, node, xstate }: BuildInfo): string =>
  `Statelet ${statelet} (XState ${xstate}, Node ${node})`;
