/** The forms in which `statelet replay` reports: `--output`. Each writes after an outcome, at the end, or both. */

import { appendFileSync } from 'node:fs';
import type { BuildInfo } from '../../kernel/records.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { printable, printableJson } from '../printable.ts';
import { htmlReport } from './html.ts';
import { junitReport } from './junit.ts';
import { markdownReport } from './markdown.ts';
import { type Outcome, thisBuild, totalsOf } from './outcome.ts';
import { describeOutcome } from './text.ts';

/** The output is safe to print on a terminal. */
export interface Reporter {
  /** Receives each outcome, in the order of the logs. */
  outcome?(outcome: Outcome): string;
  /** Receives all outcomes, and the resulting exit code. */
  end?(outcomes: readonly Outcome[], code: number): string;
}

const inText = (outcome: Outcome): string => printable(describeOutcome(outcome));

const reporters: Readonly<Record<string, () => Reporter>> = {
  text: () => ({ outcome: inText }),
  json: () => ({ end: jsonReport }),
  junit: () => ({ end: junitReport }),
  markdown: () => ({ end: markdownReport }),
  html: () => ({ end: htmlReport }),
  github: () => ({ outcome: inText, end: inGithub }),
};

export const FORMATS = Object.keys(reporters).join('|');

export const reporterFor = (format: string): Reporter | undefined =>
  Object.hasOwn(reporters, format) ? reporters[format]?.() : undefined;

function inGithub(outcomes: readonly Outcome[]): string {
  writeStepSummary(markdownReport(outcomes));
  return annotation(outcomes);
}

/** Incremented when a field changes its meaning or is removed; fields may be added at any time. */
const REPORT_VERSION = 1;

/** The machine-readable report in one line: see `schema/replay-report.schema.json`. */
function jsonReport(outcomes: readonly Outcome[], code: number): string {
  const report = {
    version: REPORT_VERSION,
    build: builtBy(thisBuild()),
    code,
    totals: totalsOf(outcomes),
    logs: outcomes.map(({ recordedBy, ...outcome }) => ({
      ...outcome,
      ...(recordedBy ? { recordedBy: builtBy(recordedBy) } : {}),
    })),
  };
  return `${printableJson(report)}\n`;
}

const builtBy = ({ statelet, node, xstate }: BuildInfo) => ({ statelet, node, xstate });

/** GitHub silently drops further errors of one step. */
const ANNOTATIONS_MAX = 10;

function annotation(outcomes: readonly Outcome[]): string {
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

/** Escaped as by `@actions/core`, after remaining control characters are made visible. */
const data = (text: string): string =>
  printable(text).replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');

const property = (text: string): string => data(text).replaceAll(':', '%3A').replaceAll(',', '%2C');

/** GitHub names the file in the environment. A failure to write the summary changes no outcome. */
function writeStepSummary(markdown: string): void {
  const file = process.env['GITHUB_STEP_SUMMARY'];
  if (!file) return;
  try {
    appendFileSync(file, markdown);
  } catch (error) {
    process.stderr.write(`statelet replay: the summary of the step was not written: ${messageOf(error)}\n`);
  }
}
