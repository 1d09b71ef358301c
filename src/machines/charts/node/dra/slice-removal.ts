/**
 * Deletes the ResourceSlices of this node: of one driver that is gone, or of all when the agent starts.
 *
 * Decides: when a failed request is repeated.
 * Owns: the growing pause between two requests.
 * Hears: nothing.
 * Asks: `kube.deleteCollection`.
 * Sends: nothing; it ends when the slices are gone.
 * Invariants:
 *   L1 it never gives up: a scheduler would send pods for devices that no driver prepares.
 * Upstream: pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go (wipeResourceSlices).
 */

import { assign, type Ended, errorOf, line, pick, setup, typed } from '../../../../kernel/xstate.ts';
import { kubeOperations } from '../../../model/operations/kube.ts';
import { type BackOff, doubledMs } from '../../../model/values/time.ts';

/** Upstream's pauses between attempts. */
const RETRY: BackOff = { baseMs: 1_000, maxMs: 300_000 };

export interface SliceRemovalInput {
  readonly nodeName: string;
  /** Empty for all drivers. */
  readonly driver: string;
}

interface Context extends SliceRemovalInput {
  readonly retryMs: number;
}

const s = setup({
  types: typed<{ input: SliceRemovalInput; context: Context; events: Ended }>(),
  actors: pick(kubeOperations, 'kube.deleteCollection'),
  guards: { isGone: ({ event }) => errorOf(event).code === 'NotFound' },
  delays: { retry: ({ context }) => context.retryMs },
});

const selectorOf = ({ nodeName, driver }: SliceRemovalInput): string =>
  driver === '' ? `spec.nodeName=${nodeName}` : `spec.driver=${driver},spec.nodeName=${nodeName}`;

export const sliceRemovalMachine = s.createMachine({
  id: 'sliceRemoval',
  context: ({ input }) => ({ ...input, retryMs: RETRY.baseMs }),
  initial: 'deleting',
  states: {
    deleting: {
      invoke: {
        id: 'slices',
        src: 'kube.deleteCollection',
        input: ({ context }) => ({
          client: 'kube',
          apiVersion: 'resource.k8s.io/v1',
          resource: 'resourceslices',
          fieldSelector: selectorOf(context),
        }),
        onDone: 'done',
        onError: [
          { guard: 'isGone', target: 'done' },
          {
            target: 'pausing',
            actions: line('warn', ({ context, event }) => [
              'Deleting ResourceSlice failed, retrying',
              { fieldSelector: selectorOf(context), err: errorOf(event).message },
            ]),
          },
        ],
      },
    },
    pausing: {
      exit: assign({ retryMs: ({ context }) => doubledMs(RETRY, context.retryMs) }),
      after: { retry: 'deleting' },
    },
    done: { type: 'final' },
  },
});
