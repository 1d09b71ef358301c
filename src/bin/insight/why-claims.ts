/** What a pod waits for about its ResourceClaims, for `why`. Pure. */
import { nextTryOf } from '../../actors/server/visualizer/claims.ts';
import type { ClaimWaitView } from '../../actors/server/visualizer/protocol.ts';
import { claimWaitText } from '../../visualizer/claim-words.ts';
import type { Story } from './story.ts';
import type { KnownTimers } from './why.ts';

/** Times are milliseconds after the start of the agent. */
export interface ClaimWait extends Pick<ClaimWaitView, 'what' | 'step' | 'claims' | 'drivers' | 'failures' | 'n'> {
  readonly sinceMs: number;
  readonly forMs: number;
  /** The last error, and its time. */
  readonly error?: string;
  readonly failedMs?: number;
  readonly nextTryMs?: number;
}

export function claimWait(
  story: Story,
  uid: string,
  timers: KnownTimers,
): { readonly claims: ClaimWait; readonly text: string } | undefined {
  const known = story.claims.waitOf(uid);
  if (known === undefined) return undefined;
  const podTimers = (timers ?? []).filter(({ target }) => target.endsWith(`/pod-${uid}`));
  const wait: ClaimWaitView = {
    ...known,
    ...nextTryOf(podTimers.map(({ due, event }) => ({ due, event: event.type }))),
  };
  const { what, step, claims, drivers, failures, n, since, error, nextTry } = wait;
  const report = {
    what,
    step,
    claims,
    drivers,
    failures,
    n,
    sinceMs: since - story.started,
    forMs: story.ended - since,
    ...(error ? { error: error.message, failedMs: error.t - story.started } : {}),
    ...(nextTry === undefined ? {} : { nextTryMs: nextTry - story.started }),
  };
  return { claims: report, text: `; it ${claimWaitText(wait, story.ended)}` };
}
