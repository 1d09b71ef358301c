/**
 * One image (`image-<name>`): whether the node has it, which pods may use it, and pulls for waiting pods.
 *
 * Decides: whether to inspect, to pull, or to answer at once; which requests a pull serves; which credential is tried
 *   next; which pods are in their back-off.
 * Owns: the image in the runtime, the waiting requests, the pull back-off of each pod.
 * Hears: `image.asked`, `image.mayPull` and `image.throttled` of `images`.
 * Asks: `cri.imageStatus`, `cri.pullImage`, `images.credentials`, and `images.*` for the records of pulls.
 * Sends: pods the answer for each container, `eventRecorder` the events of pulls, `softState` the back-offs, `images`
 *   when it wants to pull and when a pull has ended.
 * Invariants:
 *   I1 one inspection and one pull at a time serve all requests with the same pull secrets (and service account, if
 *      plugins require it); no others.
 *   I2 within its back-off a pod gets the last error and no new pull; 10 s, 20 s, ... 300 s by pod and image.
 *   I3 policy Never never pulls; policy Always always does.
 *   I4 an image that needs a credential is available only to pods that have presented one (`images/verification.ts`).
 *   I5 a pod that may use the present image does not wait for the pull of another pod; requests that arrive after a
 *      pull has ended are not served by it.
 *   I6 before a pull starts its intent is on disk, so that a dying agent leaves no image of unknown origin.
 */

import { sendParent } from '../../../kernel/xstate.ts';
import { admittedDuringPull, recordName } from '../../model/images/verification.ts';
import { containerEvents } from '../../model/reasons/reasons.ts';
import {
  addForNextPull,
  addRequest,
  answerKnown,
  answersDuringPull,
  beginPull,
  beginTurn,
  decideByCredentials,
  failCredentials,
  failInspection,
  failIntent,
  failMissingImage,
  failPull,
  failRecord,
  isServedByPull,
  mayUsePresentImage,
  noteCredentials,
  noteFailure,
  noteRecord,
  noteStatus,
  pullingPod,
  queuePull,
  recordEvent,
  recordInput,
  reportPresent,
  imageSetup as s,
  serveTurn,
  throttlePull,
  warn,
} from './image-setup.ts';

/** During a pull, a pod that needs none is answered at once; one that joins it is told that the image is pulled. */
const addRequestDuringPull = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'image.asked') return;
  const { request } = event;
  const { present, verification, record } = context;
  const mayUse = answersDuringPull(context) && mayUsePresentImage(request);
  const isFree = mayUse && admittedDuringPull(verification, recordName(context), record);
  if (present !== null && isFree) return reportPresent(enqueue, request, present);
  enqueue(addRequest);
  if (answersDuringPull(context) && isServedByPull(context, request))
    recordEvent(enqueue, request, containerEvents.pulling(request.image));
});

/**
 * Decides whether the image may be used: by the record of earlier pulls, then by the credentials of the pods whose turn
 * it is.
 */
const admitting = {
  reading: s.createStateConfig({
    invoke: {
      id: 'record',
      src: 'images.pullRecord',
      input: ({ context }) => ({ ...context.place, imageRef: context.present?.ref ?? '' }),
      onDone: { target: 'choosing', actions: [noteRecord, answerKnown] },
      onError: { target: 'choosing', actions: [warn('Unable to access cache records about image pulls'), failRecord] },
    },
  }),
  choosing: s.createStateConfig({
    always: [
      { guard: 'hasNoRequests', target: 'idle' },
      { target: 'gettingCredentials', actions: beginTurn },
    ],
  }),
  /** Waits for the credentials of the pods whose turn it is. */
  gettingCredentials: s.createStateConfig({
    invoke: {
      id: 'credentials',
      src: 'images.credentials',
      input: ({ context }) => ({
        root: context.place.root,
        repository: context.repository,
        secrets: context.turn[0]?.secrets ?? [],
        pod: pullingPod(context),
      }),
      onDone: { target: 'judging', actions: [noteCredentials, decideByCredentials] },
      onError: { target: 'done', actions: failCredentials },
    },
  }),
  judging: s.createStateConfig({
    always: [
      { guard: 'mustRecordCredential', target: 'learning' },
      { guard: 'isTurnOver', target: 'done' },
      { guard: 'verifies', target: 'intending' },
      { target: 'queued' },
    ],
  }),
  /** Waits until the record contains the additional secret. */
  learning: s.createStateConfig({
    invoke: {
      id: 'learn',
      src: 'images.recordPulled',
      input: recordInput,
      onDone: { target: 'judging', actions: s.assign({ learnt: null }) },
      onError: {
        target: 'judging',
        actions: [warn('failed to write an image pulled record'), s.assign({ learnt: null })],
      },
    },
  }),
};

