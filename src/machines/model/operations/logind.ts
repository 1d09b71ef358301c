/**
 * Operations on the machine's login manager, so that pods can end before the machine does. Implemented by
 * `src/actors/logind`. Source: org.freedesktop.login1(5), systemd's inhibitor locks.
 */
import { idempotent, query, stream } from '../../../kernel/xstate.ts';

type Nothing = Record<string, never>;

export const logindOperations = {
  /** How long logind waits for inhibitors of a shutdown. Fails without logind. */
  'logind.inhibitDelay': query<Nothing, { delayMs: number }>(),
  /** Configures logind to wait this long, and reloads its configuration. */
  'logind.overrideInhibitDelay': idempotent<{ seconds: number }, null>(),
  /** Delays a shutdown while the stream is open; emits `inhibit.held` once the lock is held. */
  'logind.inhibitShutdown': stream<Nothing, { readonly type: 'inhibit.held' }>(),
  /** Emits when the machine is about to shut down, and when that is cancelled. Fails when the bus connection breaks. */
  'logind.watchShutdown': stream<Nothing, { readonly type: 'shutdown.prepared'; readonly active: boolean }>(),
  /** Writes start and end of the last shutdown into upstream's file; `null`: not yet. */
  'logind.storeShutdown': idempotent<{ path: string; startMs: number; endMs: number | null }, null>(),
};
