/** The exit code of several logs: that of the worst outcome. */
import { exitCodes } from '../exit-codes.ts';

/**
 * From the worst on. Of code that is not deterministic no other result can be trusted. A difference that was found
 * stays found, whatever became of the other logs. Of what a start was expected to be, a state that it must never have
 * been in is worse than a phase that it did not reach, and that is worse than being late; so is what a simulated node
 * did wrong than what it did not come to. A crash of this program may
 * hide a difference; what is wrong with a log itself hides none that this build made.
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

export const worstOf = (codes: readonly number[]): number =>
  FROM_THE_WORST.find((code) => codes.includes(code)) ?? exitCodes.same;

/** As `git bisect run` reads exit codes: 125 skips a commit that cannot be tested. */
export const codeForBisect = (code: number): number =>
  [exitCodes.same, exitCodes.divergence, exitCodes.nonDeterministic].some((tested) => tested === code)
    ? code
    : exitCodes.couldNotTest;
