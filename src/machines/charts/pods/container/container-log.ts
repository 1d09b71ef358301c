/**
 * The log of one running instance of a container (`log-<name>`).
 *
 * Decides: when the runtime has to reopen the log, and when the log gets its name back.
 * Owns: nothing; it ends with the instance.
 * Hears: `log.rotated`, `log.missing`, `log.failed` of its watch.
 * Asks: `logs.keep`, `cri.reopenContainerLog`, `logs.restore`.
 * Invariants:
 *   I1 when the runtime does not reopen a rotated log, the file gets its name back, so that readers by name lose
 *      nothing that the container writes.
 */

import type { Ended } from '../../../../kernel/xstate.ts';
import { errorIn, type ItemOf, line, pick, setup, typed } from '../../../../kernel/xstate.ts';
import { operations } from '../../../model/operations/index.ts';
import type { KeptLog } from '../../../model/operations/logs.ts';

export interface ContainerLogInput {
  readonly containerId: string;
  readonly log: KeptLog;
}

interface Context extends ContainerLogInput {
  /** The path that the log was moved to while the runtime is asked to open a new one; empty if it was not moved. */
  readonly aside: string;
}

type Event = ItemOf<(typeof operations)['logs.keep']> | Ended;

/** The pause before a watch that broke is opened again. */
const WATCH_RETRY_MS = 60_000;

const s = setup({
  types: typed<{ input: ContainerLogInput; context: Context; events: Event }>(),
  actors: pick(operations, 'logs.keep', 'cri.reopenContainerLog', 'logs.restore'),
  guards: { wasMoved: ({ context }) => context.aside !== '' },
});

const logFailure = (text: string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const message = event.type === 'log.failed' ? event.message : (errorIn(event)?.message ?? '');
    const { containerId, log } = context;
    enqueue(line('error', [text, { containerID: containerId, path: log.path, err: message }]));
  });

const noteAside = s.assign(({ event }) => (event.type === 'log.rotated' ? { aside: event.aside } : {}));

export const containerLogMachine = s.createMachine({
  id: 'containerLog',
  context: ({ input }) => ({ ...input, aside: '' }),
  initial: 'kept',
  states: {
    kept: {
      invoke: {
        id: 'keep',
        src: 'logs.keep',
        input: ({ context }) => context.log,
        onDone: 'unkept',
        onError: { target: 'unkept', actions: logFailure('Cannot look after a container log') },
      },
      on: { 'log.failed': { actions: logFailure('Failed to rotate container log') } },
      initial: 'idle',
      states: {
        idle: {
          on: {
            'log.rotated': { target: 'reopening', actions: noteAside },
            'log.missing': { target: 'reopening', actions: s.assign({ aside: '' }) },
          },
        },
        /** Waits for the runtime to write into a new file. */
        reopening: {
          invoke: {
            id: 'reopen',
            src: 'cri.reopenContainerLog',
            input: ({ context }) => ({ containerId: context.containerId }),
            onDone: 'idle',
            onError: [
              { guard: 'wasMoved', target: 'restoring', actions: logFailure('Failed to reopen container log') },
              { target: 'idle', actions: logFailure("Container log doesn't exist, reopen container log failed") },
            ],
          },
        },
        restoring: {
          invoke: {
            id: 'restore',
            src: 'logs.restore',
            input: ({ context: { log, aside } }) => ({ root: log.root, path: log.path, aside }),
            onDone: 'idle',
            onError: { target: 'idle', actions: logFailure('Failed to rename rotated log') },
          },
        },
      },
    },
    unkept: { after: { [WATCH_RETRY_MS]: 'kept' } },
  },
});
