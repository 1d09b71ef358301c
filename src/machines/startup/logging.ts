/**
 * Logging: the format and verbosity of printed log lines.
 *
 * Decides: nothing; it applies `logging` of the current configuration, overridden by flags.
 * Owns: nothing. The journal has every line, printed or not.
 * Hears: only the answers of its operations.
 * Asks: `host.setLogVerbosity`. Restarts when the configuration changes.
 * Invariants:
 *   I1 a failed setting never keeps the node from starting.
 * Seeds: S025.
 */
import { failureLine, pick, setup, typed } from '../../kernel/xstate.ts';
import type { KubeletConfiguration } from '../model/configuration/fields.ts';
import type { LogForm } from '../model/operations/host.ts';
import { operations } from '../model/operations/index.ts';

export const logForm = ({ verbosity, format, options }: KubeletConfiguration['logging']): LogForm => {
  const isJson = format === 'json';
  return {
    verbosity,
    ...(isJson ? { format: 'json' } : {}),
    ...(options[isJson ? 'json' : 'text'].splitStream ? { splitStream: true } : {}),
  };
};

export const loggingMachine = setup({
  types: typed<{ input: LogForm; context: LogForm }>(),
  actors: pick(operations, 'host.setLogVerbosity'),
}).createMachine({
  id: 'logging',
  context: ({ input }) => input,
  initial: 'setting',
  states: {
    setting: {
      meta: { waitsFor: 'the printer of lines to take its settings' },
      invoke: {
        id: 'setVerbosity',
        src: 'host.setLogVerbosity',
        input: ({ context }) => context,
        onDone: 'set',
        onError: { target: 'set', actions: failureLine('error', 'Cannot set how lines are printed') },
      },
    },
    set: {},
  },
});
