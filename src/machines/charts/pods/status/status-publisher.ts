/**
 * The status of one pod in the API server (`pod-<uid>` below `status`).
 *
 * Decides: when a change is written, how long it waits for the next one, when the object is deleted for good.
 * Owns: the newest status of the pod, its status in the API server, the back-off.
 * Hears: `status.changed`, `status.reclaimed` of the pod, `status.observed` and (when the object is gone)
 *   `status.listed` of the API server, through `status`.
 * Asks: `kube.patch` of `pods/status`, and `kube.delete` when nothing of a deleted pod is left on this node.
 * Invariants:
 *   U1 a write has the difference to the last known object of the API server; never a GET, one call at a time.
 *   U2 every write names the uid of its pod: another pod of the same name is never changed.
 *   U3 the object is deleted only when it is being deleted, has a terminal phase, and the node has nothing of it left.
 *   U4 another client's change of the pod's own fields is written back.
 *   U5 a field that the API server accepted but did not keep (newer than it, or behind a gate) is not sent again.
 *   U6 a write that the API server rejected or deferred waits for the back-off; one without an answer is repeated with
 *      the next change of the pod.
 */

import type { Ended, PlainError } from '../../../../kernel/xstate.ts';
import { errorOf, now, outputOf, pick, random, setup, typed } from '../../../../kernel/xstate.ts';
import type { PodRef, PodStatus } from '../../../model/api/pod.ts';
import { kubeOperations } from '../../../model/operations/kube.ts';
import type { StatusMessage } from '../../../model/pods/pod-messages.ts';
import type { SeenPod } from '../../../model/pods/source-messages.ts';
import { isTerminalPhase } from '../../../model/status/phase.ts';
import type { PodStage } from '../../../model/status/pod-status.ts';
import { pauseMs, STATUS_BACK_OFF, WRITE_BACK_OFF } from '../../../model/values/time.ts';
import { statusPatch, type Urgency, urgencyOf, type Writing } from './status-patch.ts';

/** How long a change waits for others. A pod that starts within `soon` causes one write, any other pod two. */
const MAX_WAIT_MS: Readonly<Record<Urgency, number>> = { now: 0, soon: 500, later: 10_000 };

export interface PublisherInput extends PodRef, Writing {}

interface Context extends PublisherInput {
  readonly own: PodStatus | null;
  readonly stage: PodStage;
  readonly isReclaimed: boolean;
  readonly seen: SeenPod | null;
  /** The remaining difference after the last accepted patch, as text; empty if the API server kept everything. */
  readonly unkept: string;
  /** While a patch is in progress: `own` has changed since. */
  readonly isOutdated: boolean;
  /** While a patch is in progress: the object was observed since. */
  readonly isSeenAnew: boolean;
  /** The uid of an object that was deleted for good; the object may stay for its finalizers. */
  readonly deletedUid: string;
  /** Since when there is a change to write; `null` if there is none. */
  readonly sinceMs: number | null;
  readonly failures: number;
  readonly untilMs: number;
}

type CallError = PlainError & { readonly retryAfterMs?: number };
const isUnanswered = ({ retriable, retryAfterMs }: CallError): boolean => retriable && retryAfterMs === undefined;

const s = setup({
  types: typed<{ input: PublisherInput; context: Context; events: StatusMessage | Ended }>(),
  actors: pick(kubeOperations, 'kube.patch', 'kube.delete'),
  guards: {
    hasPatch: ({ context }) =>
      patchOf(context) !== null && (context.unkept === '' || patchText(context) !== context.unkept),
    mayDelete: ({ context: { own, seen, stage, isReclaimed, deletedUid } }) =>
      seen !== null &&
      !seen.isMirror &&
      seen.isDeleting &&
      seen.uid !== deletedUid &&
      stage !== 'sync' &&
      isReclaimed &&
      isTerminalPhase(own?.phase),
    isGone: ({ event }) => errorOf(event).code === 'NotFound',
    isUnanswered: ({ event }) => isUnanswered(errorOf(event)),
    hasNewStatus: ({ context, event }) =>
      event.type === 'status.observed' && event.seen?.resourceVersion !== context.seen?.resourceVersion,
  },
  delays: {
    patience: (args) => Math.max(0, dueMs(args.context) - now(args)),
    backOff: (args) => Math.max(0, args.context.untilMs - now(args)),
  },
});

const patchOf = ({ own, seen, stage, clears = false }: Context) =>
  own === null || seen === null ? null : statusPatch(own, seen, stage, { clears });

const patchText = (context: Context): string => {
  const patch = patchOf(context);
  return patch === null ? '' : JSON.stringify(patch);
};

const dueMs = ({ own, seen, stage, sinceMs }: Context): number =>
  (sinceMs ?? 0) + (own === null || seen === null ? 0 : MAX_WAIT_MS[urgencyOf(own, seen, stage)]);

const handleChange = s.assign(({ context, event }) => {
  switch (event.type) {
    case 'status.changed':
      return {
        own: event.status,
        stage: event.stage,
        isReclaimed: context.isReclaimed && event.stage === 'terminated',
      };
    case 'status.reclaimed':
      return { isReclaimed: true };
    case 'status.observed':
      return { seen: newest(context.seen, event.seen) };
    case 'status.listed':
      return { seen: null };
    default:
      return {};
  }
});

