/** Derives a pod's published status from facts. Pure functions. */

export {
  type BackoffQuestion,
  nextBackoff,
  RESET_AFTER_MAX_DELAYS,
  type RestartQuestion,
  restartsAll,
  shouldRestart,
} from '../spec/restart.ts';
export { goDuration, rfc3339 } from '../values/time.ts';
export { instancesToRemove, isRestartingAll, needsSandbox } from './conditions.ts';
export type { Waiting } from './containers.ts';
export { isTerminalPhase, type PhaseFacts, podPhase } from './phase.ts';
export {
  hasInitialized,
  type PodStage,
  type PodStatusFacts,
  podIPs,
  podStatus,
  publishedStatus,
  rejectedStatus,
} from './pod-status.ts';
