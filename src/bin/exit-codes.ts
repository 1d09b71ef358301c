/**
 * What the exit status of `statelet replay`, `verify` and their siblings means. `run` exits as the kubelet does: 0 or
 * 1.
 */
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