/** The newer of two versions: the watch may lag behind the answer of a PATCH. */
function newest(known: SeenPod | null, seen: SeenPod | null): SeenPod | null {
  if (known === null || seen === null || known.uid !== seen.uid) return seen;
  return isOlder(seen.resourceVersion, known.resourceVersion) ? known : seen;
}

const isOlder = (version: string, than: string): boolean =>
  /^\d+$/.test(version) && /^\d+$/.test(than) && BigInt(version) < BigInt(than);

const noteChangeTime = s.assign({ sinceMs: (args) => args.context.sinceMs ?? now(args) });

interface Answer {
  readonly metadata: { readonly uid?: string; readonly resourceVersion?: string; readonly deletionTimestamp?: string };
  readonly status?: PodStatus;
}

const noteWritten = s.assign(({ context, event }) => {
  const { metadata, status } = outputOf<Answer>(event);
  const answer: SeenPod | null = context.seen && {
    ...context.seen,
    resourceVersion: metadata.resourceVersion ?? '',
    isDeleting: metadata.deletionTimestamp !== undefined,
    status: status ?? {},
  };
  const latest = newest(context.seen, answer);
  const unkept = context.isOutdated ? '' : patchText({ ...context, seen: latest });
  return { seen: latest, unkept, sinceMs: null, failures: 0 };
});

const noteFailure = s.assign((args) => {
  const error = errorOf(args.event);
  const { failures } = args.context;
  const backOffMs = pauseMs(isUnanswered(error) ? STATUS_BACK_OFF : WRITE_BACK_OFF, failures, random(args));
  return { failures: failures + 1, untilMs: now(args) + Math.max(backOffMs, error.retryAfterMs ?? 0) };
});

const noteGone = s.assign({
  seen: ({ context: { isSeenAnew, seen } }) => (isSeenAnew ? seen : null),
  failures: 0,
});

const noteDeleted = s.assign({ deletedUid: ({ context }) => context.seen?.uid ?? '', failures: 0 });

const target = ({ namespace, name }: Context) => ({
  client: 'kube' as const,
  apiVersion: 'v1',
  resource: 'pods',
  namespace,
  name,
});

export const statusPublisherMachine = s.createMachine({
  id: 'statusPublisher',
  context: ({ input }) => ({
    ...input,
    own: null,
    stage: 'sync',
    isReclaimed: false,
    seen: null,
    unkept: '',
    isOutdated: false,
    isSeenAnew: false,
    deletedUid: '',
    sinceMs: null,
    failures: 0,
    untilMs: 0,
  }),
  initial: 'deciding',
  on: {
    'status.changed': { actions: handleChange },
    'status.reclaimed': { actions: handleChange },
    'status.observed': { actions: handleChange },
    'status.listed': { actions: handleChange },
  },
  states: {
    deciding: {
      always: [
        { guard: 'hasPatch', target: 'gathering' },
        { guard: 'mayDelete', target: 'deleting' },
        { target: 'current', actions: s.assign({ sinceMs: null }) },
      ],
    },
    /** The API server has the wanted status: waits for a change. */
    current: {
      on: {
        'status.changed': { target: 'deciding', actions: handleChange },
        'status.reclaimed': { target: 'deciding', actions: handleChange },
        'status.observed': { target: 'deciding', actions: handleChange },
      },
    },
    /** Waits for more changes, as long as this change may wait. */
    gathering: {
      entry: noteChangeTime,
      after: { patience: 'patching' },
      on: {
        'status.changed': { target: 'deciding', actions: handleChange },
        'status.observed': { target: 'deciding', actions: handleChange },
        'status.listed': { target: 'deciding', actions: handleChange },
      },
    },
    patching: {
      entry: s.assign({ isOutdated: false, isSeenAnew: false }),
      on: {
        'status.changed': { actions: [handleChange, s.assign({ isOutdated: true })] },
        'status.observed': { actions: [handleChange, s.assign({ isSeenAnew: true })] },
      },
      invoke: {
        id: 'patch',
        src: 'kube.patch',
        input: ({ context }) => ({
          ...target(context),
          subresource: 'status',
          patchType: 'application/strategic-merge-patch+json',
          body: patchOf(context) ?? {},
        }),
        onDone: { target: 'deciding', actions: noteWritten },
        onError: [
          // The watch shows, or has shown, the present object.
          { guard: 'isGone', target: 'deciding', actions: noteGone },
          { guard: 'isUnanswered', target: 'unanswered', actions: noteFailure },
          { target: 'backingOff', actions: noteFailure },
        ],
      },
    },
    deleting: {
      invoke: {
        id: 'delete',
        src: 'kube.delete',
        input: ({ context }) => ({
          ...target(context),
          gracePeriodSeconds: 0,
          preconditions: { uid: context.seen?.uid ?? '' },
        }),
        onDone: { target: 'deciding', actions: noteDeleted },
        onError: [
          { guard: 'isGone', target: 'deciding', actions: noteDeleted },
          { guard: 'isUnanswered', target: 'unanswered', actions: noteFailure },
          { target: 'backingOff', actions: noteFailure },
        ],
      },
    },
    /**
     * No answer: a change of the status is tried at once, whatever the back-off, because the API server may be back.
     */
    unanswered: {
      after: { backOff: 'deciding' },
      on: {
        'status.changed': { target: 'deciding', actions: handleChange },
        'status.observed': { guard: 'hasNewStatus', target: 'deciding', actions: handleChange },
      },
    },
    /** The API server rejected the write, or asked for a pause: waits. */
    backingOff: { after: { backOff: 'deciding' } },
  },
});
