/**
 * Outcomes that events announced and that the runtime's statuses do not show yet.
 *
 * containerd publishes an event before its CRI plugin has processed it, so an immediate inspection may show the old
 * state. Each expectation is checked again after growing delays, a limited number of times; after that the relist
 * decides. Pure: the caller owns the clock.
 */
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';

/** The state that a sandbox or container should have reached; `changed` announces nothing that can be checked. */
export type Outcome = 'running' | 'exited' | 'gone' | 'changed';

/** First delay before an unmet expectation is checked again: CRI follows its events within a few milliseconds. */
const FIRST_WAIT_MS = 10;
/** The longest delay, the same as the relist period of a polling kubelet: on a busy machine CRI lags by seconds. */
const LONGEST_WAIT_MS = 1_000;
/** Checks of one expectation, half a minute in all; then the relist, at most a minute away, takes over. */
const MAX_CHECKS = 38;

export interface Expectation {
  readonly outcome: Outcome;
  readonly checks: number;
}
/** By id of the sandbox or container. */
export type Expectations = ReadonlyMap<string, Expectation>;

/**
 * The statuses that an expectation is checked against: of a pod, or of its sandboxes and containers that were
 * inspected.
 */
type Statuses = Pick<PodRuntimeStatus, 'sandboxes' | 'containers'>;

export function isMet(outcome: Outcome, id: string, status: Statuses): boolean {
  if (outcome === 'changed') return true;
  const sandbox = status.sandboxes.find((candidate) => candidate.id === id);
  const container = status.containers.find((candidate) => candidate.id === id);
  switch (outcome) {
    case 'gone':
      return !sandbox && !container;
    case 'exited':
      return sandbox?.state !== 'SANDBOX_READY' && !isAlive(container?.state);
    default:
      return sandbox !== undefined || (container !== undefined && container.state !== 'CONTAINER_CREATED');
  }
}

const isAlive = (state: string | undefined) => state === 'CONTAINER_RUNNING' || state === 'CONTAINER_CREATED';

/** Of one pod: the most containers that it may have. What happens to more is left to the relist. */
const EXPECTED_MAX = 2_000;

/** A new expectation replaces an older one for the same id. */
export function expecting(known: Expectations, id: string, outcome: Outcome): Expectations {
  if (outcome === 'changed' || (known.size >= EXPECTED_MAX && !known.has(id))) return known;
  return new Map(known).set(id, { outcome, checks: 0 });
}

/** The expectations that a status does not meet, and when to inspect again (`null`: never). */
export function unmetExpectations(
  expectations: Expectations,
  status: Statuses,
): { readonly open: Expectations; readonly waitMs: number | null } {
  const open = new Map<string, Expectation>();
  for (const [id, { outcome, checks }] of expectations) {
    if (!isMet(outcome, id, status) && checks + 1 < MAX_CHECKS) open.set(id, { outcome, checks: checks + 1 });
  }
  const fewest = Math.min(...[...open.values()].map(({ checks }) => checks));
  const waitMs = Math.min(FIRST_WAIT_MS * 2 ** (fewest - 1), LONGEST_WAIT_MS);
  return { open, waitMs: open.size === 0 ? null : waitMs };
}
