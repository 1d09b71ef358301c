/**
 * The observations of the container runtime that metrics count: every call, every inspection of a pod, and its own
 * events.
 */
import { steadyNow } from '../../kernel/clock.ts';
import type { CallName, RuntimeClient, StreamName } from './client.ts';

export type RuntimeSeen =
  /** A call ended, also one that failed. */
  | {
      readonly kind: 'called';
      readonly name: CallName | StreamName;
      readonly durationMs: number;
      readonly failed: boolean;
    }
  /** All pods were listed, or could not be. `startedAtMs` is since the epoch. */
  | { readonly kind: 'relisted'; readonly startedAtMs: number; readonly durationMs: number }
  /** One pod was inspected, or could not be. */
  | { readonly kind: 'inspected'; readonly durationMs: number }
  /** CRI's stream of events was requested; `lost`: it broke, or the runtime does not have it. */
  | { readonly kind: 'listening' | 'lost' }
  /** An event of that stream came so long after it happened. */
  | { readonly kind: 'heard'; readonly lateMs: number };

export type OnRuntime = (seen: RuntimeSeen) => void;

/** Reports the call when it has ended. */
async function timed<Answer>(
  name: CallName | StreamName,
  onRuntime: OnRuntime,
  call: Promise<Answer>,
): Promise<Answer> {
  const beganMs = steadyNow();
  let failed = true;
  try {
    const answer = await call;
    failed = false;
    return answer;
  } finally {
    onRuntime({ kind: 'called', name, durationMs: steadyNow() - beganMs, failed });
  }
}

/** A client that reports its every call. */
export const counted = (client: RuntimeClient, onRuntime: OnRuntime): RuntimeClient => ({
  ...client,
  call: (name, request, options) => timed(name, onRuntime, client.call(name, request, options)),
  stream: (name, request, onMessage, signal) => timed(name, onRuntime, client.stream(name, request, onMessage, signal)),
});
