/**
 * Operations on the machine's login manager, so that pods can end before the machine does. Implemented by
 * `src/actors/logind/logind.ts`. Source: org.freedesktop.login1(5), systemd's inhibitor locks.
 */
import { idempotent, query, stream } from '../../../kernel/xstate.ts';

type Nothing = Record<string, never>;

export const logindOperations = {
  /** How long logind waits for inhibitors of a shutdown. Fails where there is no logind. */
  'logind.inhibitDelay': query<Nothing, { delayMs: number }>(),
  /** Configures logind to wait this long, and has it read its configuration again. */
  'logind.overrideInhibitDelay': idempotent<{ seconds: number }, null>(),
  /** Delays a shutdown for as long as the stream is open; `inhibit.held` when it does. */
  'logind.inhibitShutdown': stream<Nothing, { readonly type: 'inhibit.held' }>(),
  /** Emits when the machine is about to shut down, and when that is cancelled. Fails when the bus breaks. */
  'logind.watchShutdown': stream<Nothing, { readonly type: 'shutdown.prepared'; readonly active: boolean }>(),
  /** Writes when the last shutdown began and ended, in upstream's file; `null`: not yet. */
  'logind.storeShutdown': idempotent<{ path: string; startMs: number; endMs: number | null }, null>(),
};
