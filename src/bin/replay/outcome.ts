/**
 * The outcome of the replay of one log.
 *
 * Invariants: every log has an outcome, whatever is thrown; a fault of this program is `not-tested`, never a
 * difference; a difference that does not recur in the same way is `non-deterministic`: a fault of the code, not of the
 * log.
 */
import { buildInfo, changedMachines } from '../../kernel/build-info.ts';
import type { Divergence } from '../../kernel/divergence.ts';
import { JournalError } from '../../kernel/journal/errors.ts';
import type { BuildInfo } from '../../kernel/records.ts';
import { type Note, NotReplayable, replay } from '../../kernel/replay.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { journalAt, placeOf } from '../insight/command.ts';
import { replayOptions } from '../insight/replayed.ts';
import { STATELET_VERSION } from '../version.ts';

export interface Task {
  readonly log: string;
  readonly incarnation: string | undefined;
  /** Notes count as differences. */
  readonly strict: boolean;
}

export type Verdict = 'same' | 'divergence' | 'non-deterministic' | 'invalid' | 'not-tested';

export interface Outcome {
  readonly log: string;
  /** The exit code if this were the only log. */
  readonly code: number;
  readonly verdict: Verdict;
  readonly incarnation?: string;
  readonly records?: number;
  readonly turns?: number;
  readonly inputs?: number;
  readonly seconds?: number;
  /** Bytes after the last whole turn, which were ignored. */
  readonly tornBytes?: number;
  readonly divergence?: Divergence;
  readonly recordedBy?: BuildInfo;
  /** Machines whose definition (including functions) differs from the recorded one. */
  readonly machinesChanged?: readonly string[];
  /** The first differences that are not guaranteed, because machines differ from the recorded ones. */
  readonly notes?: readonly Note[];
  /** The number of such differences. */
  readonly noted?: number;
  /** A shell command that repeats this replay. */
  readonly reproduce?: string;
  /** The reason why nothing was compared. */
  readonly error?: string;
}

export const thisBuild = (): BuildInfo => buildInfo(kubeletMachine, STATELET_VERSION);

export const notTested = (log: string, error: string): Outcome => ({
  log,
  verdict: 'not-tested',
  code: exitCodes.couldNotTest,
  error,
});

export function replayLog(task: Task): Outcome {
  const { log } = task;
  try {
    return compared(task);
  } catch (thrown) {
    if (thrown instanceof NotReplayable) {
      return { log, verdict: 'invalid', code: exitCodes.invalidLog, error: thrown.message };
    }
    if (!(thrown instanceof JournalError)) return notTested(log, `Statelet itself failed: ${stackOf(thrown)}`);
    const code = exitCodeOf(thrown);
    if (code === exitCodes.couldNotTest) return notTested(log, thrown.message);
    return { log, verdict: 'invalid', code, error: thrown.message };
  }
}

function compared({ log, incarnation, strict }: Task): Outcome {
  const journal = journalAt(log, incarnation);
  const begin = performance.now();
  const options = { ...replayOptions(journal), strict };
  const { divergence, ...first } = replay(options);
  const seconds = (performance.now() - begin) / 1_000;
  const facts = {
    log,
    incarnation: journal.header.incarnation,
    records: first.records,
    turns: first.turns,
    inputs: first.inputs,
    seconds,
    ...(journal.torn ? { tornBytes: journal.torn.bytes } : {}),
    recordedBy: journal.header.build,
    machinesChanged: changedMachines(journal.header.build, thisBuild()),
    ...(first.noted > 0 ? { notes: first.notes, noted: first.noted } : {}),
  };
  if (!divergence) return { ...facts, verdict: 'same', code: exitCodes.same };
  const chosen = ['--incarnation', facts.incarnation, ...(strict ? ['--strict'] : [])];
  const reproduce = shellLine(['statelet', 'replay', placeOf(log).path, ...chosen]);
  const again = replay(options);
  const steady = JSON.stringify(again.divergence) === JSON.stringify(divergence);
  return steady
    ? { ...facts, divergence, reproduce, verdict: 'divergence', code: exitCodes.divergence }
    : { ...facts, divergence, reproduce, verdict: 'non-deterministic', code: exitCodes.nonDeterministic };
}

const stackOf = (thrown: unknown): string => (thrown instanceof Error && thrown.stack) || String(thrown);

export type Totals = Readonly<Record<Verdict, number>>;

export function totalsOf(outcomes: readonly Outcome[]): Totals {
  const totals = { same: 0, divergence: 0, 'non-deterministic': 0, invalid: 0, 'not-tested': 0 };
  for (const { verdict } of outcomes) totals[verdict]++;
  return totals;
}

const PLAIN = /^[A-Za-z0-9_./:@%+=,-]+$/;

/** A command line to paste into a shell: each argument stays one literal word. */
export const shellLine = (words: readonly string[]): string =>
  words.map((word) => (PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');

/**
 * Exit codes, the worst first. If the code is not deterministic, no other result can be trusted. A difference stays a
 * difference, whatever happened to the other logs. A forbidden state is worse than a phase that was not reached, and
 * that is worse than lateness; likewise a wrong action of a simulated node is worse than a missing one. A crash of this
 * program may hide a difference; a defect of the log itself hides none that this build caused.
 */
const FROM_THE_WORST: readonly number[] = [
  exitCodes.nonDeterministic,
  exitCodes.divergence,
  exitCodes.safetyViolated,
  exitCodes.livenessViolated,
  exitCodes.expectationMissing,
  exitCodes.budgetExceeded,
  exitCodes.couldNotTest,
  exitCodes.invalidLog,
  exitCodes.unsupportedVersion,
  exitCodes.noLog,
];

/** The exit code of several logs: that of the worst outcome. */
export const worstOf = (codes: readonly number[]): number =>
  FROM_THE_WORST.find((code) => codes.includes(code)) ?? exitCodes.same;

/** As `git bisect run` reads exit codes: 125 skips a commit that cannot be tested. */
export const codeForBisect = (code: number): number =>
  [exitCodes.same, exitCodes.divergence, exitCodes.nonDeterministic].some((tested) => tested === code)
    ? code
    : exitCodes.couldNotTest;
