/**
 * One image (`image-<name>`): whether the node has it, and the one pull that serves everybody who waits for it.
 *
 * Decides: whether to look, to pull, or to answer from what is known; who may not ask again yet.
 * Owns: what is known of the image, who waits for it, the pull back-off of each pod.
 * Hears: `image.asked` and `image.mayPull` of `images`.
 * Asks: `cri.imageStatus`, `cri.pullImage`. Tells `pods` the answer for each container, `eventRecorder` what people
 *   see, `images` when it wants to pull and when it has.
 * Invariants:
 *   I1 one look and one pull at a time serve all who ask meanwhile.
 *   I2 within its back-off a pod gets the last error and no new pull; 10 s, 20 s, ... 300 s by pod and image.
 *   I3 policy Never never pulls; policy Always always does.
 */
import { now, type PlainError, pick, sendParent, setup, to } from '../../kernel/xstate.ts';
import type { Image } from '../api/cri.ts';
import { operations } from '../operations/index.ts';
import { containerEvents, type EventText, waitingMessages, waitingReasons } from '../reasons.ts';
import {
  type Ended,
  eventRecorded,
  type ImageFacts,
  type ImageReport,
  type ImageWanted,
  imageFacts,
} from './messages.ts';
import { goDuration, nextBackoff } from './status/index.ts';

const BACKOFF_MAX_MS = 300_000;
/** After a fresh failure the reason ErrImagePull stays this long before it becomes ImagePullBackOff. */
const SHOW_ERROR_MS = 5_000;
/** Nothing that time could change: the container asks again when its pod changes, or after this. */
const HOPELESS_RETRY_MS = 300_000;

export interface ImageInput {
  /** As the runtime is asked for it: with a tag or a digest. */
  readonly image: string;
}

interface Backoff {
  readonly ms: number;
  readonly untilMs: number;
  readonly message: string;
}

interface Context extends ImageInput {
  readonly waiting: readonly ImageWanted[];
  /** What the runtime has of it; `null` when it has not, or nobody looked. */
  readonly present: (ImageFacts & { readonly sizeBytes: string }) | null;
  readonly askedAtMs: number;
  readonly beganAtMs: number;
  /** By pod. */
  readonly backoff: Readonly<Record<string, Backoff>>;
}

type Event =
  | { readonly type: 'image.asked'; readonly request: ImageWanted }
  | { readonly type: 'image.mayPull' }
  | Ended;

const s = setup({
  types: { input: {} as ImageInput, context: {} as Context, events: {} as Event },
  actors: pick(operations, 'cri.imageStatus', 'cri.pullImage'),
  guards: {
    isUseless: ({ context }) => context.waiting.length === 0,
  },
});
type Enqueue = Parameters<Parameters<typeof s.enqueueActions>[0]>[0]['enqueue'];

const serves = (context: Context, { policy }: ImageWanted): boolean => context.present !== null && policy !== 'Always';

const say = (enqueue: Enqueue, { ref }: ImageWanted, text: EventText): void =>
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, text));

const answer = (enqueue: Enqueue, report: ImageReport): void => enqueue.sendTo(to('pods'), report);

const used = (enqueue: Enqueue, { ref }: ImageFacts): void =>
  enqueue.sendTo(to('imageGC'), { type: 'image.used', id: ref });

const ready = ({ uid, container }: ImageWanted, image: ImageFacts): ImageReport => ({
  type: 'image.ready',
  uid,
  container,
  image: { ref: image.ref, uid: image.uid, username: image.username },
});

const refusal = (request: ImageWanted, reason: string, message: string, retryMs: number): ImageReport => ({
  type: 'image.failed',
  uid: request.uid,
  container: request.container,
  reason,
  message,
  retryMs,
});

/** A container that asks again replaces its older question. */
const enlist = s.assign((args) => {
  const { context, event } = args;
  if (event.type !== 'image.asked') return {};
  const { request } = event;
  const others = context.waiting.filter(({ uid, container }) => uid !== request.uid || container !== request.container);
  const askedAtMs = context.waiting.length === 0 ? now(args) : context.askedAtMs;
  return { waiting: [...others, request], askedAtMs };
});

const noteStatus = s.assign(({ event }) => {
  const { image } = (event as unknown as { output: { image: Image | null } }).output;
  return { present: image && { ...imageFacts(image), sizeBytes: image.size } };
});

/** Answers all who need no pull: the image is there, must not be pulled, or their pod has to wait. */
const answerKnown = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const nowMs = now(args);
  const rest: ImageWanted[] = [];
  for (const request of context.waiting) {
    const backoff = context.backoff[request.uid];
    if (context.present !== null && serves(context, request)) {
      say(enqueue, request, containerEvents.present(request.image));
      used(enqueue, context.present);
      answer(enqueue, ready(request, context.present));
    } else if (request.policy === 'Never') {
      const message = waitingMessages.neverPull(request.image);
      say(enqueue, request, containerEvents.neverPull(request.image));
      answer(enqueue, refusal(request, waitingReasons.errImageNeverPull, message, HOPELESS_RETRY_MS));
    } else if (backoff && backoff.untilMs > nowMs) {
      const message = waitingMessages.imagePullBackOff(request.image, backoff.message);
      say(enqueue, request, containerEvents.pullBackOff(request.image));
      answer(enqueue, refusal(request, waitingReasons.imagePullBackOff, message, backoff.untilMs - nowMs));
    } else rest.push(request);
  }
  enqueue.assign({ waiting: rest });
});

