/**
 * One seed: simulates it, and leaves a journal where something went wrong.
 *
 * Invariant: the journal's directory has every start of the agent, in the format of a daemon's, and replays.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openJournal } from '../../kernel/journal/index.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import { type Problem, type Script, type SimulationReport, STEPS, simulate } from '../../simulation/simulation.ts';
import { exitCodes } from '../exit-codes.ts';
import { shellLine, thisBuild } from '../replay/outcome.ts';

export interface SeedTask {
  readonly script: Script;
  /** Journals of failed seeds are written below this folder. */
  readonly journals: string;
  /** Whether journals of the other seeds are kept, too. */
  readonly keep: boolean;
}

export interface SeedOutcome {
  readonly seed: number;
  /** The exit code, had this been the only seed. */
  readonly code: number;
  readonly verdict: 'passed' | 'safety' | 'liveness' | 'not-tested';
  readonly problems: readonly Problem[];
  readonly starts?: number;
  readonly turns?: number;
  /** Virtual time that passed. */
  readonly virtualMs?: number;
  readonly cpuMs?: number;
  /** The events in order; only where something went wrong. */
  readonly events?: readonly string[];
  readonly journal?: string;
  /** The line of shell that does this again. */
  readonly reproduce?: string;
  /** Why there was no run. */
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

/** A journal that an earlier run left there goes. */
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
  // Both name the process that writes the journal, which is done.
  for (const name of ['owner.json', 'owner.lock']) rmSync(join(directory, name), { force: true });
}
