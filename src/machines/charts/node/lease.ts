/**
 * The node's Lease: renewed every few seconds to show that this node is alive.
 *
 * Decides: when the lease is renewed and what a refused renewal means.
 * Owns: the lease as last seen.
 * Hears: only the answers of its operations.
 * Asks: `kube.get`, `kube.create`, `kube.update` of its Lease by the heartbeat client; `kube.closeConnections`.
 * Invariants:
 *   E1 a renewal is based on the newest version that was seen; a conflict reads again.
 *   E2 a deleted lease is created again, but not while there is no Node; a Lease without an owner gets the Node as
 *      owner once the Node's uid is known.
 *   E3 renewals never stop: after five failures the lease is read until the API server answers, and then renewed at
 *      once.
 *   E4 the second failed renewal in a row closes the connections once, so that no request waits for a dead one (S058).
 * Upstream: component-helpers/apimachinery/lease. Seeds: S202, S223.
 */
import type { Json } from '../../../kernel/json.ts';
import type { Ended } from '../../../kernel/xstate.ts';
import { assign, errorOf, line, now, outputOf, pick, random, setup, typed } from '../../../kernel/xstate.ts';
import type { Lease } from '../../model/api/pod.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import { doubledMs, NODE_BACK_OFF } from '../../model/values/time.ts';

export interface LeaseInput extends Decider {
  readonly nodeName: string;
  readonly durationSeconds: number;
}

/**
 * A lease is renewed four times in its duration, as upstream, with a little jitter so that nodes do not renew in step.
 */
const RENEWALS = 4;
const JITTER = 0.04;
/** Immediate retries of a renewal before the next period, as upstream. */
const TRIES_MAX = 5;
/** The failure after which upstream calls OnHeartbeatFailure. */
const REPEATED_TRIES = 2;

interface Context extends LeaseInput {
  readonly lease: Lease | null;
  /** Uid of the Node that owns the lease; empty until it is known, `null` when the Node was deleted. */
  readonly ownerUid: string | null;
  /** The pause before a missing lease is created again. */
  readonly ensureMs: number;
  readonly tries: number;
  /** The lease was read for this renewal, and not known from the one before. */
  readonly isRead: boolean;
}

type Event = { readonly type: 'node.registered'; readonly uid: string } | { readonly type: 'node.gone' } | Ended;

/** Times of the coordination API have microseconds. */
export const microTime = (ms: number): string => new Date(ms).toISOString().replace(/Z$/, '000Z');

const s = setup({
  types: typed<{ input: LeaseInput; context: Context; events: Event }>(),
  actors: pick(kubeOperations, 'kube.get', 'kube.create', 'kube.update', 'kube.closeConnections'),
  guards: {
    isRepeated: ({ context }) => context.tries === REPEATED_TRIES,
    hasNoNode: ({ context }) => context.ownerUid === null,
    mayTryAgain: ({ context }) => context.tries < TRIES_MAX,
    mayRead: ({ context }) => !context.isRead && hasBehavior(context, 'leaseAsKubelet'),
  },
  delays: {
    ensure: ({ context }) => context.ensureMs,
    renew: (args) => ((args.context.durationSeconds * 1_000) / RENEWALS) * (1 + JITTER * random(args)),
  },
});

const target = ({ nodeName }: LeaseInput, name?: string) =>
  ({
    client: 'heartbeat',
    apiVersion: 'coordination.k8s.io/v1',
    resource: 'leases',
    namespace: 'kube-node-lease',
    ...(name === undefined ? {} : { name: nodeName }),
  }) as const;

function renewed({ nodeName, durationSeconds, lease, ownerUid, behavior }: Context, nowMs: number): Lease {
  const owners =
    lease?.metadata?.ownerReferences ??
    (ownerUid ? [{ apiVersion: 'v1', kind: 'Node', name: nodeName, uid: ownerUid }] : undefined);
  return {
    kind: 'Lease',
    apiVersion: 'coordination.k8s.io/v1',
    metadata: {
      ...(lease?.metadata ?? { name: nodeName, namespace: 'kube-node-lease' }),
      ...(owners === undefined ? {} : { ownerReferences: owners }),
    },
    spec: {
      ...lease?.spec,
      // The holder of an existing lease is not changed.
      holderIdentity:
        (hasBehavior({ behavior }, 'nodeAsKubelet') ? lease?.spec?.holderIdentity : undefined) ?? nodeName,
      leaseDurationSeconds: durationSeconds,
      renewTime: microTime(nowMs),
    },
  };
}

