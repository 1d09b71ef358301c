/**
 * A pod's ResourceClaims: prepared before its sandbox is created, unprepared when nothing of it runs any more. Part of
 * the chart of `pod.ts`.
 *
 * Invariants: C1 no sandbox is created before all claims are prepared. C2 a pod is not finished before its claims are
 * unprepared. Upstream: kuberuntime_manager.go (SyncPod), kubelet.go (SyncTerminatingPod).
 */
import { line, now, to } from '../../../../kernel/xstate.ts';
import { claimsWanted } from '../../../model/dra/claims.ts';
import { type ClaimReport, type ClaimRequest, PREPARATION_FAILED } from '../../../model/dra/messages.ts';
import { eventRecorded } from '../../../model/pods/event-messages.ts';
import { podEvents } from '../../../model/reasons/reasons.ts';
import { configure, noteFailure } from './pod-actions.ts';
import { noteKill } from './pod-kill.ts';
import { refOf } from './pod-policy.ts';
import { applyChange, type Enqueue, publishNow, podSetup as s } from './pod-setup.ts';
import { hasClaims } from './pod-turns.ts';

const sendRequest = (enqueue: Enqueue, request: ClaimRequest): void => enqueue.sendTo(to('draManager'), request);

/** Requests the claims again that were prepared for an earlier start, or for an earlier sandbox. */
export const requestClaims = s.enqueueActions(({ context, enqueue }) => {
  if (hasClaims(context)) sendRequest(enqueue, { type: 'claims.asked', uid: context.uid });
});

export const handleClaims = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type === 'claims.known') {
    applyChange(enqueue, context, { claims: { prepared: event.claims, health: event.health } }, now(args));
  } else if (event.type === 'claims.prepared') {
    applyChange(
      enqueue,
      context,
      { claims: { prepared: event.claims, health: context.claims?.health ?? {} } },
      now(args),
    );
  } else if (event.type === 'claims.health' && context.claims !== null) {
    applyChange(enqueue, context, { claims: { ...context.claims, health: event.health } }, now(args));
  }
});

const requestPreparation = s.enqueueActions(({ context: { uid, namespace, name, pod, node }, enqueue }) => {
  const claims = pod === null ? [] : claimsWanted(pod, node);
  if ('error' in claims) {
    const error = `prepare dynamic resources: ${claims.error}`;
    enqueue.raise({ type: 'claims.failed', uid, error } satisfies ClaimReport);
  } else sendRequest(enqueue, { type: 'claims.wanted', uid, namespace, pod: name, wanted: claims });
});

const recordUnprepared = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'claims.failed') return;
  const { uid, namespace, name } = context;
  const text = podEvents.failedPrepareDynamicResources(event.error);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  enqueue(line('error', [PREPARATION_FAILED, { pod: `${namespace}/${name}`, uid, err: event.error }]));
});

/** Waits until the claims are prepared; a claim created in the meantime is announced by the watch. */
export const preparingClaims = s.createStateConfig({
  initial: 'asking',
  on: { 'pod.kill': { target: '#terminating.settling', actions: noteKill } },
  states: {
    asking: {
      meta: { waitsFor: 'its ResourceClaims to be prepared' },
      entry: requestPreparation,
      on: {
        'claims.prepared': { target: '#sync.creatingSandbox', actions: handleClaims },
        'claims.failed': { target: 'refused', actions: [noteFailure, recordUnprepared] },
        'claims.started': { target: 'asking', reenter: true },
      },
    },
    refused: {
      meta: { waitsFor: 'the next try to prepare its ResourceClaims' },
      on: { 'pod.configured': { target: '#sync.deciding', actions: configure } },
      after: { wait: '#sync.deciding' },
    },
  },
});

const releaseClaims = s.enqueueActions(({ context: { uid }, enqueue }) =>
  sendRequest(enqueue, { type: 'claims.released', uid }),
);

/** The pod is finished, whatever the state of its claims: `draManager` unprepares them when possible. */
export const abandonClaims = s.enqueueActions(({ context, enqueue }) => {
  if (hasClaims(context)) sendRequest(enqueue, { type: 'claims.abandoned', uid: context.uid });
});

const noteStillPrepared = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'claims.stillPrepared') return;
  const { uid, namespace, name } = context;
  publishNow(enqueue, context, now(args));
  enqueue(line('error', ['Error syncing pod, skipping', { pod: `${namespace}/${name}`, uid, err: event.error }]));
});

/** Waits until the claims are unprepared. */
export const releasingClaims = s.createStateConfig({
  initial: 'asking',
  states: {
    asking: {
      meta: { waitsFor: 'its ResourceClaims to be taken back' },
      entry: releaseClaims,
      on: {
        'claims.unprepared': '#terminated',
        'claims.stillPrepared': { target: 'refused', actions: [noteFailure, noteStillPrepared] },
        'claims.started': { target: 'asking', reenter: true },
      },
    },
    refused: {
      meta: { waitsFor: 'the next try to have its ResourceClaims taken back' },
      after: { wait: 'asking' },
    },
  },
});
