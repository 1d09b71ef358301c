/** A checkpoint: the kernel's whole state between two turns, as plain JSON, every table ordered by number. */
import type { AnyActorRef } from 'xstate';
import type { Address } from './address.ts';
import type { PendingTimer, Timers } from './clock.ts';
import type { EffectRequest } from './effects.ts';

export interface Checkpoint {
  /** Number of the next record. */
  readonly n: number;
  readonly turn: number;
  /** Time of the last turn, milliseconds since the epoch. */
  readonly t: number;
  readonly nextEffect: number;
  readonly nextTimer: number;
  /** State of the seeded generator. */
  readonly random: number;
  readonly timers: readonly PendingTimer[];
  readonly effects: readonly EffectRequest[];
  /** XState's persisted snapshot of the root, children included. */
  readonly root: unknown;
}

/**
 * Starts a root actor from a checkpoint and arms its timers again. XState's snapshots keep neither pending timers nor
 * the identity of running requests; both come from the checkpoint's own tables.
 */
export function restoreActors(
  root: AnyActorRef,
  checkpoint: Checkpoint,
  timers: Timers,
  actorAt: (address: Address) => AnyActorRef | undefined,
): void {
  root.start();
  for (const timer of checkpoint.timers) {
    const source = actorAt(timer.source);
    const target = actorAt(timer.target);
    if (!source || !target) throw new Error(`the checkpoint has a timer for ${timer.target}, which does not exist`);
    timers.restoring = { id: timer.id, due: timer.due };
    root.system.scheduler.schedule(source, target, timer.event, 0, timer.sendId);
    timers.restoring = undefined;
  }
}
