/**
 * `statelet replay LOG…`: feeds the inputs of each log to the machines of this build and reports the first difference
 * of each log. An output format (`--output`) writes after each outcome, at the end, or both. Invariants: the worst
 * outcome decides the exit code; outcomes are printed in the order of the sorted list, whatever the number of
 * processes.
 */
import { appendFileSync } from 'node:fs';
import { shortText } from '../../actors/server/visualizer/trim.ts';
import type { BuildInfo } from '../../kernel/records.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { exitCodes } from '../exit-codes.ts';
import { refuse } from '../insight/command.ts';
import { printable, printableJson } from '../printable.ts';
import { answersTo, JOBS_WANTED, jobsOf } from '../process-pool.ts';
import { describeOutcome, htmlReport, junitReport } from '../replay/formats.ts';
import { inShard, logsOf, shardOf } from '../replay/logs.ts';
import type { Outcome, Task } from '../replay/outcome.ts';
import { codeForBisect, notTested, replayLog, thisBuild, totalsOf, worstOf } from '../replay/outcome.ts';
import { WORKER_VERBS } from './worker.ts';

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

const ROWS_MAX = 500;
const DETAILS_MAX = 30;
const CELL_MAX_CHARS = 300;
const DETAIL_MAX_CHARS = 8_000;

/**
 * A line with the totals, a table of the logs that are not the same, and the first differences in full.
 *
 * Invariants: contents of a log are text, never a link, an image, a mention, HTML or the end of a cell or block; the
 * whole stays below the 1 MiB that GitHub shows of a step's summary.
 */
function markdownReport(outcomes: readonly Outcome[]): string {
  const found = outcomes.filter(({ verdict }) => verdict !== 'same');
  const counted = Object.entries(totalsOf(outcomes)).filter(([, count]) => count > 0);
  const totals = counted.map(([verdict, count]) => `${count} ${verdict}`).join(', ') || 'no log';
  const head = `### statelet replay: ${totals}\n`;
  if (found.length === 0) return `${head}\n`;
  const rows = found.slice(0, ROWS_MAX).map(rowOf);
  const more = found.length > ROWS_MAX ? `\n${found.length - ROWS_MAX} more logs are not the same.\n` : '';
  const details = found.filter(({ divergence }) => divergence).slice(0, DETAILS_MAX);
  const table = `\n| log | outcome | code | first difference |\n| --- | --- | --: | --- |\n${rows.join('')}`;
  return `${head}${table}${more}${details.map(detailsOf).join('')}\n`;
}

function rowOf({ log, verdict, code, error, divergence }: Outcome): string {
  const summary = divergence ? `record ${divergence.n} of turn ${divergence.turn}: ${divergence.kind}` : (error ?? '');
  return `| ${cell(log)} | ${verdict} | ${code} | ${cell(summary)} |\n`;
}

function detailsOf(outcome: Outcome): string {
  const text = shortText(printable(describeOutcome(outcome)).trimEnd(), DETAIL_MAX_CHARS);
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `\n<details><summary>${cell(outcome.log)}</summary>\n\n${fence}text\n${text}\n${fence}\n\n</details>\n`;
}

/** Replaces characters with a meaning in Markdown by character references. */
const cell = (text: string): string =>
  printable(shortText(text, CELL_MAX_CHARS))
    .replace(/[\\`*_[\]<>|~&@#$]|(?<=:)\//g, (character) => `&#${character.charCodeAt(0)};`)
    .replaceAll('\n', ' ');

export interface ReplayCommandOptions {
  readonly incarnation?: string;
  readonly output?: string;
  /** Another name of `output`, which the other verbs have. */
  readonly format?: string;
  readonly jobs?: string;
  readonly shard?: string;
  readonly bisect?: boolean;
  readonly strict?: boolean;
}

export async function replayCommand(named: readonly string[], options: ReplayCommandOptions): Promise<number> {
  const { incarnation, bisect = false, strict = false } = options;
  const format = options.output ?? options.format ?? 'text';
  const reporter = reporterFor(format);
  if (!reporter) return refuse('replay', `--output is ${FORMATS}, not ${JSON.stringify(format)}`, exitCodes.usage);
  const shard = shardOf(options.shard ?? '1/1');
  if (!shard) return refuse('replay', `--shard is I/N with 1 ≤ I ≤ N, not ${options.shard}`, exitCodes.usage);
  const jobs = jobsOf(options.jobs);
  if (jobs === undefined) return refuse('replay', `${JOBS_WANTED}, not ${options.jobs}`, exitCodes.usage);
  const all = logsOf(named);
  const logs = inShard(all, shard);
  if (logs.length === 0)
    process.stderr.write(`statelet replay: none of ${all.length} logs is in shard ${options.shard}\n`);
  const outcomes: Outcome[] = [];
  for await (const outcome of outcomesOf(
    logs.map((log) => ({ log, incarnation, strict })),
    jobs,
  )) {
    outcomes.push(outcome);
    process.stdout.write(reporter.outcome?.(outcome) ?? '');
  }
  const worst = worstOf(outcomes.map(({ code }) => code));
  const code = bisect ? codeForBisect(worst) : worst;
  process.stdout.write(reporter.end?.(outcomes, code) ?? '');
  return code;
}

const lost = ({ log }: Task, how: string): Outcome => notTested(log, `the process that replayed it ${how}`);

/** A single log is replayed in this process, to save the start of another one. */
async function* outcomesOf(tasks: readonly Task[], jobs: number): AsyncGenerator<Outcome> {
  const [only, ...more] = tasks;
  if (only && more.length === 0) yield replayLog(only);
  else yield* answersTo({ verb: WORKER_VERBS.replay, tasks, jobs, lost });
}
