/** The report for programs: `schema/replay-report.schema.json` describes it, one line. */
import type { BuildInfo } from '../../kernel/records.ts';
import { printableJson } from '../printable.ts';
import { type Outcome, thisBuild, totalsOf } from './outcome.ts';

/** Raised when a field changes its meaning or goes away; new fields may come at any time. */
const REPORT_VERSION = 1;

export function jsonReport(outcomes: readonly Outcome[], code: number): string {
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
