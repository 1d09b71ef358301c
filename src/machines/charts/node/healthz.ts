/**
 * healthz: the small server that answers as long as this process runs.
 *
 * Decides: when to reopen a port that was refused, and sooner if its server was lost.
 * Owns: the listener on `healthzBindAddress:healthzPort`.
 * Hears: `healthz.listening` and `healthz.failed` from the listener.
 * Asks: `server.healthz`.
 * Sends: the supervisor `healthz.serving`.
 * Invariants:
 *   H1 a port in use never ends the node; it is retried every 5 s.
 * Seeds: S110, S111. Upstream: cmd/kubelet/app/server.go.
 */
import { errorOf, type ItemOf, line, pick, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import { operations } from '../../model/operations/index.ts';
import { isThreadLost, REOPEN_MS } from '../../model/operations/server.ts';

export interface HealthzInput {
  readonly address: string;
  readonly port: number;
}

type HealthzEvent = ItemOf<(typeof operations)['server.healthz']>;

/** Upstream's wait before it tries the port again. */
const RETRY_MS = 5_000;

export const healthzMachine = setup({
  types: typed<{ input: HealthzInput; context: HealthzInput; events: HealthzEvent }>(),
  actors: pick(operations, 'server.healthz'),
  delays: { retry: RETRY_MS, reopen: REOPEN_MS },
}).createMachine({
  id: 'healthz',
  context: ({ input }) => input,
  initial: 'listening',
  states: {
    listening: {
      meta: { waitsFor: 'the healthz port' },
      invoke: {
        id: 'listen',
        src: 'server.healthz',
        input: ({ context }) => context,
        onError: [{ guard: ({ event }) => isThreadLost(errorOf(event)), target: 'lost' }, { target: 'retrying' }],
      },
      on: {
        'healthz.listening': { actions: sendParent(({ event }) => ({ ...event, type: 'healthz.serving' })) },
        'healthz.failed': {
          actions: line('error', ({ event }) => ['Failed to start healthz server', { err: event.message }]),
        },
      },
    },
    lost: { after: { reopen: 'listening' } },
    retrying: {
      entry: line('error', 'Failed to start healthz server'),
      after: { retry: 'listening' },
    },
  },
});
