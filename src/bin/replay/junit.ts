/**
 * JUnit XML: one test suite, a test case for each log. A difference is a failure; a log that could not be compared is
 * an error.
 *
 * Invariant: the text is well-formed XML 1.0, which has no form for most control characters, half a surrogate pair, and
 * U+FFFE and U+FFFF.
 */
import { printable } from '../printable.ts';
import { type Outcome, totalsOf } from './outcome.ts';
import { describeOutcome } from './text.ts';

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
  return [
    '<?xml version="1.0" encoding="UTF-8"?>\n',
    `<testsuites ${counts}>\n`,
    `  <testsuite name="statelet replay" skipped="0" ${counts}>\n`,
    ...outcomes.map(testCase),
    '  </testsuite>\n</testsuites>\n',
  ].join('');
}

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
