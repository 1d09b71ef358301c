/** Exit codes of `statelet replay`, `verify` and similar verbs. `run` exits like the kubelet: 0 or 1. */
import type { JournalError } from '../kernel/journal/errors.ts';

export const exitCodes = {
  same: 0,
  divergence: 1,
  usage: 2,
  invalidLog: 3,
  unsupportedVersion: 4,
  budgetExceeded: 5,
  nonDeterministic: 6,
  noLog: 7,
  expectationMissing: 8,
  safetyViolated: 9,
  livenessViolated: 10,
  timedOut: 124,
  couldNotTest: 125,
} as const;

const codes: Readonly<Record<JournalError['kind'], number>> = {
  'no-journal': exitCodes.noLog,
  damaged: exitCodes.invalidLog,
  missing: exitCodes.invalidLog,
  'unsupported-version': exitCodes.unsupportedVersion,
  owned: exitCodes.couldNotTest,
  unusable: exitCodes.couldNotTest,
};

/** The exit status of a command that cannot read its journal. */
export const exitCodeOf = (error: JournalError): number => codes[error.kind];
