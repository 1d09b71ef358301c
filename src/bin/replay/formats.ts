/**
 * The forms of a replay's report: text for a terminal, an HTML page, and JUnit XML. HTML: totals, a row for each log,
 * and its first difference in full. It is one file without scripts and external resources, so a CI can keep it as an
 * artifact. JUnit: one test suite, a test case for each log. A difference is a failure; a log that could not be
 * compared is an error.  Invariants: in HTML, contents of a log are text, never markup; XML is well-formed XML 1.0,
 * which cannot express most control characters, half a surrogate pair, and U+FFFE and U+FFFF.
 */
import { shortText } from '../../actors/server/visualizer/trim.ts';
import type { Difference, Divergence, Mismatch } from '../../kernel/divergence.ts';
import type { BuildInfo, JournalRecord } from '../../kernel/records.ts';
import { actorOf, duration, eventText, recordText, stateText } from '../../visualizer/words.ts';
import { printable } from '../printable.ts';
import { type Outcome, thisBuild, totalsOf } from './outcome.ts';

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

const DETAILS_MAX = 200;
const DETAIL_MAX_CHARS = 20_000;
const CELL_MAX_CHARS = 300;

const STYLE = `
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
th, td { padding: .35rem .6rem; text-align: left; }
td { overflow-wrap: anywhere; vertical-align: top; }
pre { overflow-x: auto; padding: 1rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
.same { color: light-dark(#0a6b2d, #6fdc95); }
.other { color: light-dark(#a3170f, #ff9a90); font-weight: 600; }
`;

export function htmlReport(outcomes: readonly Outcome[]): string {
  const counts = Object.entries(totalsOf(outcomes)).filter(([, count]) => count > 0);
  const totals = counts.map(([verdict, count]) => `${count} ${verdict}`).join(', ') || 'no log';
  const found = outcomes.filter(({ verdict }) => verdict !== 'same');
  return [
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">\n`,
    `<title>statelet replay: ${inText(totals)}</title>\n<style>${STYLE}</style>\n</head>\n<body>\n<main>\n`,
    `<h1>statelet replay: ${inText(totals)}</h1>\n`,
    '<table>\n<caption>Every log</caption>\n<thead><tr><th scope="col">Log</th><th scope="col">Outcome</th>',
    '<th scope="col">Code</th><th scope="col">First difference</th></tr></thead>\n<tbody>\n',
    ...outcomes.map(rowOf),
    '</tbody>\n</table>\n',
    ...found.slice(0, DETAILS_MAX).map(detailsOf),
    found.length > DETAILS_MAX ? `<p>${found.length - DETAILS_MAX} more logs are not the same.</p>\n` : '',
    '</main>\n</body>\n</html>\n',
  ].join('');
}

function rowOf({ log, verdict, code, error, divergence }: Outcome): string {
  const summary = divergence ? `record ${divergence.n} of turn ${divergence.turn}: ${divergence.kind}` : (error ?? '');
  const cssClass = verdict === 'same' ? 'same' : 'other';
  const cells = [
    `<td>${cell(log)}</td>`,
    `<td class="${cssClass}">${verdict}</td>`,
    `<td>${code}</td>`,
    `<td>${cell(summary)}</td>`,
  ];
  return `<tr>${cells.join('')}</tr>\n`;
}

const detailsOf = (outcome: Outcome): string =>
  `<section>\n<h2>${cell(outcome.log)}</h2>\n<pre tabindex="0">${inText(shortText(describeOutcome(outcome).trimEnd(), DETAIL_MAX_CHARS))}</pre>\n</section>\n`;

const cell = (content: string): string => inText(shortText(content, CELL_MAX_CHARS));

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\n': '&#10;',
  '\t': '&#9;',
};

const escaped = (character: string): string => ESCAPES[character] ?? character;
const allowed = (text: string): string =>
  printable(text)
    .toWellFormed()
    .replace(/[\uFFFE\uFFFF]/g, '\uFFFD');
export const inText = (text: string): string => allowed(text).replace(/[&<>]/g, escaped);
export const inAttribute = (text: string): string => allowed(text).replace(/[&<>"\n\t]/g, escaped);

export function junitReport(outcomes: readonly Outcome[]): string {
  const totals = totalsOf(outcomes);
  const failures = totals.divergence + totals['non-deterministic'];
  const errors = totals.invalid + totals['not-tested'];
  const seconds = outcomes.reduce((sum, { seconds: one = 0 }) => sum + one, 0);
  const counts = `tests="${outcomes.length}" failures="${failures}" errors="${errors}" time="${seconds.toFixed(3)}"`;
  return junitSuite('statelet replay', counts, outcomes.map(testCase));
}

export const junitSuite = (name: string, counts: string, cases: readonly string[]): string =>
  [
    '<?xml version="1.0" encoding="UTF-8"?>\n',
    `<testsuites ${counts}>\n  <testsuite name="${name}" skipped="0" ${counts}>\n`,
    ...cases,
    '  </testsuite>\n</testsuites>\n',
  ].join('');

function testCase(outcome: Outcome): string {
  const { log, verdict, seconds = 0 } = outcome;
  const attributes = `classname="statelet.replay" name="${inAttribute(log)}" time="${seconds.toFixed(3)}"`;
  if (verdict === 'same') return passedCase(attributes);
  const element = verdict === 'divergence' || verdict === 'non-deterministic' ? 'failure' : 'error';
  return failedCase(attributes, element, verdict, describeOutcome(outcome));
}

export const passedCase = (attributes: string): string => `    <testcase ${attributes}/>\n`;

/** The first line of the report is the message, the others are the text. */
export function failedCase(attributes: string, element: 'failure' | 'error', type: string, report: string): string {
  const [first = '', ...rest] = report.trimEnd().split('\n');
  const body = `<${element} type="${type}" message="${inAttribute(first)}">${inText(rest.join('\n'))}</${element}>`;
  return `    <testcase ${attributes}>\n      ${body}\n    </testcase>\n`;
}
