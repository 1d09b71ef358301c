/** The report about simulated seeds: `--output text|json|junit`. */
import { printable, printableJson } from '../printable.ts';
import { inAttribute, inText } from '../replay/junit.ts';
import type { SeedOutcome } from './run-seed.ts';

/** Incremented when a field changes its meaning or is removed; fields may be added at any time. */
const REPORT_VERSION = 1;
/** Events before the first problem that are shown; the journal has all of them. */
const EVENTS_SHOWN = 12;
const PROBLEMS_SHOWN = 10;

export function describeSeed(outcome: SeedOutcome): string {
  const { seed, verdict, error, starts = 0, turns = 0, virtualMs = 0, cpuMs = 0 } = outcome;
  if (error !== undefined) return printable(`seed ${seed}: not tested: ${error}\n`);
  const facts = `${turns} turns of ${starts} starts in ${seconds(virtualMs)} of virtual time, ${seconds(cpuMs)} of CPU`;
  if (verdict === 'passed') return `seed ${seed}: passed (${facts})\n`;
  return printable(
    `seed ${seed}: ${verdict} violated (${facts})\n${detailsOf(outcome)
      .map((line) => `  ${line}\n`)
      .join('')}`,
  );
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

function detailsOf({ problems, events = [], journal, reproduce }: SeedOutcome): string[] {
  const more = problems.length - PROBLEMS_SHOWN;
  return [
    ...problems.slice(0, PROBLEMS_SHOWN).map(({ atMs, text }) => `at ${seconds(atMs)}: ${text}`),
    ...(more > 0 ? [`and ${more} more`] : []),
    'what happened last',
    ...events.slice(-EVENTS_SHOWN).map((event) => `  ${event}`),
    ...(journal === undefined ? [] : [`journal: ${journal}`]),
    ...(reproduce === undefined ? [] : [`again: ${reproduce}`]),
  ];
}

export function seedsJson(outcomes: readonly SeedOutcome[], code: number): string {
  return `${printableJson({ version: REPORT_VERSION, code, totals: totalsOf(outcomes), seeds: outcomes })}\n`;
}

const VERDICTS = ['passed', 'safety', 'liveness', 'not-tested'] as const;

const totalsOf = (outcomes: readonly SeedOutcome[]): Readonly<Record<string, number>> =>
  Object.fromEntries(VERDICTS.map((verdict) => [verdict, outcomes.filter((each) => each.verdict === verdict).length]));

export function seedsJunit(outcomes: readonly SeedOutcome[]): string {
  const count = (...wanted: readonly string[]) => outcomes.filter(({ verdict }) => wanted.includes(verdict)).length;
  const counts = `tests="${outcomes.length}" failures="${count('safety', 'liveness')}" errors="${count('not-tested')}"`;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>\n',
    `<testsuites ${counts}>\n  <testsuite name="statelet simulate" skipped="0" ${counts}>\n`,
    ...outcomes.map(testCase),
    '  </testsuite>\n</testsuites>\n',
  ].join('');
}

function testCase(outcome: SeedOutcome): string {
  const { seed, verdict, cpuMs = 0 } = outcome;
  const head = `    <testcase classname="statelet.simulate" name="seed ${seed}" time="${(cpuMs / 1_000).toFixed(3)}"`;
  if (verdict === 'passed') return `${head}/>\n`;
  const element = verdict === 'not-tested' ? 'error' : 'failure';
  const [first = '', ...rest] = describeSeed(outcome).trimEnd().split('\n');
  const body = `<${element} type="${verdict}" message="${inAttribute(first)}">${inText(rest.join('\n'))}</${element}>`;
  return `${head}>\n      ${body}\n    </testcase>\n`;
}

export function describeTotals(outcomes: readonly SeedOutcome[]): string {
  const totals = Object.entries(totalsOf(outcomes)).filter(([, count]) => count > 0);
  const cpuMs = outcomes.reduce((sum, { cpuMs: each = 0 }) => sum + each, 0);
  const counts = totals.map(
    ([verdict, count]) =>
      `${count} ${verdict === 'passed' || verdict === 'not-tested' ? verdict : `${verdict} violated`}`,
  );
  return `${outcomes.length} seeds: ${counts.join(', ')} (${seconds(cpuMs)} of CPU)\n`;
}
