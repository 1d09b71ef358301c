/**
 * The manager of dynamic resources: ResourceClaims of pods, and the drivers that prepare them.
 *
 * Decides: which claims are prepared, when drivers unprepare them, when the slices of a driver are deleted.
 * Owns: the drivers that registered, the claims that pods of this node use, and the checkpoint of them.
 * Hears: `claims.*` of pods and of its actors; `dra.registered` and `dra.withdrawn` of the plugin manager;
 *   `dra.reported` of its actors; `pods.known` of `pods`.
 * Asks: `host.readCheckpoints`, `host.writeCheckpoint`; its actors ask the drivers and the API server.
 * Sends: pods the outcome of their claims; the root `draManager.failed` when the checkpoint cannot be read.
 * Invariants:
 *   Q1 a pod gets only claims that are in the checkpoint.
 *   Q2 a claim that a driver may know is unprepared before it is forgotten, even if its pod is gone.
 *   Q3 a hanging driver delays only claims that it has to prepare.
 * Upstream: pkg/kubelet/cm/dra. KEP 4381.
 */
import { type AnyActorRef, errorOf, failureLine, outputOf, sendTo, to } from '../../../../kernel/xstate.ts';
import { CLAIM_STATE_FILE, claimStateText, readClaimState } from '../../../model/dra/claims.ts';
import {
  abandon,
  beginPreparation,
  connect,
  deleteSlices,
  expireSlices,
  handlePrepared,
  handleReleased,
  handleReport,
  prepare,
  reapCrashed,
  reconcile,
  release,
  withdraw,
} from './dra-claims.ts';
import { answerPod, podHealth, podsIn, preparedFor, restored, draSetup as s, stateFile } from './dra-setup.ts';

/** Upstream's period of looking for claims of pods that are gone. */
const RECONCILE_MS = 60_000;
/** The pause before a failed checkpoint write is retried. */
const WRITE_RETRY_MS = 10_000;

const unreadable = (message: string): string =>
  `failed to run Kubelet: create ResourceClaim cache: GetOrCreate() on checkpoint state: ` +
  `failed to get checkpoint ${CLAIM_STATE_FILE}: ${message}`;

const sendUnreadable = s.enqueueActions(({ event, enqueue }) => {
  enqueue.sendParent({ type: 'draManager.failed', message: unreadable(checkpointProblem(event)) });
});

const contentsOf = (event: unknown) => outputOf<{ contents: readonly (string | null)[] }>(event).contents[0] ?? null;

function checkpointProblem(event: unknown): string {
  if ((event as { readonly type: string }).type.startsWith('xstate.error')) return errorOf(event).message;
  const state = readClaimState(contentsOf(event) ?? '{}');
  return 'error' in state ? state.error : '';
}

const isReadable = ({ event }: { event: unknown }): boolean => {
  const text = contentsOf(event);
  return text === null || 'claims' in readClaimState(text);
};

const restore = s.assign(({ event }) => {
  const text = contentsOf(event);
  const state = text === null ? null : readClaimState(text);
  return state !== null && 'claims' in state ? { cache: restored(state.claims) } : { isStale: true };
});

/** The existing pods; claims of other pods are unprepared. */
const noteKnown = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'pods.known') return;
  const known = new Set(event.uids);
  const gone = podsIn(context.cache).filter((uid) => !known.has(uid));
  enqueue.assign({ abandoned: [...new Set([...context.abandoned, ...gone])] });
});

const sendKnown = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'claims.asked') return;
  const { uid } = event;
  const claims = preparedFor(context.cache, uid);
  answerPod(enqueue, uid, { type: 'claims.known', uid, claims, health: podHealth(context, uid) });
});

/** No driver has registered yet, and some may never return: a scheduler must not count on their devices. */
const announceStart = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  if (context.inCluster) deleteSlices(args, '');
  enqueue.sendTo(to('pluginManager'), { type: 'dra.driversWanted' });
  for (const type of ['claims.started', 'pods.wanted']) enqueue.sendTo(to('pods'), { type });
});

