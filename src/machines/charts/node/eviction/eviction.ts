/**
 * The eviction manager: keeps enough memory, disk and process ids free on the node, if necessary by evicting pods.
 *
 * Decides: when a resource is short, what is removed, and which pod is evicted, one per turn.
 * Owns: thresholds, since when each is met, the node's pressure conditions, the facts about pods that their ranking
 *   needs.
 * Hears: `signals.*` of its watch, `node.podChanged` of pods, `storage.exceeded` of its children, `garbage.purged` of
 *   the collectors, `eviction.conditionsWanted` of `nodeStatus`.
 * Asks: `stats.diskLayout`, `stats.watchSignals`, `stats.observe`.
 * Sends: `nodeStatus` and `allocation` the conditions when they changed; `pods` which pod to kill, the collectors to
 *   remove unused images and containers.
 * Invariants:
 *   E1 nothing is reclaimed and no pod is evicted without statistics newer than the previous reclaim.
 *   E2 one pod a turn; the next turn begins when the resources of that pod are free, or after 30 s.
 *   E3 a critical pod is never evicted.
 *   E4 a condition is reported while it lasts and for the transition period after it.
 * Seeds: S150, S195, S239. Upstream: pkg/kubelet/eviction/eviction_manager.go.
 */
import { line, required, to } from '../../../../kernel/xstate.ts';
import { statsPlace } from '../../../model/cgroups/node-groups.ts';
import { type EvictionContext, initialEviction, reclaims } from '../../../model/eviction/policy.ts';
import {
  evictFirst,
  evictForStorage,
  logFailure,
  logThreshold,
  noteLayout,
  noteObservations,
  notePod,
  noteSignals,
  noteTime,
  evictionSetup as s,
  sendAgain,
} from './eviction-setup.ts';
import { MONITORING_MS } from './storage-watch.ts';

/** How long an evicted pod may take to end before the next pod is considered; as upstream. */
const POD_CLEANUP_MS = 30_000;
/** A garbage collector that takes longer is not awaited. */
const PURGE_MS = 120_000;

const watch = s.createStateConfig({
  initial: 'locating',
  states: {
    /** Waits for the file systems of images and containers. */
    locating: {
      invoke: {
        id: 'diskLayout',
        src: 'stats.diskLayout',
        input: ({ context }) => ({ place: context.place }),
        onDone: { target: 'choosing', actions: noteLayout },
        onError: { target: 'unlocated', actions: logFailure },
      },
    },
    unlocated: { after: { [MONITORING_MS]: 'locating' } },
    choosing: { always: [{ guard: 'watchesNothing', target: 'off' }, { target: 'watching' }] },
    off: {},
    watching: {
      invoke: {
        id: 'signals',
        src: 'stats.watchSignals',
        input: ({ context }) => ({ place: context.place, thresholds: context.thresholds, periodMs: MONITORING_MS }),
        onError: { target: 'blind', actions: logFailure },
      },
      on: { 'signals.changed': { actions: noteSignals }, 'signals.failed': { actions: logFailure } },
    },
    blind: { after: { [MONITORING_MS]: 'watching' } },
  },
});

const observing = {
  src: 'stats.observe' as const,
  input: ({ context }: { context: EvictionContext }) => ({ place: context.place, withPods: true }),
};

const turn = s.createStateConfig({
  initial: 'idle',
  states: {
    idle: {
      always: [
        { guard: 'isDue', target: 'observing' },
        { guard: 'hasGrace', target: 'awaitingGrace' },
      ],
    },
    /** A soft threshold is met: waits whether the shortage ends within the grace period. */
    awaitingGrace: {
      always: { guard: 'isDue', target: 'observing' },
      on: { 'shortage.noted': 'idle' },
      after: { grace: { target: 'idle', actions: noteTime } },
    },
    observing: {
      invoke: {
        id: 'observe',
        ...observing,
        onDone: { target: 'judging', actions: noteObservations },
        onError: { target: 'pausing', actions: logFailure },
      },
    },
    judging: { always: [{ guard: 'isDue', target: 'clearing' }, { target: 'idle' }] },
    clearing: {
      entry: logThreshold,
      initial: 'containers',
      states: {
        containers: {
          always: { guard: ({ context }) => !reclaims(context).containers, target: 'images' },
          entry: s.enqueueActions(({ context, enqueue }) => {
            if (reclaims(context).containers) enqueue.sendTo(to('containerGC'), { type: 'garbage.purge' });
          }),
          on: { 'garbage.purged': 'images' },
          after: { [PURGE_MS]: 'images' },
        },
        images: {
          always: [
            {
              guard: ({ context }) => !reclaims(context).images && !reclaims(context).containers,
              target: '#evicting',
            },
            { guard: ({ context }) => !reclaims(context).images, target: 'checking' },
          ],
          entry: s.enqueueActions(({ context, enqueue }) => {
            if (reclaims(context).images) enqueue.sendTo(to('imageGC'), { type: 'garbage.purge' });
          }),
          on: { 'garbage.purged': 'checking' },
          after: { [PURGE_MS]: 'checking' },
        },
        checking: {
          invoke: {
            id: 'observeAgain',
            ...observing,
            onDone: { target: 'judging', actions: noteObservations },
            onError: { target: '#evicting', actions: logFailure },
          },
        },
        judging: {
          always: [
            {
              guard: 'isCleared',
              target: '#pausing',
              actions: line('info', 'Eviction manager: able to reduce resource pressure without evicting pods.'),
            },
            { target: '#evicting' },
          ],
        },
      },
    },
    evicting: {
      id: 'evicting',
      entry: evictFirst,
      always: [{ guard: 'hasVictim', target: 'cleaning' }, { target: 'pausing' }],
    },
    /** Waits until the resources of the pod are free: its volumes may be in memory. */
    cleaning: {
      always: { guard: 'isVictimGone', target: 'observing' },
      after: {
        [POD_CLEANUP_MS]: {
          target: 'observing',
          actions: line('info', ({ context }) => [
            'Eviction manager: timed out waiting for pods to be cleaned up',
            { uid: context.victim },
          ]),
        },
      },
    },
    /** Waits, because nothing more can be reclaimed for now. */
    pausing: {
      id: 'pausing',
      entry: s.assign({ idleTurns: ({ context }) => context.idleTurns + 1 }),
      on: { 'world.changed': 'resuming' },
      after: { pause: 'observing' },
    },
    /** Something changed: further changes until the next turn are handled together. */
    resuming: { after: { [MONITORING_MS]: 'observing' } },
  },
});

/** Ends conditions whose transition period is over. */
const relief = s.createStateConfig({
  initial: 'steady',
  states: {
    steady: { always: { guard: 'hasRelief', target: 'counting' } },
    counting: {
      on: { 'shortage.noted': 'steady' },
      after: { relief: { target: 'steady', actions: noteTime } },
    },
  },
});

export const evictionMachine = s.createMachine({
  id: 'eviction',
  context: ({ input }) =>
    initialEviction(required(input.eviction, 'the settings of eviction'), statsPlace(input), input),
  entry: s.enqueueActions(({ enqueue }) => enqueue.sendTo(to('pods'), { type: 'garbage.wanted' })),
  on: {
    'node.podChanged': { actions: notePod },
    'storage.exceeded': { actions: evictForStorage },
    'eviction.conditionsWanted': { actions: sendAgain },
  },
  type: 'parallel',
  states: { watch, turn, relief },
});
