/**
 * `statelet simulate --seed N`: the whole node, its runtime, API server, disk and clock, with faults, in virtual time.
 *
 * Invariants: a seed gives the same run on every machine; the worst outcome decides the exit code; outcomes are printed
 * in the order of the seeds.
 */
import { STEPS } from '../../simulation/simulation.ts';
import { exitCodes } from '../exit-codes.ts';
import { refuse } from '../insight/command.ts';
import { answersTo, JOBS_WANTED, jobsOf } from '../process-pool.ts';
import { worstOf } from '../replay/outcome.ts';
import { describeSeed, describeTotals, seedsJson, seedsJunit } from '../simulation/report.ts';
import { runSeed, type SeedOutcome, type SeedTask, seedNotTested } from '../simulation/run-seed.ts';
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

/** `null`: these are none. */
export function stepsOf(text: string | undefined): readonly number[] | undefined | null {
  if (text === undefined) return undefined;
  if (text === 'none') return [];
  const steps = text.split(',').map((each) => (/^\d{1,3}$/.test(each) ? Number(each) : STEPS));
  return steps.every((step) => step < STEPS) ? [...new Set(steps)].toSorted((a, b) => a - b) : null;
}
