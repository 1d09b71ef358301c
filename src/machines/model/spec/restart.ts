/**
 * Decides whether and when an ended container restarts.
 *
 * The container's rules come first, then its own policy, then the pod's. Invariants: a pod that is being deleted
 * restarts no container; a delay only decreases when a long time without restarts resets it.
 */
import type { Container, Pod } from '../api/pod.ts';

/** Upstream's maximum of the crash-loop back-off without its feature gate. */
export const CRASH_LOOP_BACKOFF_MAX_MS = 300_000;

/** First delay of a crash loop; each restart doubles it. */
const INITIAL_BACKOFF_MS = 10_000;
/** Failures are forgotten after this many maximum delays without another one. */
export const RESET_AFTER_MAX_DELAYS = 2;
/** A container that ran for this long has recovered, whatever the maximum delay. */
export const RECOVERED_AFTER_MS = 600_000;

export interface RestartQuestion {
  readonly pod: Pod;
  readonly container: Container;
  readonly exitCode: number;
}

/** For an exited container. One that never ran, or whose end was not observed, always starts. */
export function shouldRestart({ pod, container, exitCode }: RestartQuestion): boolean {
  if (pod.metadata.deletionTimestamp !== undefined) return false;
  if (container.restartPolicy !== undefined && matchingAction(container, exitCode) !== null) return true;
  switch (container.restartPolicy ?? pod.spec.restartPolicy) {
    case 'Never':
      return false;
    case 'OnFailure':
      return exitCode !== 0;
    default:
      return true;
  }
}

/**
 * The action of the first rule that matches this exit code; `null` if none does. Rules require a restart policy of the
 * container.
 */
function matchingAction({ restartPolicyRules = [] }: Container, exitCode: number): string | null {
  const rule = restartPolicyRules.find(({ exitCodes }) => {
    if (exitCodes === undefined) return false;
    return (exitCodes.values ?? []).includes(exitCode) === (exitCodes.operator !== 'NotIn');
  });
  return rule?.action ?? null;
}

/** Whether a rule requests a restart of all containers of the pod. */
export const restartsAll = (container: Container, exitCode: number): boolean =>
  matchingAction(container, exitCode) === 'RestartAllContainers';

/** Whether some container of the pod has such a rule. */
export const mayRestartAll = ({ spec: { initContainers = [], containers } }: Pod): boolean =>
  [...initContainers, ...containers].some(({ restartPolicyRules = [] }) =>
    restartPolicyRules.some(({ action }) => action === 'RestartAllContainers'),
  );

export interface BackoffQuestion {
  /** Delay of the last restart; 0 when there was none. */
  readonly previousMs: number;
  /** The time from the last restart until the container ended again. */
  readonly quietMs: number;
  readonly maxMs: number;
  /** The first delay; absent: upstream's default. */
  readonly initialMs?: number | undefined;
}

/** The delay before the next restart, counted from the end of the container. */
export function nextBackoff({ previousMs, quietMs, maxMs, initialMs = INITIAL_BACKOFF_MS }: BackoffQuestion): number {
  const recovered = quietMs > RESET_AFTER_MAX_DELAYS * maxMs;
  const delay = previousMs === 0 || recovered ? initialMs : previousMs * 2;
  return Math.min(delay, maxMs);
}
