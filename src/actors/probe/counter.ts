/**
 * The counter of a probe: derives verdicts from consecutive results of attempts.
 *
 * Decides: when a verdict is reached, and which attempts are reported. Pure; the watch feeds it.
 * Invariants:
 *   C1 a verdict is reported when it changes, never again.
 *   C2 an errored attempt is ignored: the results around it are consecutive.
 *   C3 each attempt that is not a plain success is reported, but at most {@link REPORTS_BURST} at once, then one every
 *      {@link REPORT_REFILL_MS}.
 */
import type { ProbeJudged, ProbeReport, ProbeWatch, Verdict } from '../../machines/model/operations/probe.ts';
import type { Attempt } from './attempt.ts';

/** The limits of the Go kubelet's event filter, which would drop faster events. */
export const REPORTS_BURST = 25;
export const REPORT_REFILL_MS = 300_000;

export type Thresholds = Pick<ProbeWatch, 'successThreshold' | 'failureThreshold'>;

export interface Tally {
  readonly verdict: Verdict | null;
  /** The last result, and how often it occurred in a row. */
  readonly last: Verdict | null;
  readonly count: number;
  readonly reportsLeft: number;
  readonly atMs: number;
}

export const newTally = (verdict: Verdict | null, nowMs: number): Tally => ({
  verdict,
  last: null,
  count: 0,
  reportsLeft: REPORTS_BURST,
  atMs: nowMs,
});

/** Milliseconds from the beginning of an attempt to the next one. */
export const periodMs = (
  { periodSeconds, unreadyPeriodSeconds = periodSeconds }: Pick<ProbeWatch, 'periodSeconds' | 'unreadyPeriodSeconds'>,
  { verdict }: Tally,
): number => (verdict === 'success' ? periodSeconds : unreadyPeriodSeconds) * 1_000;

export function tally(
  before: Tally,
  { successThreshold, failureThreshold }: Thresholds,
  attempt: Attempt,
  nowMs: number,
): { readonly tally: Tally; readonly items: readonly (ProbeReport | ProbeJudged)[] } {
  const counted = count(before, attempt);
  const threshold = counted.last === 'success' ? successThreshold : failureThreshold;
  const isNew = attempt.result !== 'errored' && counted.last !== before.verdict && counted.count >= threshold;
  const { after, report } = reportOf(counted, attempt, nowMs);
  if (!isNew || after.last === null) return { tally: after, items: report };
  const judged: ProbeJudged = { type: 'probe.judged', verdict: after.last };
  return { tally: { ...after, verdict: after.last }, items: [...report, judged] };
}

function count(before: Tally, { result }: Attempt): Tally {
  if (result === 'errored') return before;
  const last = result === 'failure' ? 'failure' : 'success';
  return { ...before, last, count: before.last === last ? before.count + 1 : 1 };
}

function reportOf(
  before: Tally,
  { result, ...told }: Attempt,
  nowMs: number,
): { readonly after: Tally; readonly report: readonly ProbeReport[] } {
  if (result === 'success') return { after: before, report: [] };
  const reportsLeft = Math.min(REPORTS_BURST, before.reportsLeft + (nowMs - before.atMs) / REPORT_REFILL_MS);
  if (reportsLeft < 1) return { after: before, report: [] };
  return {
    after: { ...before, reportsLeft: reportsLeft - 1, atMs: nowMs },
    report: [{ type: 'probe.reported', result, ...told }],
  };
}
