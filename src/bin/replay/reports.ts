/** The forms in which `statelet replay` reports: `--output`. Each writes after an outcome, at the end, or both. */
import type { BuildInfo } from '../../kernel/records.ts';
import { printable, printableJson } from '../printable.ts';
import { annotation, writeStepSummary } from './github.ts';
import { htmlReport } from './html.ts';
import { junitReport } from './junit.ts';
import { markdownReport } from './markdown.ts';
import { type Outcome, thisBuild, totalsOf } from './outcome.ts';
import { describeOutcome } from './text.ts';

/** Its output is safe to print. */
export interface Reporter {
  /** Gets each outcome as soon as it is its turn. */
  outcome?(outcome: Outcome): string;
  /** Gets all of them, and the exit code that they come to. */
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

/** Raised when a field changes its meaning or goes away; new fields may come at any time. */
const REPORT_VERSION = 1;

/** The report for programs in one line: `schema/replay-report.schema.json` describes it. */
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