const noteOwner = s.assign(({ event }) => (event.type === 'node.registered' ? { ownerUid: event.uid } : {}));

const noteLease = s.assign({ lease: ({ event }) => outputOf<Lease>(event), tries: 0 });

const failed = (text: string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const { message } = errorOf(event);
    enqueue(line('error', [text, { node: context.nodeName, err: message }]));
  });

const FALLBACK = 'Failed to update lease using latest lease, fallback to ensure lease';

const isCode = (code: string) => (args: { event: { error: unknown } }) => errorOf(args.event).code === code;

export const leaseMachine = s.createMachine({
  id: 'lease',
  context: ({ input }) => ({
    ...input,
    lease: null,
    ownerUid: '',
    ensureMs: NODE_BACK_OFF.baseMs,
    tries: 0,
    isRead: false,
  }),
  initial: 'reading',
  on: { 'node.registered': { actions: noteOwner }, 'node.gone': { actions: s.assign({ ownerUid: null }) } },
  states: {
    reading: {
      meta: { waitsFor: 'the lease of this node' },
      invoke: {
        id: 'get',
        src: 'kube.get',
        input: ({ context }) => target(context, context.nodeName),
        onDone: { target: 'renewing', actions: [noteLease, s.assign({ isRead: true })] },
        onError: [
          { guard: isCode('NotFound'), target: 'creating' },
          { target: 'pausing', actions: failed('Failed to ensure lease exists, will retry') },
        ],
      },
    },
    creating: {
      always: { guard: 'hasNoNode', target: 'withoutNode' },
      meta: { waitsFor: 'the API server to take the lease' },
      invoke: {
        id: 'create',
        src: 'kube.create',
        input: (args) => ({
          ...target(args.context),
          body: renewed({ ...args.context, lease: null }, now({ system: args.self.system })) as Json,
        }),
        onDone: { target: 'holding', actions: noteLease },
        onError: { target: 'pausing', actions: failed('Failed to ensure lease exists, will retry') },
      },
    },
    /** A lease created now would be garbage collected, because its Node does not exist. */
    withoutNode: {
      entry: line('error', ({ context }) => [
        'Failed to get node when trying to set owner ref to the node lease',
        { node: context.nodeName, err: `nodes ${JSON.stringify(context.nodeName)} not found` },
      ]),
      after: { renew: 'reading' },
      on: { 'node.registered': { target: 'reading', actions: noteOwner } },
    },
    pausing: {
      exit: assign({ ensureMs: ({ context }) => doubledMs(NODE_BACK_OFF, context.ensureMs) }),
      after: { ensure: 'reading' },
    },
    holding: {
      entry: assign({ ensureMs: NODE_BACK_OFF.baseMs, tries: 0, isRead: false }),
      after: { renew: 'renewing' },
    },
    renewing: {
      meta: { waitsFor: 'the API server to take the renewal' },
      entry: assign({ tries: ({ context }) => context.tries + 1 }),
      invoke: {
        id: 'update',
        src: 'kube.update',
        input: (args) => ({
          ...target(args.context, args.context.nodeName),
          body: renewed(args.context, now({ system: args.self.system })) as Json,
        }),
        onDone: { target: 'holding', actions: noteLease },
        onError: [
          { guard: isCode('Conflict'), target: 'reading', actions: failed('Failed to update lease') },
          { guard: isCode('NotFound'), target: 'creating' },
          { guard: 'isRepeated', target: 'reconnecting', actions: failed('Failed to update lease') },
          { guard: 'mayTryAgain', target: 'renewing', reenter: true, actions: failed('Failed to update lease') },
          { guard: 'mayRead', target: 'reading', actions: failed(FALLBACK) },
          { target: 'holding', actions: failed(FALLBACK) },
        ],
      },
    },
    reconnecting: {
      invoke: {
        id: 'reconnect',
        src: 'kube.closeConnections',
        input: {},
        onDone: 'renewing',
        onError: 'renewing',
      },
    },
  },
});
