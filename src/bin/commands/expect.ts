/** `statelet expect FILE LOG…`: checks whether each start meets the expectations in the file. */
import { readFileSync } from 'node:fs';
import { DocumentError, decodeDocument } from '../../actors/host/manifests/document.ts';
import { JournalError } from '../../kernel/journal/errors.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { journalAt, refuse, startIsGone } from '../insight/command.ts';
import type { Expectations, ExpectedLog, Finding, Verdict } from '../insight/expectations.ts';
import { ExpectationsError, expectationsIn, findingsOf } from '../insight/expectations.ts';
import { Story } from '../insight/story.ts';
import { printable, printableJson } from '../printable.ts';
import { inAttribute, inText } from '../replay/formats.ts';
import { logsOf } from '../replay/logs.ts';
import { worstOf } from '../replay/outcome.ts';

export interface ExpectOptions {
  readonly incarnation?: string;
  readonly output: string;
}

const FORMATS: Readonly<Record<string, (logs: readonly ExpectedLog[]) => string>> = {
  text: (logs) => printable(logs.map(describe).join('')),
  json: (logs) => logs.map((log) => `${printableJson(log)}\n`).join(''),
  junit: expectationsJunit,
};

export function expectCommand(file: string, named: readonly string[], options: ExpectOptions): number {
  const { output, incarnation } = options;
  const format = FORMATS[output];
  if (!format) {
    const forms = Object.keys(FORMATS).join(', ');
    return refuse('expect', `--output is one of ${forms}, not ${JSON.stringify(output)}`, exitCodes.usage);
  }
  const expectations = read(file);
  if (typeof expectations === 'string') return refuse('expect', `${file}: ${expectations}`, exitCodes.usage);
  const logs = logsOf(named).map((log) => judged(log, incarnation, expectations));
  process.stdout.write(format(logs));
  return worstOf(logs.map(({ code }) => code));
}

function read(file: string): Expectations | string {
  try {
    return expectationsIn(decodeDocument(readFileSync(file)));
  } catch (thrown) {
    if (thrown instanceof ExpectationsError || thrown instanceof DocumentError || isErrno(thrown))
      return thrown.message;
    throw thrown;
  }
}

/** The file cannot be read. */
const isErrno = (thrown: unknown): thrown is Error => thrown instanceof Error && 'errno' in thrown;

function judged(log: string, incarnation: string | undefined, expectations: Expectations): ExpectedLog {
  try {
    const story = new Story(journalAt(log, incarnation));
    const gone = startIsGone(story);
    if (gone !== undefined) return { log, code: exitCodes.expectationMissing, error: gone };
    const findings = findingsOf(expectations, story);
    return {
      log,
      code: worstOf(findings.map(({ verdict }) => CODES[verdict])),
      incarnation: story.header.incarnation,
      findings,
    };
  } catch (thrown) {
    if (!(thrown instanceof JournalError)) throw thrown;
    return { log, code: exitCodeOf(thrown), error: thrown.message };
  }
}

const CODES: Readonly<Record<Verdict, number>> = {
  holds: exitCodes.same,
  missing: exitCodes.expectationMissing,
  late: exitCodes.budgetExceeded,
  violated: exitCodes.safetyViolated,
};

function describe({ log, error, incarnation, findings = [] }: ExpectedLog): string {
  if (error !== undefined) return `${log}: ${error}\n`;
  const passed = findings.filter(({ verdict }) => verdict === 'holds').length;
  const lines = findings.map(({ verdict, expected, actual, n }) => {
    const where = verdict === 'holds' || n === undefined ? '' : ` (record ${n})`;
    return `  ${verdict.padEnd(8)}  ${expected}: ${actual}${where}\n`;
  });
  return `${log}: ${passed} of ${findings.length} expectations hold (incarnation ${incarnation})\n${lines.join('')}`;
}

/**
 * Expectations as JUnit XML: one test suite per log, one test case per expectation. A log that cannot be read is an
 * error.
 */
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
