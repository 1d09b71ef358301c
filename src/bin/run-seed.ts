/**
 * Simulates one seed, and writes its journals if it failed.
 *
 * Invariant: the directory of the journal has every start of the agent, in the format of a daemon's journal, and
 * replays.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openJournal } from '../kernel/journal/open.ts';
import type { JournalRecord } from '../kernel/records.ts';
import { type Problem, type Script, type SimulationReport, STEPS, simulate } from '../simulation/simulation.ts';
import { exitCodes } from './exit-codes.ts';
import { shellLine, thisBuild } from './replay/outcome.ts';

export interface SeedTask {
  readonly script: Script;
  /** Journals of failed seeds are written below this folder. */
  readonly journals: string;
  /** Whether journals of other seeds are also kept. */
  readonly keep: boolean;
}

export interface SeedOutcome {
  readonly seed: number;
  /** The exit code if this were the only seed. */
  readonly code: number;
  readonly verdict: 'passed' | 'safety' | 'liveness' | 'not-tested';
  readonly problems: readonly Problem[];
  readonly starts?: number;
  readonly turns?: number;
  /** The virtual time of the run. */
  readonly virtualMs?: number;
  readonly cpuMs?: number;
  /** The events in order; only if the seed failed. */
  readonly events?: readonly string[];
  readonly journal?: string;
  /** A shell command that repeats this run. */
  readonly reproduce?: string;
  /** The reason why the seed was not run. */
  readonly error?: string;
}

export const seedNotTested = (seed: number, error: string): SeedOutcome => ({
  seed,
  code: exitCodes.couldNotTest,
  verdict: 'not-tested',
  problems: [],
  error,
});

export async function runSeed(task: SeedTask): Promise<SeedOutcome> {
  const { script, journals, keep } = task;
  try {
    const before = process.cpuUsage();
    const report = simulate(script, thisBuild());
    const { user, system } = process.cpuUsage(before);
    const outcome = { ...summaryOf(report), cpuMs: Math.round((user + system) / 1_000) };
    if (outcome.code === exitCodes.same && !keep) return outcome;
    const journal = join(journals, `seed-${script.seed}`);
    await writeStarts(report, journal);
    return { ...outcome, journal };
  } catch (thrown) {
    return seedNotTested(script.seed, `Statelet itself failed: ${(thrown as Error).stack ?? String(thrown)}`);
  }
}

function summaryOf({ script, problems, events, starts, turns, virtualMs }: SimulationReport): SeedOutcome {
  const facts = { seed: script.seed, problems, starts: starts.length, turns, virtualMs };
  if (problems.length === 0) return { ...facts, code: exitCodes.same, verdict: 'passed' };
  const isSafety = problems.some(({ kind }) => kind === 'safety');
  return {
    ...facts,
    code: isSafety ? exitCodes.safetyViolated : exitCodes.livenessViolated,
    verdict: isSafety ? 'safety' : 'liveness',
    events,
    reproduce: lineFor(script),
  };
}

export function lineFor({ seed, steps, faults = true }: Script): string {
  const some =
    steps !== undefined && steps.length < STEPS ? ['--steps', steps.length === 0 ? 'none' : steps.join()] : [];
  return shellLine(['statelet', 'simulate', '--seed', String(seed), ...some, ...(faults ? [] : ['--no-faults'])]);
}

/** Removes the journal of an earlier run first. */
export async function writeStarts({ starts }: Pick<SimulationReport, 'starts'>, directory: string): Promise<void> {
  if (existsSync(directory)) rmSync(directory, { recursive: true });
  for (const { incarnation, records } of starts) await writeJournal(directory, incarnation, records);
}

export async function writeJournal(
  directory: string,
  incarnation: string,
  records: Iterable<JournalRecord>,
): Promise<void> {
  const journal = openJournal({ directory, incarnation, durability: 'none' });
  for (const record of records) {
    journal.append(record as never);
    if (record.k === 'end') journal.commit();
  }
  await journal.close();
  // Both files name the process that writes the journal, which has finished.
  for (const name of ['owner.json', 'owner.lock']) rmSync(join(directory, name), { force: true });
}