/** Answers the requests that the finished write covered. */
const answerCovered = s.enqueueActions(({ context, event, enqueue }) => {
  const failed = event.type.startsWith('xstate.error') ? errorOf(event).message : null;
  for (const each of context.covered) {
    const { uid, kind } = each;
    const problem = failed && `could not save checkpoint ${CLAIM_STATE_FILE}: ${failed}`;
    if (kind === 'recorded') {
      const error = `checkpoint ResourceClaim cache: ${problem}`;
      const verdict =
        problem === null
          ? { type: 'claims.recorded' as const, calls: each.calls }
          : { type: 'claims.refused' as const, error };
      enqueue.sendTo<AnyActorRef>(`prepare-${uid}`, verdict);
    } else if (problem !== null) {
      const error = `checkpoint ResourceClaim state: ${problem}`;
      const type = kind === 'prepared' ? ('claims.failed' as const) : ('claims.stillPrepared' as const);
      answerPod(enqueue, uid, { type, uid, error: `${ACTION_TEXTS[kind]}: ${error}` });
    } else if (kind === 'unprepared') answerPod(enqueue, uid, { type: 'claims.unprepared', uid });
    else answerPod(enqueue, uid, { type: 'claims.prepared', uid, claims: preparedFor(context.cache, uid) });
  }
  enqueue.assign({ covered: [] });
});

const ACTION_TEXTS = { prepared: 'prepare dynamic resources', unprepared: 'unprepare dynamic resources' } as const;

const checkpoint = s.createStateConfig({
  initial: 'written',
  states: {
    written: { always: { guard: 'isStale', target: 'writing' } },
    writing: {
      entry: s.assign(({ context }) => ({ isStale: false, covered: context.waiting, waiting: [] })),
      invoke: {
        id: 'write',
        src: 'host.writeCheckpoint',
        input: ({ context }) => ({ path: stateFile(context), content: claimStateText(Object.values(context.cache)) }),
        onDone: { target: 'written', actions: answerCovered },
        onError: {
          target: 'failing',
          actions: [answerCovered, failureLine('error', 'Cannot write the checkpoint of ResourceClaims')],
        },
      },
    },
    /** A new request learns at once whether the checkpoint can be written. */
    failing: { always: { guard: 'isAwaited', target: 'writing' }, after: { [WRITE_RETRY_MS]: 'writing' } },
  },
});

export const draManagerMachine = s.createMachine({
  id: 'draManager',
  context: ({ input }) => ({
    ...input,
    drivers: {},
    followed: {},
    cache: {},
    health: {},
    releases: {},
    abandoned: [],
    waiting: [],
    covered: [],
    isStale: false,
    spawned: 0,
  }),
  initial: 'loading',
  states: {
    loading: {
      meta: { waitsFor: 'the claims that an earlier start prepared' },
      invoke: {
        id: 'load',
        src: 'host.readCheckpoints',
        input: ({ context }) => ({ paths: [stateFile(context)] }),
        onDone: [
          { guard: isReadable, target: 'ready', actions: restore },
          { target: 'failed', actions: sendUnreadable },
        ],
        onError: { target: 'failed', actions: sendUnreadable },
      },
    },
    failed: { meta: { waitsFor: 'the node to end: its claims cannot be known' } },
    ready: {
      type: 'parallel',
      entry: announceStart,
      on: {
        'dra.registered': { actions: connect },
        'dra.withdrawn': { actions: withdraw },
        'dra.reported': { actions: handleReport },
        'slices.expired': { actions: expireSlices },
        'drivers.missed': { actions: sendTo(to('pluginManager'), { type: 'dra.driversWanted' }) },
        'claims.wanted': { actions: prepare },
        'claims.asked': { actions: sendKnown },
        'claims.released': { actions: release },
        'claims.abandoned': { actions: abandon },
        'claims.fetched': { actions: beginPreparation },
        'pods.known': { actions: [noteKnown, reconcile] },
        'xstate.done.actor.*': { actions: [handlePrepared, handleReleased] },
        'xstate.error.actor.*': { actions: reapCrashed },
      },
      states: {
        checkpoint,
        reconciling: {
          initial: 'resting',
          states: {
            resting: { always: { guard: 'hasAbandoned', target: 'waiting' } },
            waiting: { after: { [RECONCILE_MS]: { target: 'resting', actions: reconcile } } },
          },
        },
      },
    },
  },
});
