/**
 * The end of one pod's ResourceClaims: the drivers unprepare those that no other pod has.
 *
 * Decides: nothing; the first driver that refuses ends it.
 * Owns: the calls to the drivers.
 * Hears: nothing.
 * Asks: `dra.unprepare`.
 * Sends: nothing; its output has the error.
 * Invariants:
 *   F1 it always ends, by the drivers' answer or by the time limit of the call.
 * Upstream: pkg/kubelet/cm/dra/manager.go (unprepareResources).
 */

import type { Ended } from '../../../../kernel/xstate.ts';
import { assign, errorOf, pick, setup, typed } from '../../../../kernel/xstate.ts';
import { type DraCall, draOperations } from '../../../model/operations/dra.ts';

export interface ClaimReleaseInput {
  readonly uid: string;
  readonly calls: readonly DraCall[];
}

export interface ClaimReleaseOutput {
  readonly uid: string;
  /** Empty if the drivers have unprepared all. */
  readonly error: string;
}

interface Context extends ClaimReleaseInput {
  readonly error: string;
}

const s = setup({
  types: typed<{ input: ClaimReleaseInput; context: Context; events: Ended; output: ClaimReleaseOutput }>(),
  actors: pick(draOperations, 'dra.unprepare'),
});

export const claimReleaseMachine = s.createMachine({
  id: 'claimRelease',
  context: ({ input }) => ({ ...input, error: '' }),
  initial: 'calling',
  states: {
    calling: {
      meta: { waitsFor: 'the resource drivers to take the claims of the pod back' },
      invoke: {
        id: 'unprepare',
        src: 'dra.unprepare',
        input: ({ context }) => ({ calls: context.calls }),
        onDone: 'ended',
        onError: { target: 'ended', actions: assign({ error: ({ event }) => errorOf(event).message }) },
      },
    },
    ended: { type: 'final' },
  },
  output: ({ context: { uid, error } }) => ({ uid, error }),
});
