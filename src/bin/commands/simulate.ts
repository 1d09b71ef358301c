/**
 * `statelet simulate --seed N`: the whole node, its runtime, API server, disk and clock, with faults, in virtual time.
 *
 * Invariants: a seed gives the same run on every machine; the worst outcome decides the exit code; outcomes are printed
 * in the order of the seeds.
 */
import { STEPS } from '../../simulation/simulation.ts';
import { exitCodes } from '../exit-codes.ts';
import { refuse } from '../insight/command.ts';
import { printable, printableJson } from '../printable.ts';
import { answersTo, JOBS_WANTED, jobsOf } from '../process-pool.ts';
import { failedCase, junitSuite, passedCase } from '../replay/formats.ts';
import { worstOf } from '../replay/outcome.ts';
import { runSeed, type SeedOutcome, type SeedTask, seedNotTested } from '../run-seed.ts';
import { WORKER_VERBS } from './worker.ts';

export interface SimulateOptions {
  readonly seed?: string;
  /** `1-1000`. */
  readonly seeds?: string;
  readonly steps?: string;
  /** False: no call fails. */
  readonly faults?: boolean;
  readonly jobs?: string;
  readonly journals: string;
  readonly keep?: boolean;
  readonly output: string;
}

const FORMATS = ['text', 'json', 'junit'];
/** Limit of one call, because its report is kept in memory. */
const SEEDS_MAX = 100_000;

export async function simulateCommand(options: SimulateOptions): Promise<number> {
  const { output, journals, keep = false, faults = true } = options;
  const wrong = (reason: string): number => refuse('simulate', reason, exitCodes.usage);
  if (!FORMATS.includes(output)) return wrong(`--output is ${FORMATS.join('|')}, not ${JSON.stringify(output)}`);
  const seeds = seedsOf(options);
  if (!seeds) return wrong(`name --seed N, or --seeds A-B with at most ${SEEDS_MAX} of them`);
  const steps = stepsOf(options.steps);
  if (steps === null) return wrong(`--steps is none, or numbers below ${STEPS} with commas, not ${options.steps}`);
  const jobs = jobsOf(options.jobs);
  if (jobs === undefined) return wrong(`${JOBS_WANTED}, not ${options.jobs}`);
  const tasks = seeds.map((seed): SeedTask => ({ script: { seed, faults, ...(steps && { steps }) }, journals, keep }));
  const outcomes: SeedOutcome[] = [];
  for await (const outcome of outcomesOf(tasks, jobs)) {
    outcomes.push(outcome);
    if (output === 'text') process.stdout.write(describeSeed(outcome));
  }
  const code = worstOf(outcomes.map((outcome) => outcome.code));
  if (output === 'json') process.stdout.write(seedsJson(outcomes, code));
  else if (output === 'junit') process.stdout.write(seedsJunit(outcomes));
  else if (outcomes.length > 1) process.stdout.write(describeTotals(outcomes));
  return code;
}

async function* outcomesOf(tasks: readonly SeedTask[], jobs: number): AsyncGenerator<SeedOutcome> {
  const lost = ({ script }: SeedTask, how: string): SeedOutcome => seedNotTested(script.seed, `its process ${how}`);
  const [only, ...more] = tasks;
  if (only && more.length === 0) yield await runSeed(only);
  else yield* answersTo({ verb: WORKER_VERBS.simulate, tasks, jobs, lost });
}

function seedsOf({ seed, seeds }: SimulateOptions): number[] | undefined {
  if ((seed === undefined) === (seeds === undefined)) return undefined;
  const [, from = '', to = from] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(seed ?? seeds ?? '') ?? [];
  const count = Number(to) - Number(from) + 1;
  if (from === '' || count < 1 || count > SEEDS_MAX) return undefined;
  return Array.from({ length: count }, (_, at) => Number(from) + at);
}

