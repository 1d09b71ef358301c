/**
 * The calls of device plugins for one pod: their preferred devices, or what the containers need for their devices.
 *
 * Decides: nothing.
 * Owns: the answers so far.
 * Hears: nothing.
 * Asks: `devices.getPreferredAllocation`, or `devices.allocate` for one container and resource after the other.
 * Sends: `allocation` `devices.preferred`, `devices.allocated` or `devices.refused`, once.
 * Invariants:
 *   C1 the first plugin that refuses ends the calls; no call is repeated.
 * Upstream: devicemanager/manager.go (allocateContainerResources, callGetPreferredAllocationIfAvailable).
 */

import type { Ended } from '../../../../kernel/xstate.ts';
import { errorOf, outputOf, pick, required, sendParent, setup, typed } from '../../../../kernel/xstate.ts';
import { type DeviceQuestion, type DeviceResponse, deviceOperations } from '../../../model/operations/devices.ts';

export interface DeviceCall {
  readonly container: string;
  readonly resource: string;
  readonly ids: readonly string[];
}

export interface DeviceCallsInput {
  readonly uid: string;
  /** `null`: the devices are chosen. */
  readonly question: DeviceQuestion | null;
  readonly calls: readonly DeviceCall[];
}

interface DeviceAnswer extends DeviceCall {
  readonly response: DeviceResponse;
}

export type DeviceCallsReport =
  | {
      readonly type: 'devices.preferred';
      readonly uid: string;
      readonly question: DeviceQuestion;
      readonly ids: readonly string[];
    }
  | { readonly type: 'devices.allocated'; readonly uid: string; readonly answers: readonly DeviceAnswer[] }
  /** The text of the refusal is upstream's. */
  | { readonly type: 'devices.refused'; readonly uid: string; readonly error: string };

interface Context extends DeviceCallsInput {
  readonly answers: readonly DeviceAnswer[];
}

const s = setup({
  types: typed<{ input: DeviceCallsInput; context: Context; events: Ended }>(),
  actors: pick(deviceOperations, 'devices.getPreferredAllocation', 'devices.allocate'),
  guards: {
    isAsked: ({ context }) => context.question !== null,
    isDone: ({ context }) => context.answers.length === context.calls.length,
  },
});

const refuse = (words: (message: string) => string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    enqueue.sendParent({ type: 'devices.refused', uid: context.uid, error: words(errorOf(event).message) });
  });

const next = ({ calls, answers }: Context): DeviceCall => required(calls[answers.length], 'the next call of a plugin');
const questionOf = ({ question }: Context): DeviceQuestion => required(question, 'the question to a plugin');

export const deviceCallsMachine = s.createMachine({
  id: 'deviceCalls',
  context: ({ input }) => ({ ...input, answers: [] }),
  initial: 'choosing',
  states: {
    choosing: {
      always: [
        { guard: 'isAsked', target: 'asking' },
        { guard: 'isDone', target: 'allocated' },
        { target: 'allocating' },
      ],
    },
    asking: {
      meta: { waitsFor: 'a device plugin to say which devices go well together' },
      invoke: {
        id: 'prefer',
        src: 'devices.getPreferredAllocation',
        input: ({ context }) => questionOf(context),
        onDone: {
          target: 'over',
          actions: sendParent(({ context, event }) => ({
            type: 'devices.preferred',
            uid: context.uid,
            question: questionOf(context),
            ids: event.output.ids,
          })),
        },
        onError: {
          target: 'over',
          actions: refuse((message) => `device plugin GetPreferredAllocation rpc failed with err: ${message}`),
        },
      },
    },
    allocating: {
      meta: { waitsFor: 'a device plugin to say what a container needs' },
      invoke: {
        id: 'allocate',
        src: 'devices.allocate',
        input: ({ context }) => ({ resource: next(context).resource, ids: next(context).ids }),
        onDone: {
          target: 'choosing',
          actions: s.assign(({ context, event }) => {
            const response = outputOf<DeviceResponse>(event);
            return { answers: [...context.answers, { ...next(context), response }] };
          }),
        },
        onError: { target: 'over', actions: refuse((message) => message) },
      },
    },
    allocated: {
      always: {
        target: 'over',
        actions: sendParent(({ context: { uid, answers } }) => ({ type: 'devices.allocated', uid, answers })),
      },
    },
    over: { type: 'final' },
  },
});
