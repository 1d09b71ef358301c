/** The outcome of a replay as text for a terminal. */
import { shortText } from '../../actors/server/visualizer/trim.ts';
import type { Difference, Divergence, Mismatch } from '../../kernel/divergence.ts';
import type { BuildInfo, JournalRecord } from '../../kernel/records.ts';
import { actorOf, duration, eventText, recordText, stateText } from '../../visualizer/words.ts';
import { type Outcome, thisBuild } from './outcome.ts';

/** The maximum length of one value, in characters. */
const VALUE_MAX_CHARS = 200;
/** Limits of lists; the JSON has all items. */
const CHANGES_SHOWN = 5;
const ACTORS_SHOWN = 8;
const MACHINES_SHOWN = 12;
const CHAIN_SHOWN = 12;
const BEHIND_SHOWN = 5;

export function describeOutcome(outcome: Outcome): string {
  const { log, verdict, records, turns, inputs, seconds } = outcome;
  if (verdict === 'invalid') return `${log}: cannot be replayed: ${outcome.error}\n`;
  if (verdict === 'not-tested') return `${log}: not tested: ${outcome.error}\n`;
  const size = `${records} records, ${turns} turns, ${inputs} inputs in ${(seconds ?? 0).toFixed(2)} s`;
  const torn = outcome.tornBytes
    ? `  the last ${outcome.tornBytes} bytes are not a whole turn and were left out\n`
    : '';
  const head = `${log}: ${verdict} (incarnation ${outcome.incarnation}; ${size})\n${torn}`;
  const notes = describeNotes(outcome);
  return outcome.divergence ? head + notes + describeDivergence(outcome, outcome.divergence) : head + notes;
}

/** A machine that differs from the recorded one differs in many turns; only the first is shown. */
function describeNotes({ notes = [], noted = 0, machinesChanged = [] }: Outcome): string {
  const [first] = notes;
  if (first === undefined) return '';
  return [
    `  ${noted} ${noted === 1 ? 'note' : 'notes'} of what machines tell each other, which the world does not see`,
    `    machines that are not the recorded ones: ${few(machinesChanged, MACHINES_SHOWN)}`,
    `    the first at record ${first.n} of turn ${first.turn}: ${first.kind}: ${recordLine(first.record)}`,
    '    --strict counts them as differences',
    '',
  ].join('\n');
}

function describeDivergence(outcome: Outcome, divergence: Divergence): string {
  const { machinesChanged = [], recordedBy, verdict, reproduce } = outcome;
  const { n, turn, kind, expected, actual, differences, input, chain, behind } = divergence;
  const changed = machinesChanged.length > 0 ? few(machinesChanged, MACHINES_SHOWN) : 'none';
  return [
    `  first difference at record ${n} of turn ${turn}: ${kind}`,
    ...describeActors(divergence),
    `  the turn began with ${recordLine(input)}`,
    `  the log has  ${recordLine(expected)}`,
    `  now comes    ${recordLine(actual)}`,
    ...(kind === 'deadline' ? describeTimers(divergence) : differences.flatMap(describeDifference)),
    ...(chain.length > 2 ? ['  what led there', ...describeChain(chain)] : []),
    ...(behind.length > 0 ? ['  behind it in the turn', ...describeBehind(behind)] : []),
    `  recorded by ${recordedBy ? builtOf(recordedBy) : 'an unknown build'}; this is ${builtOf(thisBuild())}`,
    `  machines whose definition or functions changed since the log: ${changed}`,
    ...(verdict === 'non-deterministic'
      ? ['  a second replay differed in another way: the code is not deterministic']
      : ['  the whole records: --output json']),
    `  again: ${reproduce}`,
    '',
  ].join('\n');
}

function describeActors({ kind, actors, state, changes = [] }: Divergence): string[] {
  const [actor, ...others] = actors;
  if (actor === undefined) return [];
  if (kind === 'digest' && others.length > 0) {
    return [`  every record is the same, and one of these remembers something else: ${few(actors, ACTORS_SHOWN)}`];
  }
  const was = state === undefined ? 'which began in this turn' : `in ${shortText(stateText(state), VALUE_MAX_CHARS)}`;
  if (kind !== 'digest') return [`  by ${actor}, ${was}`];
  const where = changes.length === 0 ? [] : [`  the turn changes now ${few(changes, CHANGES_SHOWN)}`];
  return [`  by ${actor}, ${was}; it remembers something else`, ...where];
}

/** Deadlines in milliseconds after the turn. A timer that exists only in the log has no name here. */
const describeTimers = ({ differences, timers = [] }: Divergence): string[] =>
  differences.flatMap(({ path, expected, actual }) => {
    const timer = timers.find(({ id }) => path === `.armed.${id}`);
    const name = timer ? `the timer ${eventText(timer.event.type)} of ${timer.target}` : `timer ${path}`;
    return [`  ${name}`, `      log  ${waitText(expected)}`, `      now  ${waitText(actual)}`];
  });

const waitText = (ms: unknown): string => (typeof ms === 'number' ? `in ${duration(ms)}` : 'not set');

/** Shows the beginning and the end of a long chain. */
function describeChain(chain: readonly JournalRecord[]): string[] {
  const lines = chain.map((record) => `      ${recordLine(record)}`);
  if (lines.length <= CHAIN_SHOWN) return lines;
  const omission = `      … ${lines.length - CHAIN_SHOWN} more …`;
  return [...lines.slice(0, CHAIN_SHOWN / 2), omission, ...lines.slice(-CHAIN_SHOWN / 2)];
}

function describeBehind(behind: readonly Mismatch[]): string[] {
  const lines = behind.map(({ kind, expected, actual }) => `      ${kind}: ${recordLine(expected ?? actual)}`);
  return lines.length > BEHIND_SHOWN
    ? [...lines.slice(0, BEHIND_SHOWN), `      … ${lines.length - BEHIND_SHOWN} more …`]
    : lines;
}

const few = (names: readonly string[], most: number): string =>
  names.length > most ? `${names.slice(0, most).join(', ')} … ${names.length - most} more` : names.join(', ');

const describeDifference = ({ path, expected, actual }: Difference): string[] => [
  `  ${path}`,
  `      log  ${valueText(expected)}`,
  `      now  ${valueText(actual)}`,
];

const valueText = (value: unknown): string =>
  value === undefined ? 'nothing' : shortText(JSON.stringify(value), VALUE_MAX_CHARS);

/** One line: the record, its actor, its text. */
function recordLine(record: JournalRecord | null): string {
  if (record === null) return 'nothing';
  if (record.k === 'dropped' || record.k === 'gap') return `record ${record.n}, ${record.k}`;
  const content = shortText(recordText(record), VALUE_MAX_CHARS);
  return `record ${record.n}, ${[record.k, actorOf(record)].filter(Boolean).join(' ')}: ${content}`;
}

const builtOf = ({ statelet, node, xstate }: BuildInfo): string =>
  `Statelet ${statelet} (XState ${xstate}, Node ${node})`;
