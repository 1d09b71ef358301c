/**
 * cAdvisor's part in starting: the description of the machine.
 *
 * Decides: nothing.
 * Owns: nothing after it has answered; usage is read from cgroups on request.
 * Hears: only the answers of its operations.
 * Asks: `host.machineInfo`.
 * Answers: the description of the machine, or why there is none.
 * Invariants:
 *   I1 the machine is described once, before anything is derived from it.
 * Seeds: S070, S072, S077, S164. Upstream: pkg/kubelet/cadvisor.
 */
import { assign, errorOf, pick, setup, typed } from '../../../kernel/xstate.ts';
import type { MachineInfo } from '../../model/operations/host.ts';
import { operations } from '../../model/operations/index.ts';
import type { Answer } from '../context/types.ts';

export const cadvisorMachine = setup({
  types: typed<{ context: { answer: Answer<MachineInfo> }; output: Answer<MachineInfo> }>(),
  actors: pick(operations, 'host.machineInfo'),
}).createMachine({
  id: 'cadvisor',
  context: { answer: { ok: false, message: 'machine info was not read' } },
  initial: 'readingMachineInfo',
  states: {
    readingMachineInfo: {
      meta: { waitsFor: 'cores, memory and identity of the machine' },
      invoke: {
        id: 'machineInfo',
        src: 'host.machineInfo',
        input: {},
        onDone: {
          target: 'answered',
          actions: assign({ answer: ({ event }) => ({ ok: true, value: event.output }) }),
        },
        onError: {
          target: 'answered',
          actions: assign({ answer: ({ event }) => ({ ok: false, message: errorOf(event).message }) }),
        },
      },
    },
    answered: { type: 'final' },
  },
  output: ({ context }) => context.answer,
});
