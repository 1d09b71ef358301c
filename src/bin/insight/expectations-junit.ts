/** Expectations as JUnit XML: a test suite a log, a test case an expectation; a log that cannot be read is an error. */
import { inAttribute, inText } from '../replay/junit.ts';
import type { ExpectedLog, Finding } from './expectations.ts';

export function expectationsJunit(logs: readonly ExpectedLog[]): string {
  const suites = logs.map((log) => suiteOf(log));
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n${suites.join('')}</testsuites>\n`;
}

function suiteOf({ log, error, findings = [] }: ExpectedLog): string {
  const failures = findings.filter(({ verdict }) => verdict !== 'holds').length;
  const errors = error === undefined ? 0 : 1;
  const counts = `tests="${findings.length + errors}" failures="${failures}" errors="${errors}" skipped="0"`;
  const broken = error === undefined ? '' : caseOf('the log is read', `<error message="${inAttribute(error)}"/>`);
  const cases = findings.map((finding) => caseOf(finding.expected, failureOf(finding)));
  return `  <testsuite name="${inAttribute(log)}" ${counts}>\n${broken}${cases.join('')}  </testsuite>\n`;
}

function caseOf(name: string, failure: string): string {
  const head = `    <testcase classname="statelet.expect" name="${inAttribute(name)}"`;
  return failure === '' ? `${head}/>\n` : `${head}>\n      ${failure}\n    </testcase>\n`;
}

function failureOf({ verdict, actual, n }: Finding): string {
  if (verdict === 'holds') return '';
  const where = n === undefined ? '' : `record ${n}`;
  return `<failure type="${verdict}" message="${inAttribute(actual)}">${inText(where)}</failure>`;
}
