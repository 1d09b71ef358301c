/** Types, guards and actions of an image's machine. The chart is in `image.ts`. */
import {
  type Ended,
  type EnqueueOf,
  errorIn,
  errorOf,
  line,
  now,
  outputOf,
  pick,
  required,
  setup,
  to,
  typed,
} from '../../../kernel/xstate.ts';
import type { Image } from '../../model/api/cri.ts';
import type { Admission, VerificationSettings } from '../../model/images/verification.ts';
import { admission, admittedByRecord, recordName, recordOf } from '../../model/images/verification.ts';
import type { PullCredential, PulledCredentials, PullingPod, PullRecord } from '../../model/operations/image.ts';
import { operations } from '../../model/operations/index.ts';
import { type ImageFacts, type ImageReport, type ImageWanted, imageFacts } from '../../model/pods/image-messages.ts';
import { eventRecorded, podActor, type RememberedPull } from '../../model/pods/pod-messages.ts';
import {
  containerEvents,
  type EventText,
  pullFailure,
  runtimeErrorText,
  waitingMessages,
  waitingReasons,
} from '../../model/reasons/reasons.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import { nextBackoff, RESET_AFTER_MAX_DELAYS } from '../../model/spec/restart.ts';
import { aggregate } from '../../model/values/go-text.ts';
import { pickKeys } from '../../model/values/tables.ts';
import { goDuration } from '../../model/values/time.ts';

const BACKOFF_MAX_MS = 300_000;
/** After this time without a pull a back-off is reset. */
export const PULL_QUIET_MS = RESET_AFTER_MAX_DELAYS * BACKOFF_MAX_MS;
/** The reason ErrImagePull is shown this long before it becomes ImagePullBackOff. */
const SHOW_ERROR_MS = 5_000;
/** An image that must not be pulled is looked up again after this time: it may have come from elsewhere. */
const NEVER_PULL_RETRY_MS = 10_000;
/** The same period on a node without the behavior `imagesAsKubelet`. */
const NEVER_PULL_LATE_RETRY_MS = 300_000;
/** An image that no pod requested for this long is forgotten, so that actors do not accumulate. */
const IDLE_MS = 300_000;

export interface ImageInput extends Decider {
  /** The name for the runtime: with a tag or a digest. */
  readonly image: string;
  /** The repository of the image, without tag and digest. */
  readonly repository: string;
  /** The folder with the records of pulls, and the name of this image's record. */
  readonly place: { readonly root: string; readonly image: string };
  /** `null`: every pod may use a present image. */
  readonly verification: VerificationSettings | null;
  /** Whether a plugin provides credentials by the service account of a pod. */
  readonly usesAccounts: boolean;
}

interface Context extends ImageInput {
  /** Requests without an answer that the current pull does not serve. */
  readonly waiting: readonly ImageWanted[];
  /** The pods whose credentials are used for the pull: all name the same pull secrets. */
  readonly turn: readonly ImageWanted[];
  /** The image in the runtime; `null` if the runtime does not have it, or was not asked yet. */
  readonly present: (ImageFacts & { readonly sizeBytes: string }) | null;
  /** The record of earlier pulls; `null` if it does not matter. */
  readonly record: PullRecord | null;
  readonly credentials: readonly PullCredential[];
  readonly attempt: number;
  /** Why the registry rejected the credentials tried before. */
  readonly errors: readonly string[];
  /** The credential to add to the record. */
  readonly learnt: PulledCredentials | null;
  readonly askedAtMs: number;
  readonly beganAtMs: number;
  /** Back-offs of pulls by pod uid. */
  readonly backoff: Readonly<Record<string, RememberedPull>>;
}

type Event =
  | { readonly type: 'image.asked'; readonly request: ImageWanted }
  | { readonly type: 'image.mayPull' }
  /** The rate limit has no token left for this pull. */
  | { readonly type: 'image.throttled' }
  | Ended;

