/**
 * Lock file: at most one node agent on a machine.
 *
 * Decides: whether this process may start, and whether it must end in favour of another one.
 * Owns: the lock on `--lock-file`.
 * Hears: `lock.contended` from its watch, when another process opens or deletes the file.
 * Asks: `host.acquireLock`, `host.watchLock`.
 * Sends: the supervisor `lockFile.acquired`, `lockFile.failed`, `lockFile.contended`.
 * Invariants:
 *   L1 nothing else of the node starts before the lock is held.
 *   L2 contention ends the process only with `--exit-on-lock-contention`.
 * Seeds: S047 to S049. Upstream: cmd/kubelet/app/server.go, server_linux.go.
 */
import { errorOf, line, pick, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import { operations } from '../../model/operations/index.ts';

export interface LockFileInput {
  readonly path: string;
  readonly exitOnContention: boolean;
}

export const lockFileMachine = setup({
  types: typed<{ input: LockFileInput; context: LockFileInput; events: { type: 'lock.contended' } }>(),
  actors: pick(operations, 'host.acquireLock', 'host.watchLock'),
  guards: {
    exitsOnContention: ({ context }) => context.exitOnContention,
  },
}).createMachine({
  id: 'lockFile',
  context: ({ input }) => input,
  initial: 'acquiring',
  states: {
    acquiring: {
      meta: { waitsFor: 'the lock on the lock file' },
      entry: line('info', ({ context }) => ['Acquiring file lock', { path: context.path }]),
      invoke: {
        id: 'acquireLock',
        src: 'host.acquireLock',
        input: ({ context }) => ({ path: context.path, wait: true }),
        onDone: 'held',
        onError: {
          target: 'failed',
          actions: sendParent(({ context, event }) => ({
            type: 'lockFile.failed',
            message: `unable to acquire file lock on ${JSON.stringify(context.path)}: ${errorOf(event).message}`,
          })),
        },
      },
    },
    held: {
      entry: sendParent({ type: 'lockFile.acquired' }),
      initial: 'deciding',
      states: {
        deciding: { always: [{ guard: 'exitsOnContention', target: 'watching' }, { target: 'keeping' }] },
        keeping: {},
        watching: {
          invoke: {
            id: 'watchLock',
            src: 'host.watchLock',
            input: ({ context }) => ({ path: context.path }),
            onError: {
              target: 'keeping',
              actions: line('error', ({ context, event }) => [
                'Cannot watch the lock file; contention will not be noticed',
                { path: context.path, err: errorOf(event).message },
              ]),
            },
          },
          on: { 'lock.contended': { target: 'keeping', actions: sendParent({ type: 'lockFile.contended' }) } },
        },
      },
    },
    failed: {},
  },
});
