/**
 * A local server: the node's API, or its pod resources, on a unix socket for clients on the node itself.
 *
 * Decides: when a socket that could not be opened is retried: after a pause, or at once if only its server was lost.
 *   Such a failure never ends the node.
 * Owns: nothing.
 * Hears: nothing but the end of its socket.
 * Asks: `server.serveLocal`.
 * Invariants:
 *   W1 access is decided by the permissions of the socket's file alone.
 */
import { errorOf, line, pick, setup, typed } from '../../../kernel/xstate.ts';
import {
  isThreadLost,
  type LocalSocket,
  REOPEN_MS,
  type ServerItem,
  serverOperations,
} from '../../model/operations/server.ts';

/** Pause before the socket is tried again. */
const RETRY_MS = 30_000;

const s = setup({
  types: typed<{ input: LocalSocket; context: LocalSocket; events: ServerItem }>(),
  actors: pick(serverOperations, 'server.serveLocal'),
});

export const localServerMachine = s.createMachine({
  id: 'localServer',
  context: ({ input }) => input,
  initial: 'open',
  states: {
    open: {
      invoke: {
        id: 'serve',
        src: 'server.serveLocal',
        input: ({ context }) => context,
        onDone: 'closed',
        onError: [
          { guard: ({ event }) => isThreadLost(errorOf(event)), target: 'lost' },
          {
            target: 'closed',
            actions: line('warn', ({ context, event }) => [
              'Cannot serve a local socket, and tries again',
              { path: context.path, service: context.service, err: errorOf(event).message },
            ]),
          },
        ],
      },
    },
    closed: { after: { [RETRY_MS]: 'open' } },
    lost: { after: { [REOPEN_MS]: 'open' } },
  },
});