export const imageSetup = setup({
  types: typed<{ input: ImageInput; context: Context; events: Event }>(),
  actors: pick(
    operations,
    'cri.imageStatus',
    'cri.pullImage',
    'images.credentials',
    'images.pullRecord',
    'images.recordIntent',
    'images.recordPulled',
    'images.forgetIntent',
  ),
  guards: {
    hasNoRequests: ({ context }) => context.waiting.length === 0,
    isTurnOver: ({ context }) => context.turn.length === 0,
    verifies: ({ context }) => context.verification !== null,
    needsRecord: ({ context }) =>
      context.verification !== null &&
      context.present !== null &&
      (answersDuringPull(context) || context.waiting.some(mayUsePresentImage)),
    mustRecordCredential: ({ context }) => context.learnt !== null,
    letsPullsEnd: ({ context }) => hasBehavior(context, 'detailsAsKubelet'),
    hasAnotherCredential: ({ context }) => context.attempt + 1 < context.credentials.length,
  },
  delays: {
    /** Milliseconds until the image is forgotten. A back-off counts until a long time without pulls resets it. */
    idle: (args) => {
      const ends = Object.values(args.context.backoff).map(({ untilMs }) => untilMs + PULL_QUIET_MS - now(args));
      return Math.max(IDLE_MS, ...ends);
    },
  },
});
const s = imageSetup;
type Enqueue = EnqueueOf<typeof s>;

const isAsKubelet = (context: Context): boolean => hasBehavior(context, 'imagesAsKubelet');
export const answersDuringPull = (context: Context): boolean => hasBehavior(context, 'pullsAsKubelet');

export const mayUsePresentImage = ({ policy }: ImageWanted): boolean => policy !== 'Always';

export const recordEvent = (enqueue: Enqueue, { ref }: ImageWanted, text: EventText): void =>
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, text));

const used = (enqueue: Enqueue, { ref }: ImageFacts): void =>
  enqueue.sendTo(to('imageGC'), { type: 'image.used', id: ref });

function reportReady(
  enqueue: Enqueue,
  { uid, container, image: of }: ImageWanted,
  { ref, uid: user, username }: ImageFacts,
  more: Pick<ImageFacts, 'event'> = {},
): void {
  const image = { ref, uid: user, username, ...more };
  const answer: ImageReport = { type: 'image.ready', uid, container, of, image };
  enqueue.sendTo(to(podActor(answer.uid)), answer);
}

function reportRefused(enqueue: Enqueue, request: ImageWanted, reason: string, message: string, retryMs: number): void {
  const { uid, container, image: of } = request;
  const answer: ImageReport = { type: 'image.failed', uid, container, of, reason, message, retryMs };
  const { user = request.ref } = request;
  if (user !== null) recordEvent(enqueue, { ...request, ref: user }, containerEvents.failed(reason));
  enqueue.sendTo(to(podActor(answer.uid)), answer);
}

export function reportPresent(enqueue: Enqueue, request: ImageWanted, image: ImageFacts): void {
  used(enqueue, image);
  reportReady(enqueue, request, image, { event: containerEvents.present(request.image) });
}

/** The same text for an absent image and a forbidden one: to a pod without access it does not exist. */
function refuseNeverPull(enqueue: Enqueue, context: Context, request: ImageWanted): void {
  recordEvent(enqueue, request, containerEvents.neverPull(request.image));
  const message = waitingMessages.neverPull(request.image);
  const retryMs = isAsKubelet(context) ? NEVER_PULL_RETRY_MS : NEVER_PULL_LATE_RETRY_MS;
  reportRefused(enqueue, request, waitingReasons.errImageNeverPull, message, retryMs);
}

const backoffOf = ({ backoff }: Context, { uid, remembered }: ImageWanted): RememberedPull | null =>
  backoff[uid] ?? remembered;

/** Answers a request whose pod is in its back-off; returns true if it was. */
function refuseInBackoff(enqueue: Enqueue, context: Context, request: ImageWanted, nowMs: number): boolean {
  const backoff = backoffOf(context, request);
  if (!backoff || backoff.untilMs <= nowMs) return false;
  const message = waitingMessages.imagePullBackOff(request.image, backoff.message);
  recordEvent(enqueue, request, containerEvents.pullBackOff(request.image));
  reportRefused(enqueue, request, waitingReasons.imagePullBackOff, message, backoff.untilMs - nowMs);
  return true;
}

/** The key by which requests share a turn: pods with the same credential lookup. */
const keyOf = ({ usesAccounts }: Context, { secrets, ref, serviceAccount }: ImageWanted): string =>
  JSON.stringify([
    secrets.map(({ namespace, name, version }) => [namespace, name, version]),
    ...(usesAccounts ? [ref.namespace, serviceAccount] : []),
  ]);

/** The pod for the credential lookup: any of those that share the turn. */
export function pullingPod({ turn: [first] }: Context): PullingPod | null {
  if (first === undefined) return null;
  const { uid, serviceAccount, ref } = first;
  return { namespace: ref.namespace, name: ref.name, uid, serviceAccount };
}

