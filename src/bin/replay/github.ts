/**
 * Annotations and the summary of a step of GitHub Actions.
 *
 * Invariants: what a log says cannot end its annotation or begin another one; no more annotations than GitHub shows.
 */
import { appendFileSync } from 'node:fs';
import { messageOf } from '../../kernel/thrown.ts';
import { printable } from '../printable.ts';
import type { Outcome } from './outcome.ts';
import { describeOutcome } from './text.ts';

/** GitHub shows so many errors of one step, and drops the others without a word. */
const ANNOTATIONS_MAX = 10;

export function annotation(outcomes: readonly Outcome[]): string {
  const failed = outcomes.filter(({ verdict }) => verdict !== 'same');
  const [shown, more] =
    failed.length <= ANNOTATIONS_MAX
      ? [failed, 0]
      : [failed.slice(0, ANNOTATIONS_MAX - 1), failed.length - ANNOTATIONS_MAX + 1];
  const lines = shown.map((outcome) => errorLine(`${outcome.log}: ${outcome.verdict}`, describeOutcome(outcome)));
  if (more > 0) lines.push(errorLine('statelet replay', `${more} more logs; the summary of this step names them`));
  return lines.join('');
}

const errorLine = (title: string, text: string): string =>
  `::error title=${property(title)}::${data(text.trimEnd())}\n`;

/** As `@actions/core` escapes; what is left of control characters is made visible first. */
const data = (text: string): string =>
  printable(text).replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');

const property = (text: string): string => data(text).replaceAll(':', '%3A').replaceAll(',', '%2C');

/** GitHub names the file in the environment; elsewhere there is none. A summary that fails changes no outcome. */
export function writeStepSummary(markdown: string): void {
  const file = process.env['GITHUB_STEP_SUMMARY'];
  if (!file) return;
  try {
    appendFileSync(file, markdown);
  } catch (error) {
    process.stderr.write(`statelet replay: the summary of the step was not written: ${messageOf(error)}\n`);
  }
}
