/**
 * The pod lifecycle event generator: follows the pods of the runtime by the stream `cri.watchPods`.
 *
 * Decides: whether observation of the runtime can be trusted (healthy or not).
 * Owns: nothing; the port of the stream compares, and emits only changes.
 * Hears: the items of the stream; `runtime.wanted` from `syncLoop`; `pleg.healthWanted` from `runtimeState`.
 * Asks: `cri.watchPods`.
 * Sends: `pods` every change; `syncLoop` that the runtime was listed, after `pods`; `runtimeState` its health.
 * Invariants:
 *   P1 unhealthy until the first complete list; unhealthy again when listing has failed for {@link PLEG_THRESHOLD_MS}.
 *   P2 one pod that cannot be inspected never makes the node unhealthy.
 */
import { errorOf, line, type PlainError, pick, sendTo, setup, to, typed } from '../../../kernel/xstate.ts';
import { criOperations, type WatchPodsItem } from '../../model/operations/cri.ts';
import type { PlegHealth, PlegHealthWanted, RuntimeMessage, RuntimeWanted } from '../../model/pods/pod-messages.ts';
import { type Receiver, receiverOf } from '../../model/pods/source-messages.ts';
import type { NodeSettings } from '../../model/settings/node-settings.ts';
import { PLEG_UNKNOWN } from '../../model/status/runtime-errors.ts';

/**
 * Upstream's period of listing the runtime; `src/actors/cri` lists less often while the runtime's events are complete.
 */
export const RELIST_PERIOD_MS = 1_000;

/** The kubelet's threshold: three minutes without a successful list. */
const PLEG_THRESHOLD_MS = 180_000;
/** Deadline of one pod's inspection; after it only that pod is stale. */
const INSPECT_DEADLINE_MS = 10_000;
/** Inspections in parallel: enough for 100 pods in a moment, few enough not to slow the runtime down. */
const INSPECT_PARALLEL = 8;
/** The pause before the stream is opened again after it broke. */
const REOPEN_MS = 1_000;

export type PlegInput = Receiver & Pick<NodeSettings, 'relistPeriodMs'>;

interface Context extends PlegInput {
  /** A change was published since the stream was opened. */
  readonly hasPublished: boolean;
}

const NOT_SEEN = 'PLEG is not healthy: pleg was last seen active 3m0s ago; threshold is 3m0s';

const s = setup({
  types: typed<{
    input: PlegInput;
    context: Context;
    events: WatchPodsItem | RuntimeWanted | PlegHealthWanted | { type: 'xstate.error.actor.watch'; error: PlainError };
  }>(),
  actors: pick(criOperations, 'cri.watchPods'),
  actions: {
    reportHealth: sendTo(to('runtimeState'), (_, params: PlegHealth) => params),
    logFailing: line('warn', ({ event }) => [
      'Listing the pods of the runtime fails',
      { error: event.type === 'runtime.relistFailing' ? event.message : '' },
    ]),
  },
  guards: { hasPublished: ({ context }) => context.hasPublished },
});

/** `syncLoop` may act on a list only once `pods` has it. */
const publish = s.enqueueActions(({ context, event, enqueue }) => {
  const message = event as RuntimeMessage;
  const receiver = receiverOf(context);
  if (!context.hasPublished) enqueue.assign({ hasPublished: true });
  enqueue.sendTo(to(receiver), message);
  if (message.type === 'runtime.relisted' && receiver !== 'syncLoop') enqueue.sendTo(to('syncLoop'), message);
});

const healthy: PlegHealth = { type: 'pleg.healthy' };
const unhealthy = (message: string): PlegHealth => ({ type: 'pleg.unhealthy', message });

export const plegMachine = s.createMachine({
  id: 'pleg',
  context: ({ input: { relistPeriodMs, receiver } }) => ({
    relistPeriodMs,
    hasPublished: false,
    ...(receiver === undefined ? {} : { receiver }),
  }),
  type: 'parallel',
  states: {
    stream: {
      initial: 'open',
      states: {
        open: {
          invoke: {
            id: 'watch',
            src: 'cri.watchPods',
            input: ({ context }) => ({
              relistPeriodMs: context.relistPeriodMs,
              inspectDeadlineMs: INSPECT_DEADLINE_MS,
              inspectParallel: INSPECT_PARALLEL,
            }),
            onDone: 'broken',
            onError: {
              target: 'broken',
              actions: line('error', ({ event }) => [
                'The watch of the runtime broke; opening it again',
                { error: errorOf(event).message },
              ]),
            },
          },
          on: {
            'runtime.podChanged': { actions: publish },
            'runtime.sandboxChanged': { actions: publish },
            'runtime.containerChanged': { actions: publish },
            'runtime.podRemoved': { actions: publish },
            'runtime.podStale': { actions: publish },
            'runtime.relisted': { actions: publish },
            'runtime.wanted': {
              guard: 'hasPublished',
              target: 'open',
              reenter: true,
              actions: s.assign({ hasPublished: false }),
            },
          },
        },
        broken: { entry: s.assign({ hasPublished: false }), after: { [REOPEN_MS]: 'open' } },
      },
    },
    health: {
      initial: 'unseen',
      on: { 'runtime.relistFailing': { actions: 'logFailing' } },
      states: {
        unseen: {
          entry: { type: 'reportHealth', params: unhealthy(PLEG_UNKNOWN) },
          on: {
            'runtime.relisted': 'healthy',
            'pleg.healthWanted': { actions: { type: 'reportHealth', params: unhealthy(PLEG_UNKNOWN) } },
          },
        },
        healthy: {
          entry: { type: 'reportHealth', params: healthy },
          on: {
            'runtime.relistFailing': { target: 'failing', actions: 'logFailing' },
            'pleg.healthWanted': { actions: { type: 'reportHealth', params: healthy } },
          },
        },
        failing: {
          on: {
            'runtime.relistWorking': 'healthy',
            'pleg.healthWanted': { actions: { type: 'reportHealth', params: healthy } },
          },
          after: { [PLEG_THRESHOLD_MS]: 'unhealthy' },
        },
        unhealthy: {
          entry: { type: 'reportHealth', params: unhealthy(NOT_SEEN) },
          on: {
            'runtime.relistWorking': 'healthy',
            'pleg.healthWanted': { actions: { type: 'reportHealth', params: unhealthy(NOT_SEEN) } },
          },
        },
      },
    },
  },
});