/** A repeated request replaces the older one. */
const adding = (joins: (context: Context, request: ImageWanted) => boolean) =>
  s.assign((args) => {
    const { context, event } = args;
    if (event.type !== 'image.asked') return {};
    const { request } = event;
    const isOther = ({ uid, container }: ImageWanted) => uid !== request.uid || container !== request.container;
    const [turn, waiting] = [context.turn.filter(isOther), context.waiting.filter(isOther)];
    const askedAtMs = waiting.length + turn.length === 0 ? now(args) : context.askedAtMs;
    return joins(context, request)
      ? { turn: [...turn, request], waiting, askedAtMs }
      : { turn, waiting: [...waiting, request], askedAtMs };
  });

/** A running pull serves all requests with the same secrets. */
export const addRequest = adding(isServedByPull);

/** Adds a request that comes too late for the ending pull. */
export const addForNextPull = adding(() => false);

/** Whether the running pull serves this request too. Access to a present image is decided for each pod. */
export function isServedByPull(context: Context, request: ImageWanted): boolean {
  const { turn, beganAtMs } = context;
  const [first] = turn;
  if (first === undefined || beganAtMs === 0 || request.policy === 'Never') return false;
  return keyOf(context, first) === keyOf(context, request);
}

export const noteStatus = s.assign(({ event }) => {
  const { image } = outputOf<{ image: Image | null }>(event);
  return { present: image && { ...imageFacts(image), sizeBytes: image.size }, record: null };
});

export const noteRecord = s.assign(({ event }) => ({
  record: outputOf<PullRecord>(event),
}));

/** An unreadable record grants nothing: pods need their credentials again. */
export const failRecord = s.assign({ record: { intended: true, record: null } });

/** Answers every request that needs no credential: the pod may use the image, must not pull it, or has to wait. */
export const answerKnown = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { present, verification, record } = context;
  const isFree = verification === null || record === null;
  const anyway = present && (isFree ? true : admittedByRecord(verification, recordName(context), record));
  const rest = context.waiting.filter((request) => {
    const admitted = mayUsePresentImage(request) ? (anyway ?? null) : false;
    if (present !== null && admitted === true) reportPresent(enqueue, request, present);
    else if (request.policy === 'Never' && (present === null || admitted === false))
      refuseNeverPull(enqueue, context, request);
    else return (present !== null && admitted === null) || !refuseInBackoff(enqueue, context, request, now(args));
    return false;
  });
  enqueue.assign({ waiting: rest });
});

export const beginTurn = s.assign(({ context }) => {
  const { waiting } = context;
  const key = keyOf(context, required(waiting[0], 'the request whose turn it is'));
  return {
    turn: waiting.filter((each) => keyOf(context, each) === key),
    waiting: waiting.filter((each) => keyOf(context, each) !== key),
    credentials: [],
    attempt: 0,
    errors: [],
    learnt: null,
    beganAtMs: 0,
  };
});

export const noteCredentials = s.assign(({ event }) => ({
  credentials: outputOf<{ credentials: readonly PullCredential[] }>(event).credentials,
}));

/** With the credentials it is known which pods may use the present image; for the others it is pulled, or denied. */
export const decideByCredentials = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const verdict = verdictOf(context);
  const turn = context.turn.filter((request) => {
    if (context.present !== null && mayUsePresentImage(request) && verdict?.admitted) {
      reportPresent(enqueue, request, context.present);
    } else if (request.policy === 'Never') refuseNeverPull(enqueue, context, request);
    else return !refuseInBackoff(enqueue, context, request, now(args));
    return false;
  });
  enqueue.assign({ turn, learnt: verdict?.learnt ?? null });
});

/** Whether this credential admits the pod; `null` if credentials do not decide. */
function verdictOf(context: Context): Admission | null {
  const { verification, record, credentials } = context;
  const pulled = record?.record?.[recordName(context)];
  if (verification === null || record === null || pulled === undefined) return null;
  return admittedByRecord(verification, recordName(context), record) === null ? admission(pulled, credentials) : null;
}

/** The input that records the learnt credential, or the credential of the pull. */
export const recordInput = ({ context }: { context: Context }) => ({
  ...context.place,
  imageRef: context.present?.ref ?? '',
  repository: recordName(context),
  credentials: context.learnt ?? recordOf(context.credentials[context.attempt]),
});

