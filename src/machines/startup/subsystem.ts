/** The region of one subsystem in the chart of the supervisor. */
import { assign, errorOf, line } from '../../kernel/xstate.ts';
import { pauseMs, RESPAWN_BACK_OFF } from '../model/values/back-off.ts';
import type { EstablishedContext, KubeletEvent } from './context/types.ts';

/** The id of a subsystem is free only after the step that stopped it. */
const RENEW_MS = 1;

export const restartDelay = (crashes: number): number => pauseMs(RESPAWN_BACK_OFF, Math.max(0, crashes - 1));

type Crash = { readonly type: string; readonly error: unknown };

const recordCrash = (id: string) =>
  assign<EstablishedContext, Crash, undefined, KubeletEvent, never>(({ context }) => ({
    crashes: { ...context.crashes, [id]: (context.crashes[id] ?? 0) + 1 },
  }));

const logCrash = (id: string) =>
  line<EstablishedContext, Crash, undefined, KubeletEvent>('error', ({ context, event }) => [
    'Subsystem crashed and will be started again',
    { subsystem: id, err: errorOf(event).message, restartInMs: restartDelay(context.crashes[id] ?? 1) },
  ]);

/**
 * The region of one subsystem in the supervisor's chart: absent, running, or crashed and waiting for its restart. Other
 * actors find it by `systemId`, which defaults to the id.
 *
 * A subsystem begins when its phase of starting raises `create.<id>`. When it crashes, its children are already stopped
 * (`src/kernel/atomic.ts`); it restarts from its input after a back-off and observes everything again. When its
 * configuration changes (`reload.<id>`), the same happens at once.
 * Invariant: a crash of one subsystem never stops another.
 */
export function subsystem<Id extends string>(
  id: Id,
  input: (args: { context: EstablishedContext }) => unknown,
  systemId: string = id,
) {
  return {
    initial: 'absent' as const,
    states: {
      absent: { on: { [`create.${id}`]: 'running' } },
      running: {
        on: { [`reload.${id}`]: 'renewing' },
        invoke: {
          id,
          src: id,
          systemId,
          input,
          onError: { target: 'crashed', actions: [recordCrash(id), logCrash(id)] },
        },
      },
      renewing: { after: { [RENEW_MS]: 'running' } },
      crashed: { after: { [`restart.${id}`]: 'running' } },
    },
  };
}