const failLook = s.enqueueActions(({ context, event, enqueue }) => {
  const { message } = (event as unknown as { error: PlainError }).error;
  const text = `Failed to inspect image "${context.image}": ${message}`;
  for (const request of context.waiting) {
    say(enqueue, request, containerEvents.inspectFailed(text));
    answer(enqueue, refusal(request, waitingReasons.imageInspectError, text, SHOW_ERROR_MS));
  }
  enqueue.assign({ waiting: [] });
});

const beginPull = s.enqueueActions((args) => {
  for (const request of args.context.waiting) say(args.enqueue, request, containerEvents.pulling(request.image));
  args.enqueue.assign({ beganAtMs: now(args) });
});

const serveAll = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { waiting, present, askedAtMs, beganAtMs } = context;
  if (present === null) return;
  used(enqueue, present);
  const took = goDuration(now(args) - beganAtMs);
  const withWaiting = goDuration(now(args) - askedAtMs);
  for (const request of waiting) {
    say(enqueue, request, containerEvents.pulled(request.image, took, withWaiting, present.sizeBytes));
    answer(enqueue, ready(request, present));
  }
  const served = new Set(waiting.map(({ uid }) => uid));
  const backoff = Object.fromEntries(Object.entries(context.backoff).filter(([uid]) => !served.has(uid)));
  enqueue.assign({ waiting: [], backoff });
});

const failPull = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const { message } = (event as unknown as { error: PlainError }).error;
  const nowMs = now(args);
  const backoff: Record<string, Backoff> = { ...context.backoff };
  for (const request of context.waiting) {
    const before = context.backoff[request.uid];
    const quietMs = before ? nowMs - before.untilMs : 0;
    const ms = nextBackoff({ previousMs: before?.ms ?? 0, quietMs, maxMs: BACKOFF_MAX_MS });
    backoff[request.uid] = { ms, untilMs: nowMs + ms, message };
    say(enqueue, request, containerEvents.pullFailed(request.image, message));
    say(enqueue, request, containerEvents.failed(waitingReasons.errImagePull));
    answer(enqueue, refusal(request, waitingReasons.errImagePull, message, SHOW_ERROR_MS));
  }
  enqueue.assign({ waiting: [], backoff });
});

const failVanished = s.enqueueActions(({ context, enqueue }) => {
  const text = `Failed to inspect image "${context.image}": the runtime does not have it after the pull`;
  for (const request of context.waiting) {
    answer(enqueue, refusal(request, waitingReasons.imageInspectError, text, SHOW_ERROR_MS));
  }
  enqueue.assign({ waiting: [] });
});

export const imageMachine = s.createMachine({
  id: 'image',
  context: ({ input }) => ({
    ...input,
    waiting: [],
    present: null,
    askedAtMs: 0,
    beganAtMs: 0,
    backoff: {},
  }),
  initial: 'idle',
  on: { 'image.asked': { actions: enlist } },
  states: {
    /** Nobody waits for it. */
    idle: { on: { 'image.asked': { target: 'looking', actions: enlist } } },
    /** Waits for the runtime to say whether it has the image. */
    looking: {
      invoke: {
        id: 'status',
        src: 'cri.imageStatus',
        input: ({ context }) => ({ image: context.image }),
        onDone: { target: 'choosing', actions: [noteStatus, answerKnown] },
        onError: { target: 'idle', actions: failLook },
      },
    },
    choosing: { always: [{ guard: 'isUseless', target: 'idle' }, { target: 'queued' }] },
    /** Waits for permission to pull. */
    queued: {
      entry: sendParent(({ context }) => ({ type: 'image.pullWanted', image: context.image })),
      on: { 'image.mayPull': 'pulling' },
    },
    pulling: {
      entry: beginPull,
      exit: sendParent(({ context }) => ({ type: 'image.pullEnded', image: context.image })),
      invoke: {
        id: 'pull',
        src: 'cri.pullImage',
        input: ({ context }) => ({ image: context.image, sandboxConfig: null }),
        onDone: 'verifying',
        onError: { target: 'idle', actions: failPull },
      },
    },
    /** Waits for the runtime to show what was pulled: its size, its user. */
    verifying: {
      invoke: {
        id: 'verify',
        src: 'cri.imageStatus',
        input: ({ context }) => ({ image: context.image }),
        onDone: [
          {
            guard: ({ event }) => event.output.image !== null,
            target: 'idle',
            actions: [noteStatus, serveAll],
          },
          { target: 'idle', actions: failVanished },
        ],
        onError: { target: 'idle', actions: failLook },
      },
    },
  },
});
