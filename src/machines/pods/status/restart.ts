/**
 * Whether and when a container that ended starts again.
 *
 * Decides by the container's rules, its own policy, then the pod's. Invariants: a pod that is being deleted restarts
 * nothing; a delay never shrinks but by the long quiet that resets it.
 */
import type { Container, Pod } from '../../api/pod.ts';

/** First delay of a crash loop; each restart doubles it. */
const INITIAL_BACKOFF_MS = 10_000;
/** A container that stayed up for this many longest delays has recovered. */
const RESET_AFTER_MAX_DELAYS = 2;

export interface RestartQuestion {
  readonly pod: Pod;
  readonly container: Container;
  readonly exitCode: number;
}

/** For a container that exited. One that never ran, or whose fate is unknown, always starts. */
export function shouldRestart({ pod, container, exitCode }: RestartQuestion): boolean {
  if (pod.metadata.deletionTimestamp !== undefined) return false;
  if (matchesRule(container, exitCode)) return true;
  switch (container.restartPolicy ?? pod.spec.restartPolicy) {
    case 'Never':
      return false;
    case 'OnFailure':
      return exitCode !== 0;
    default:
      return true;
  }
}

function matchesRule({ restartPolicyRules = [] }: Container, exitCode: number): boolean {
  return restartPolicyRules.some(({ action, exitCodes }) => {
    if (action !== 'Restart' || exitCodes === undefined) return false;
    const listed = (exitCodes.values ?? []).includes(exitCode);
    return exitCodes.operator === 'NotIn' ? !listed : listed;
  });
}

export interface BackoffQuestion {
  /** Delay of the last restart; 0 when there was none. */
  readonly previousMs: number;
  /** Since the last restart was delayed (or not) until the container ended again. */
  readonly quietMs: number;
  readonly maxMs: number;
}

/** The delay before the next restart, counted from the moment the container ended. */
export function nextBackoff({ previousMs, quietMs, maxMs }: BackoffQuestion): number {
  const recovered = quietMs > RESET_AFTER_MAX_DELAYS * maxMs;
  const delay = previousMs === 0 || recovered ? INITIAL_BACKOFF_MS : previousMs * 2;
  return Math.min(delay, maxMs);
}
