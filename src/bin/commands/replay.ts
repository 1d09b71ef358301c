/**
 * `statelet replay LOG…`: feeds the inputs of each log to today's machines and reports the first difference of each.
 *
 * Invariants: the worst outcome decides the exit code; outcomes are printed in the order of the sorted list, whatever
 * the number of processes.
 */
import { availableParallelism } from 'node:os';
import { exitCodes } from '../exit-codes.ts';
import { refuse } from '../insight/command.ts';
import { inShard, logsOf, shardOf } from '../replay/logs.ts';
import { type Outcome, replayLog, type Task } from '../replay/outcome.ts';
import { replayAll } from '../replay/pool.ts';
import { FORMATS, reporterFor } from '../replay/reports.ts';
import { codeForBisect, worstOf } from '../replay/worst.ts';

/** More processes than this only wait for each other's disk. */
const JOBS_MAX = 256;

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
  const jobs = Number(options.jobs ?? availableParallelism());
  if (!Number.isInteger(jobs) || jobs < 1 || jobs > JOBS_MAX) {
    return refuse('replay', `--jobs is a number from 1 to ${JOBS_MAX}, not ${options.jobs}`, exitCodes.usage);
  }
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

/** A single log is replayed here: a process more would only cost its start. */
async function* outcomesOf(tasks: readonly Task[], jobs: number): AsyncGenerator<Outcome> {
  if (tasks.length === 1) yield replayLog(tasks[0]!);
  else yield* replayAll(tasks, jobs);
}
