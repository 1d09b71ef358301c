/**
 * The texts for a runtime that is not ready, as a Node's condition and the log have them. Pure.
 *
 * A file of its own because the visualizer's page loads it.
 */
import type { RuntimeCondition } from '../operations/runtime.ts';

/** Upstream's text before the first relist. */
export const PLEG_UNKNOWN = 'PLEG is not healthy: pleg has yet to be successful';

/** Upstream's text for a runtime that has not been ready for too long. */
export const RUNTIME_DOWN = 'container runtime is down';

/** The error of a runtime whose status cannot be read. */
export const runtimeDown = (message: string): string => `${RUNTIME_DOWN}: ${message}`;

/** Upstream's text for a condition that is missing or false; empty if it is true. */
export function conditionError(kind: 'RuntimeReady' | 'NetworkReady', conditions: readonly RuntimeCondition[]): string {
  const prefix = kind === 'RuntimeReady' ? 'container runtime not ready' : 'container runtime network not ready';
  const condition = conditions.find(({ type }) => type === kind);
  if (!condition) return `${prefix}: ${kind} condition is not set`;
  if (condition.status) return '';
  return `${prefix}: ${kind}=false reason:${condition.reason} message:${condition.message}`;
}
