/** The activity of a runtime that metrics count: calls, relists, inspections and events. */
import { steadyNow } from '../../kernel/clock.ts';
import type { ExecSyncResponse } from '../../machines/model/api/cri.ts';
import type { CallName, RuntimeClient, StreamName } from './client.ts';

/** A call, an inspection of a pod, or an event of the runtime. */
export type RuntimeActivity =
  /**
   * A call ended, successfully or not. A call that the agent cancelled has not failed; one whose command failed has, as
   * upstream counts it.
   */
  | {
      readonly kind: 'called';
      readonly name: CallName | StreamName;
      readonly durationMs: number;
      readonly failed: boolean;
    }
  /** All pods were listed, or listing failed. `startedAtMs` is since the epoch. */
  | { readonly kind: 'relisted'; readonly startedAtMs: number; readonly durationMs: number }
  /** One pod was inspected, or the inspection failed. */
  | { readonly kind: 'inspected'; readonly durationMs: number }
  /** CRI's event stream was requested; `lost`: it broke, or the runtime lacks it. */
  | { readonly kind: 'listening' | 'lost' }
  /** An event of that stream, with its delay. */
  | { readonly kind: 'heard'; readonly lateMs: number };

export type OnRuntimeActivity = (activity: RuntimeActivity) => void;

/** Reports the call when it has ended. */
async function timed<Answer>(
  name: CallName | StreamName,
  onRuntime: OnRuntimeActivity,
  call: Promise<Answer>,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  const beganMs = steadyNow();
  let failed = true;
  try {
    const answer = await call;
    failed = name === 'ExecSync' && (answer as Partial<ExecSyncResponse>).exit_code !== 0;
    return answer;
  } finally {
    onRuntime({ kind: 'called', name, durationMs: steadyNow() - beganMs, failed: failed && !signal?.aborted });
  }
}

/** A client that reports its every call. */
export const observedClient = (client: RuntimeClient, onRuntime: OnRuntimeActivity): RuntimeClient => ({
  ...client,
  call: (name, request, options) => timed(name, onRuntime, client.call(name, request, options), options.signal),
  stream: (name, request, onMessage, signal) =>
    timed(name, onRuntime, client.stream(name, request, onMessage, signal), signal),
});
