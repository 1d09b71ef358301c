/**
 * Runtime state: whether pods may be synchronised at all.
 *
 * Decides: up or down, from the conditions of the runtime and the health of PLEG.
 * Owns: the list of runtime errors and network errors.
 * Hears: `runtime.statusChanged` and `runtime.statusFailed` (runtime service), `pleg.healthy` and `pleg.unhealthy`;
 *   `runtimeState.wanted` of `nodeStatus`, which then gets each change; `network.wanted` of `pods`.
 * Asks: no operation.
 * Sends: the supervisor `runtimeState.up` and `runtimeState.down` on each change; `pods` the state of the network.
 * Invariants:
 *   T1 before the first status nothing is synchronised.
 *   T2 a missing network does not stop host-network pods: only RuntimeReady and PLEG decide.
 *   T3 pods wait from the first failure of the runtime; the Node says that it is down {@link SILENT_MS} after the last
 *      answer, also of one that hangs, so that a restart of the runtime does not make the node unready.
 * Seeds: S183, S236. Upstream: pkg/kubelet/runtime.go, updateRuntimeUp.
 */
import { assign, line, sendParent, sendTo, setup, to, typed } from '../../../kernel/xstate.ts';
import type { RuntimeAbilities, RuntimeStatusItem } from '../../model/operations/runtime.ts';
import type { NetworkChanged, PlegHealth } from '../../model/pods/pod-messages.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import { conditionError, RUNTIME_DOWN, runtimeDown } from '../../model/status/runtime-errors.ts';
import { type NodeReports, RUNTIME_UNKNOWN } from './object/facts.ts';

/** Upstream's threshold: how long a runtime may fail to answer that it is ready. */
const SILENT_MS = 30_000;

export interface RuntimeStateContext extends Decider {
  readonly runtimeError: string;
  readonly networkError: string;
  readonly plegError: string;
  /** The last answer was that the runtime is ready. */
  readonly isReady: boolean;
  /** The Node's error about a runtime that has not answered yet, or not for too long. */
  readonly silenceError: string;
  /** The Node's error about the last answer: a runtime that cannot be asked keeps it. */
  readonly answeredError: string;
  readonly abilities: RuntimeAbilities;
  /** As the runtime last reported it. */
  readonly version?: string;
  /** The runtime's conditions are part of a Node object. */
  readonly isPublished: boolean;
  /** The network error that pods know; `null` at first. */
  readonly sharedNetworkError: string | null;
}

export type RuntimeStateEvent =
  | RuntimeStatusItem
  | { readonly type: 'runtimeState.wanted' }
  | { readonly type: 'network.wanted' }
  /** It has not been ready for {@link SILENT_MS}. */
  | { readonly type: 'runtime.silent' }
  | PlegHealth;

const errorsOf = (context: RuntimeStateContext): readonly string[] =>
  [context.runtimeError, context.plegError].filter((error) => error !== '');

/** The errors in the Node, in upstream's order. */
function nodeErrorsOf(context: RuntimeStateContext): readonly string[] {
  if (!hasBehavior(context, 'runtimeStateAsKubelet')) return errorsOf(context);
  return [context.silenceError, context.plegError, context.answeredError].filter((error) => error !== '');
}

/** As upstream, a runtime that is not ready keeps the abilities that it had. */
const hasAbilities = (context: RuntimeStateContext, event: RuntimeStatusItem): boolean =>
  isReadyAnswer(event) || !hasBehavior(context, 'runtimeStateAsKubelet');

const isReadyAnswer = (event: RuntimeStateEvent): boolean =>
  event.type === 'runtime.statusChanged' && conditionError('RuntimeReady', event.conditions) === '';

const recordStatus = assign<
  RuntimeStateContext,
  Extract<RuntimeStateEvent, { type: 'runtime.statusChanged' }>,
  undefined,
  RuntimeStateEvent,
  never
>(({ context, event }) => ({
  abilities: hasAbilities(context, event) ? { handlers: event.handlers, features: event.features } : context.abilities,
  ...(event.version === undefined ? {} : { version: event.version }),
  runtimeError: conditionError('RuntimeReady', event.conditions),
  networkError: conditionError('NetworkReady', event.conditions),
}));

