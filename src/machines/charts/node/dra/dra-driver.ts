/**
 * One registration of a resource driver: its connection and the health of its devices.
 *
 * Decides: when an ended watch is restarted.
 * Owns: its connection.
 * Hears: `dra.connected` and `dra.healthChanged` of its stream.
 * Asks: `dra.follow`.
 * Sends: the manager the same, with its name.
 * Invariants:
 *   D1 a driver whose watch ended is not connected, and the health of its devices is unknown.
 * Upstream: pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go.
 */

import type { Ended } from '../../../../kernel/xstate.ts';
import { errorOf, line, pick, sendParent, setup, typed } from '../../../../kernel/xstate.ts';
import { type DraItem, type DraPlugin, draOperations } from '../../../model/operations/dra.ts';

/** Upstream's pause before it watches a driver again. */
const RETRY_MS = 5_000;

export interface DraDriverInput extends DraPlugin {
  readonly id: string;
}

export type DraDriverReport = { readonly type: 'dra.reported'; readonly id: string; readonly item: DraItem };

const s = setup({
  types: typed<{ input: DraDriverInput; context: DraDriverInput; events: DraItem | Ended }>(),
  actors: pick(draOperations, 'dra.follow'),
});

const report = sendParent<DraDriverInput, DraItem, undefined, DraDriverReport, DraItem | Ended>(
  ({ context: { id }, event }) => ({ type: 'dra.reported', id, item: event }),
);

const reportGone = s.enqueueActions(({ context: { id }, enqueue }) => {
  const items: readonly DraItem[] = [
    { type: 'dra.connected', isConnected: false },
    { type: 'dra.healthChanged', devices: {} },
  ];
  for (const item of items) enqueue.sendParent({ type: 'dra.reported', id, item } satisfies DraDriverReport);
});

export const draDriverMachine = s.createMachine({
  id: 'draDriver',
  context: ({ input }) => input,
  initial: 'following',
  states: {
    following: {
      exit: reportGone,
      on: { 'dra.connected': { actions: report }, 'dra.healthChanged': { actions: report } },
      invoke: {
        id: 'follow',
        src: 'dra.follow',
        input: ({ context: { driver, endpoint, service } }) => ({ driver, endpoint, service }),
        onDone: 'pausing',
        onError: {
          target: 'pausing',
          actions: line('error', ({ context, event }) => [
            'Cannot follow a resource driver',
            { driverName: context.driver, endpoint: context.endpoint, err: errorOf(event).message },
          ]),
        },
      },
    },
    pausing: { after: { [RETRY_MS]: 'following' } },
  },
});