/** The numbers in a list such as `1,3`; `null` for an invalid list. */
export function stepsOf(text: string | undefined): readonly number[] | undefined | null {
  if (text === undefined) return undefined;
  if (text === 'none') return [];
  const steps = text.split(',').map((each) => (/^\d{1,3}$/.test(each) ? Number(each) : STEPS));
  return steps.every((step) => step < STEPS) ? [...new Set(steps)].toSorted((a, b) => a - b) : null;
}

/** Incremented when a field changes its meaning or is removed; fields may be added at any time. */
const REPORT_VERSION = 1;
/** Events before the first problem that are shown; the journal has all of them. */
const EVENTS_SHOWN = 12;
const PROBLEMS_SHOWN = 10;

function describeSeed(outcome: SeedOutcome): string {
  const { seed, verdict, error, starts = 0, turns = 0, virtualMs = 0, cpuMs = 0 } = outcome;
  if (error !== undefined) return printable(`seed ${seed}: not tested: ${error}\n`);
  const facts = `${turns} turns of ${starts} starts in ${seconds(virtualMs)} of virtual time, ${seconds(cpuMs)} of CPU`;
  if (verdict === 'passed') return `seed ${seed}: passed (${facts})\n`;
  return printable(
    `seed ${seed}: ${verdict} violated (${facts})\n${detailsOf(outcome)
      .map((line) => `  ${line}\n`)
      .join('')}`,
  );
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

function detailsOf({ problems, events = [], journal, reproduce }: SeedOutcome): string[] {
  const more = problems.length - PROBLEMS_SHOWN;
  return [
    ...problems.slice(0, PROBLEMS_SHOWN).map(({ atMs, text }) => `at ${seconds(atMs)}: ${text}`),
    ...(more > 0 ? [`and ${more} more`] : []),
    'what happened last',
    ...events.slice(-EVENTS_SHOWN).map((event) => `  ${event}`),
    ...(journal === undefined ? [] : [`journal: ${journal}`]),
    ...(reproduce === undefined ? [] : [`again: ${reproduce}`]),
  ];
}

function seedsJson(outcomes: readonly SeedOutcome[], code: number): string {
  return `${printableJson({ version: REPORT_VERSION, code, totals: totalsOf(outcomes), seeds: outcomes })}\n`;
}

const VERDICTS = ['passed', 'safety', 'liveness', 'not-tested'] as const;

const totalsOf = (outcomes: readonly SeedOutcome[]): Readonly<Record<string, number>> =>
  Object.fromEntries(VERDICTS.map((verdict) => [verdict, outcomes.filter((each) => each.verdict === verdict).length]));

function seedsJunit(outcomes: readonly SeedOutcome[]): string {
  const count = (...wanted: readonly string[]) => outcomes.filter(({ verdict }) => wanted.includes(verdict)).length;
  const counts = `tests="${outcomes.length}" failures="${count('safety', 'liveness')}" errors="${count('not-tested')}"`;
  return junitSuite('statelet simulate', counts, outcomes.map(testCase));
}

function testCase(outcome: SeedOutcome): string {
  const { seed, verdict, cpuMs = 0 } = outcome;
  const attributes = `classname="statelet.simulate" name="seed ${seed}" time="${(cpuMs / 1_000).toFixed(3)}"`;
  if (verdict === 'passed') return passedCase(attributes);
  return failedCase(attributes, verdict === 'not-tested' ? 'error' : 'failure', verdict, describeSeed(outcome));
}

function describeTotals(outcomes: readonly SeedOutcome[]): string {
  const totals = Object.entries(totalsOf(outcomes)).filter(([, count]) => count > 0);
  const cpuMs = outcomes.reduce((sum, { cpuMs: each = 0 }) => sum + each, 0);
  const counts = totals.map(
    ([verdict, count]) =>
      `${count} ${verdict === 'passed' || verdict === 'not-tested' ? verdict : `${verdict} violated`}`,
  );
  return `${outcomes.length} seeds: ${counts.join(', ')} (${seconds(cpuMs)} of CPU)\n`;
}
