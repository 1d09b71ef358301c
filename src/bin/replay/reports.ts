/** The forms in which `statelet replay` reports: `--output`. Each writes after an outcome, at the end, or both. */
import { printable } from '../printable.ts';
import { annotation, writeStepSummary } from './github.ts';
import { htmlReport } from './html.ts';
import { jsonReport } from './json.ts';
import { junitReport } from './junit.ts';
import { markdownReport } from './markdown.ts';
import type { Outcome } from './outcome.ts';
import { describeOutcome } from './text.ts';

/** What it gives out is safe to print. */
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
  Object.hasOwn(reporters, format) ? reporters[format]!() : undefined;

function inGithub(outcomes: readonly Outcome[]): string {
  writeStepSummary(markdownReport(outcomes));
  return annotation(outcomes);
}
