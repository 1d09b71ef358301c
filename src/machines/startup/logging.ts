/**
 * Logging: how much of what the node says is printed.
 *
 * Decides: nothing; `logging.verbosity` of the configuration in force, and `-v` over it, is what is asked for.
 * Owns: nothing. The journal has every line, whatever is printed.
 * Asks: `host.setLogVerbosity`. Starts again when the configuration changes.
 * Invariant: a verbosity that cannot be set never keeps the node from starting.
 * Seeds: S025.
 */
import { line, pick, setup } from '../../kernel/xstate.ts';
import { operations } from '../operations/index.ts';

export interface LoggingInput {
  readonly verbosity: number;
}

export const loggingMachine = setup({
  types: { input: {} as LoggingInput, context: {} as LoggingInput },
  actors: pick(operations, 'host.setLogVerbosity'),
}).createMachine({
  id: 'logging',
  context: ({ input }) => ({ verbosity: input.verbosity }),
  initial: 'setting',
  states: {
    setting: {
      meta: { waitsFor: 'the printer of lines to take the verbosity' },
      invoke: {
        id: 'setVerbosity',
        src: 'host.setLogVerbosity',
        input: ({ context }) => ({ verbosity: context.verbosity }),
        onDone: 'set',
        onError: {
          target: 'set',
          actions: line('error', ({ event }) => ['Cannot set the verbosity', { err: (event.error as Error).message }]),
        },
      },
    },
    set: {},
  },
});