/** The image was inspected, and a pull begins or runs. */
const duringPull = { 'image.asked': { actions: addRequestDuringPull } } as const;

const pulled = {
  'image.asked': [{ guard: 'letsPullsEnd', actions: addForNextPull }, { actions: addRequest }],
} as const;

const pulling = s.createStateConfig({
  on: duringPull,
  entry: beginPull,
  exit: sendParent(({ context }) => ({ type: 'image.pullEnded', image: context.image })),
  initial: 'asking',
  states: {
    /** Pulls with one credential after the other, until the registry accepts one. */
    asking: {
      invoke: {
        id: 'pull',
        src: 'cri.pullImage',
        input: ({ context }) => ({
          image: context.image,
          annotations: context.turn[0]?.annotations ?? {},
          sandboxConfig: context.turn[0]?.sandboxConfig ?? null,
          auth: context.credentials[context.attempt]?.auth ?? null,
        }),
        onDone: '#image.verifying',
        onError: [
          { guard: 'hasAnotherCredential', target: 'asking', reenter: true, actions: noteFailure },
          { guard: 'verifies', target: '#image.forgetting', actions: [noteFailure, failPull] },
          { target: '#image.done', actions: [noteFailure, failPull] },
        ],
      },
    },
  },
});

const recording = {
  /** Waits for the runtime to show the pulled image: its size, its user. */
  verifying: s.createStateConfig({
    on: pulled,
    invoke: {
      id: 'verify',
      src: 'cri.imageStatus',
      input: ({ context }) => ({ image: context.image }),
      onDone: [
        { guard: ({ event }) => event.output.image === null, target: 'forgetting', actions: failMissingImage },
        { guard: 'verifies', target: 'recording', actions: noteStatus },
        { target: 'done', actions: [noteStatus, serveTurn] },
      ],
      onError: { target: 'done', actions: failInspection },
    },
  }),
  /** Waits until the record contains the credential of the pull. */
  recording: s.createStateConfig({
    on: pulled,
    invoke: {
      id: 'recordPulled',
      src: 'images.recordPulled',
      input: recordInput,
      onDone: { target: 'done', actions: serveTurn },
      onError: { target: 'done', actions: [warn('failed to write image pulled record'), serveTurn] },
    },
  }),
  forgetting: s.createStateConfig({
    invoke: {
      id: 'forgetIntent',
      src: 'images.forgetIntent',
      input: ({ context }) => context.place,
      onDone: 'done',
      onError: { target: 'done', actions: warn('failed to remove image pull intent') },
    },
  }),
};

export const imageMachine = s.createMachine({
  id: 'image',
  context: ({ input }) => ({
    ...input,
    waiting: [],
    turn: [],
    present: null,
    record: null,
    credentials: [],
    attempt: 0,
    errors: [],
    learnt: null,
    askedAtMs: 0,
    beganAtMs: 0,
    backoff: {},
  }),
  initial: 'idle',
  on: { 'image.asked': { actions: addRequest } },
  states: {
    /** No pod waits for the image. */
    idle: { on: { 'image.asked': { target: 'inspecting', actions: addRequest } }, after: { idle: 'forgotten' } },
    /** The back-offs are over, and the image has no other state. */
    forgotten: { type: 'final' },
    /** Waits for the runtime's answer whether it has the image. */
    inspecting: {
      invoke: {
        id: 'status',
        src: 'cri.imageStatus',
        input: ({ context }) => ({ image: context.image }),
        onDone: { target: 'inspected', actions: noteStatus },
        onError: { target: 'idle', actions: failInspection },
      },
    },
    inspected: {
      always: [
        { guard: 'needsRecord', target: 'reading' },
        { target: 'choosing', actions: answerKnown },
      ],
    },
    ...admitting,
    /** Waits until the intent of the pull is on disk. */
    intending: {
      on: duringPull,
      invoke: {
        id: 'recordIntent',
        src: 'images.recordIntent',
        input: ({ context }) => context.place,
        onDone: 'queued',
        onError: { target: 'done', actions: failIntent },
      },
    },
    /** Waits for permission to pull. */
    queued: {
      entry: queuePull,
      on: {
        ...duringPull,
        'image.mayPull': 'pulling',
        'image.throttled': [
          { guard: 'verifies', target: 'forgetting', actions: throttlePull },
          { target: 'done', actions: throttlePull },
        ],
      },
    },
    pulling,
    ...recording,
    /** A turn is over: requests that arrived in the meantime inspect the image again. */
    done: {
      entry: s.assign({ turn: [] }),
      always: [{ guard: 'hasNoRequests', target: 'idle' }, { target: 'inspecting' }],
    },
  },
});
