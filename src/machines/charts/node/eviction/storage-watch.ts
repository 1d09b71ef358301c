/**
 * Watches how much local storage a pod uses (`storage-<uid>`), for pods that have a limit of it.
 *
 * Decides: only when to retry.
 * Owns: nothing but the watch.
 * Hears: `storage.changed`.
 * Asks: `stats.watchStorage`.
 * Sends: `eviction` `storage.exceeded`, once for each limit that is exceeded.
 * Invariants:
 *   I1 a watch that fails is started again; its failure evicts no pod.
 * Upstream: pkg/kubelet/eviction/eviction_manager.go, localStorageEviction.
 */
import { errorOf, type ItemOf, line, pick, required, sendParent, setup, typed } from '../../../../kernel/xstate.ts';
import {
  type StatsPlace,
  type StorageExceeded,
  type StorageLimits,
  statsOperations,
} from '../../../model/operations/stats.ts';

/** As upstream's monitoring interval. A folder that takes long to measure is measured less often. */
export const MONITORING_MS = 10_000;

export interface StorageWatchInput {
  readonly place: StatsPlace;
  readonly pod: { readonly uid: string; readonly name: string; readonly namespace: string };
  readonly limits: StorageLimits;
  readonly countLayers: boolean;
}

export interface StorageReport {
  readonly type: 'storage.exceeded';
  readonly uid: string;
  readonly exceeded: StorageExceeded;
}

const s = setup({
  types: typed<{
    input: StorageWatchInput;
    context: StorageWatchInput;
    events: ItemOf<(typeof statsOperations)['stats.watchStorage']>;
  }>(),
  actors: pick(statsOperations, 'stats.watchStorage'),
});

export const storageWatchMachine = s.createMachine({
  id: 'storageWatch',
  context: ({ input }) => input,
  initial: 'watching',
  states: {
    watching: {
      invoke: {
        id: 'storage',
        src: 'stats.watchStorage',
        input: ({ context }) => ({ ...context, periodMs: MONITORING_MS }),
        onError: {
          target: 'retrying',
          actions: line('warn', ({ context, event }) => [
            'Cannot measure what a pod keeps on disk',
            { uid: context.pod.uid, err: errorOf(event).message },
          ]),
        },
      },
      on: {
        'storage.changed': {
          guard: ({ event }) => event.exceeded !== null,
          actions: sendParent(
            ({ context, event }): StorageReport => ({
              type: 'storage.exceeded',
              uid: context.pod.uid,
              exceeded: required(event.exceeded, 'the limit that is exceeded'),
            }),
          ),
        },
      },
    },
    retrying: { after: { [MONITORING_MS]: 'watching' } },
  },
});