const announcePull = (enqueue: Enqueue, { turn }: Context): void => {
  for (const request of turn) recordEvent(enqueue, request, containerEvents.pulling(request.image));
};

/** A pod that waits for permission to pull is told at once why. */
export const queuePull = s.enqueueActions(({ context, enqueue }) => {
  if (isAsKubelet(context)) announcePull(enqueue, context);
  enqueue.sendParent({ type: 'image.pullWanted', image: context.image });
});

export const beginPull = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  if (!isAsKubelet(context)) announcePull(enqueue, context);
  enqueue.assign({ beganAtMs: now(args) });
});

export const serveTurn = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { turn, present, askedAtMs, beganAtMs } = context;
  if (present === null) return;
  used(enqueue, present);
  const took = goDuration(now(args) - beganAtMs);
  const withWaiting = goDuration(now(args) - askedAtMs);
  for (const request of turn) {
    recordEvent(enqueue, request, containerEvents.pulled(request.image, took, withWaiting, present.sizeBytes));
    reportReady(enqueue, request, present);
    if (backoffOf(context, request)) remember(enqueue, request, null);
  }
  const served = new Set(turn.map(({ uid }) => uid));
  const backoff = pickKeys(context.backoff, (uid) => !served.has(uid));
  enqueue.assign({ turn: [], backoff });
});

const remember = (enqueue: Enqueue, { uid, image }: ImageWanted, pull: RememberedPull | null): void =>
  enqueue.sendTo(to('softState'), { type: 'softState.pulled', key: `${uid}/${image}`, pull });

export const noteFailure = s.assign(({ context, event }) => {
  const { message } = errorOf(event);
  return { errors: [...context.errors, runtimeErrorText(message)], attempt: context.attempt + 1 };
});

export const failPull = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const error = aggregate(context.errors);
  const nowMs = now(args);
  const isOver = ({ untilMs }: RememberedPull): boolean => nowMs - untilMs > PULL_QUIET_MS;
  const active = Object.entries(context.backoff).filter(([, each]) => !isOver(each));
  const backoff: Record<string, RememberedPull> = Object.fromEntries(active);
  for (const request of context.turn) {
    const before = backoffOf(context, request);
    const quietMs = before ? nowMs - before.untilMs : 0;
    const ms = nextBackoff({ previousMs: before?.backoffMs ?? 0, quietMs, maxMs: BACKOFF_MAX_MS });
    const { reason, message } = pullFailure(request.image, error);
    const next = { backoffMs: ms, untilMs: nowMs + ms, message: `${reason}: ${message}` };
    if (backoff[request.uid]?.untilMs !== next.untilMs) remember(enqueue, request, next);
    backoff[request.uid] = next;
    recordEvent(enqueue, request, containerEvents.pullFailed(request.image, error));
    reportRefused(enqueue, request, reason, message, SHOW_ERROR_MS);
  }
  enqueue.assign({ turn: [], backoff });
});

/** A throttled pull ends as soon as it has begun. */
export const throttlePull = [beginPull, s.assign({ errors: [waitingMessages.pullQPSExceeded] }), failPull];

export const warn = (text: string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const error = errorOf(event).message;
    enqueue(line('warn', [text, { image: context.image, error }]));
  });

/** The turn ends for a reason other than the registry: the pod gets no back-off, but does not retry at once either. */
const failTurn = (text: (context: Context, error: string) => string, reason: string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const message = text(context, errorIn(event)?.message ?? '');
    for (const request of context.turn) reportRefused(enqueue, request, reason, message, SHOW_ERROR_MS);
    enqueue.assign({ turn: [] });
  });

export const failCredentials = failTurn((_, error) => error, waitingReasons.errImagePull);

export const failIntent = failTurn(
  ({ place }, error) => `Failed to record image pull intent for container image "${place.image}": ${error}`,
  waitingReasons.errImagePull,
);

export const failMissingImage = failTurn(
  ({ image }) => `Failed to inspect image "${image}": the runtime does not have it after the pull`,
  waitingReasons.imageInspectError,
);

export const failInspection = s.enqueueActions(({ context, event, enqueue }) => {
  const { message } = errorOf(event);
  const text = `Failed to inspect image "${context.image}": ${message}`;
  for (const request of [...context.waiting, ...context.turn]) {
    recordEvent(enqueue, request, containerEvents.inspectFailed(text));
    reportRefused(enqueue, request, waitingReasons.imageInspectError, text, SHOW_ERROR_MS);
  }
  enqueue.assign({ waiting: [], turn: [] });
});