/** The part of the Node's status that the runtime decides. */
function reportsOf(context: RuntimeStateContext): Partial<NodeReports> {
  const { handlers, features } = context.abilities;
  return {
    runtimeErrors: nodeErrorsOf(context),
    networkError: context.networkError,
    runtimeHandlers: handlers.map((handler) => ({
      name: handler.name,
      features: {
        recursiveReadOnlyMounts: handler.features?.recursive_read_only_mounts ?? false,
        userNamespaces: handler.features?.user_namespaces ?? false,
      },
    })),
    features: features === null ? null : { supplementalGroupsPolicy: features.supplemental_groups_policy },
    ...(context.version === undefined ? {} : { runtimeVersion: context.version }),
  };
}

const s = setup({
  types: typed<{ input: Decider; context: RuntimeStateContext; events: RuntimeStateEvent }>(),
  guards: { isUp: ({ context }) => errorsOf(context).length === 0 },
});

const noteAnswer = s.enqueueActions(({ context, event, enqueue }) => {
  if (!hasBehavior(context, 'runtimeStateAsKubelet')) return;
  const isReady = isReadyAnswer(event);
  if (event.type === 'runtime.statusChanged') {
    enqueue.assign({ answeredError: conditionError('RuntimeReady', event.conditions) });
  }
  enqueue.assign({ isReady });
  if (isReady) {
    enqueue.assign({ silenceError: '' });
    enqueue.cancel('silence');
  } else if (context.isReady) {
    const silentMs = event.type === 'runtime.statusFailed' ? (event.silentMs ?? 0) : 0;
    enqueue.raise({ type: 'runtime.silent' }, { id: 'silence', delay: Math.max(0, SILENT_MS - silentMs) });
  }
});

const publish = s.enqueueActions(({ context, enqueue }) => {
  if (!context.isPublished) return;
  const message = { type: 'node.reported', reports: reportsOf(context) };
  for (const id of ['nodeStatus', 'allocation']) enqueue.sendTo(to(id), message);
});

/** Pods that come later ask for it. */
const shareNetwork = s.enqueueActions(({ context, event, enqueue }) => {
  const { networkError: error, sharedNetworkError } = context;
  if (error === sharedNetworkError && event.type !== 'network.wanted') return;
  enqueue.assign({ sharedNetworkError: error });
  enqueue.sendTo(to('pods'), { type: 'network.changed', error } satisfies NetworkChanged);
});

export const runtimeStateMachine = s.createMachine({
  id: 'runtimeState',
  context: ({ input }) => ({
    behavior: input.behavior,
    runtimeError: RUNTIME_UNKNOWN,
    networkError: '',
    plegError: '',
    isReady: false,
    silenceError: RUNTIME_UNKNOWN,
    answeredError: '',
    abilities: { handlers: [], features: null },
    isPublished: false,
    sharedNetworkError: null,
  }),
  entry: [
    sendTo(to('runtimeService'), { type: 'runtime.statusWanted' }),
    sendTo(to('pleg'), { type: 'pleg.healthWanted' }),
  ],
  initial: 'down',
  on: {
    'runtimeState.wanted': { actions: [assign({ isPublished: true }), publish] },
    'network.wanted': { actions: shareNetwork },
    'runtime.statusChanged': { actions: [recordStatus, noteAnswer, shareNetwork], target: '.judging' },
    'runtime.silent': { actions: [assign({ silenceError: RUNTIME_DOWN }), publish] },
    'runtime.statusFailed': {
      actions: [assign({ runtimeError: ({ event }) => runtimeDown(event.message) }), noteAnswer],
      target: '.judging',
    },
    'pleg.healthy': { actions: assign({ plegError: '' }), target: '.judging' },
    'pleg.unhealthy': { actions: assign({ plegError: ({ event }) => event.message }), target: '.judging' },
  },
  states: {
    judging: { entry: publish, always: [{ guard: 'isUp', target: 'up' }, { target: 'down' }] },
    up: {
      entry: sendParent({ type: 'runtimeState.up' }),
    },
    down: {
      meta: { waitsFor: 'RuntimeReady and a first complete relist' },
      entry: [
        sendParent(({ context }) => ({ type: 'runtimeState.down', errors: errorsOf(context) })),
        line('debug', ({ context }) => ['Skipping pod synchronization', { err: errorsOf(context).join(', ') }]),
      ],
    },
  },
});
