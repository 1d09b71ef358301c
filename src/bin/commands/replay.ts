/**
 * `statelet replay LOG…`: feeds the inputs of each log to today's machines and reports the first difference of each.
 *
 * Invariants: the worst outcome decides the exit code; outcomes are printed in the order of the sorted list, whatever
 * the number of processes.
 */
import { exitCodes } from '../exit-codes.ts';
import { refuse } from '../insight/command.ts';
import { answersTo, JOBS_WANTED, jobsOf } from '../process-pool.ts';
import { inShard, logsOf, shardOf } from '../replay/logs.ts';
import { codeForBisect, notTested, type Outcome, replayLog, type Task, worstOf } from '../replay/outcome.ts';
import { FORMATS, reporterFor } from '../replay/reports.ts';
import { WORKER_VERBS } from './worker.ts';

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
