/**
 * The images of this node: one actor for each image, and a limit on concurrent pulls.
 *
 * Decides: which pulls may run at once, and which exceed the rate of pulls.
 * Owns: the queue of pulls, the pulls in progress, the tokens of `registryPullQPS`.
 * Hears: `image.wanted` of containers; `image.pullWanted` and `image.pullEnded` of its images.
 * Asks: no operation; its images do.
 * Invariants:
 *   G1 never more pulls at once, or per second, than the settings allow; first come, first served.
 *   G2 after its own start it sends `images.started`, so that waiting pods request again.
 *   G3 a crashed actor of an image is removed, and waiting pods request again.
 *   G4 an image's actor that ends is removed within the same turn, so that no request goes to an ended one.
 */
import {
  type ActionArgsOf,
  type AnyActorRef,
  childIn,
  type Ended,
  errorOf,
  line,
  now,
  random,
  setup,
  to,
  typed,
} from '../../../kernel/xstate.ts';
import type { VerificationSettings } from '../../model/images/verification.ts';
import type { ImageReport, ImageWanted } from '../../model/pods/image-messages.ts';
import { eventRecorded, podActor } from '../../model/pods/pod-messages.ts';
import { containerEvents, waitingMessages, waitingReasons } from '../../model/reasons/reasons.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../model/settings/node-settings.ts';
import { imageWithTag, parseImage, repositoryOf } from '../../model/spec/image.ts';
import { pauseMs, SYNC_BACK_OFF } from '../../model/values/time.ts';
import { imageMachine } from './image.ts';
import { imageOriginsMachine } from './image-origins.ts';

export type ImagesInput = Pick<
  NodeSettings,
  | 'behavior'
  | 'serializeImagePulls'
  | 'maxParallelImagePulls'
  | 'registryPullQPS'
  | 'registryBurst'
  | 'imagePullVerification'
  | 'pullsByServiceAccount'
  | 'rootDir'
>;

interface Context extends Decider {
  readonly root: string;
  readonly verification: VerificationSettings | null;
  readonly usesAccounts: boolean;
  /** The limit of parallel pulls; `null` for none. */
  readonly parallel: number | null;
  readonly qps: number;
  readonly burst: number;
  readonly tokens: number;
  readonly refilledAtMs: number;
  /** Ids of the images that have an actor. */
  readonly known: readonly string[];
  readonly queue: readonly string[];
  readonly pulling: readonly string[];
}

type Event =
  | ImageWanted
  | { readonly type: 'image.pullWanted'; readonly image: string }
  | { readonly type: 'image.pullEnded'; readonly image: string }
  | Ended;

const s = setup({
  types: typed<{ input: ImagesInput; context: Context; events: Event }>(),
  actors: { image: imageMachine, origins: imageOriginsMachine },
});
type Args = ActionArgsOf<typeof s>;

/** An image name that does not parse never will: the container asks again with its pod's next configuration. */
const INVALID_NAME_LATE_RETRY_MS = 300_000;
/** Upstream reports such a name with each sync of the pod. */
const invalidNameRetryMs = (args: Args): number =>
  hasBehavior(args.context, 'retriesAsKubelet')
    ? Math.round(pauseMs(SYNC_BACK_OFF, 0, random(args)))
    : INVALID_NAME_LATE_RETRY_MS;

/** The id of an image's actor. An address is a path, so slashes in the name are encoded. */
const idOf = (image: string): string => `image-${encodeURIComponent(image)}`;

const handleWanted = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'image.wanted') return;
  const parsed = parseImage(event.image);
  if ('error' in parsed) {
    const { uid, container, image: of } = event;
    const message = waitingMessages.invalidImageName(event.image, parsed.error);
    const reason = waitingReasons.invalidImageName;
    const retryMs = invalidNameRetryMs(args);
    const answer: ImageReport = { type: 'image.failed', uid, container, of, reason, message, retryMs };
    enqueue.sendTo(to('eventRecorder'), eventRecorded(event.ref, containerEvents.inspectFailed(message)));
    const { user = event.ref } = event;
    if (user !== null) enqueue.sendTo(to('eventRecorder'), eventRecorded(user, containerEvents.failed(reason)));
    enqueue.sendTo(to(podActor(uid)), answer);
    return;
  }
  const image = imageWithTag(event.image);
  const id = idOf(image);
  if (!context.known.includes(id)) {
    const { behavior, root, verification, usesAccounts } = context;
    const place = { root, image };
    const input = { behavior, image, repository: repositoryOf(image), place, verification, usesAccounts };
    enqueue.spawnChild('image', { id, input });
    enqueue.assign({ known: [...context.known, id] });
  }
  enqueue.sendTo<AnyActorRef>(id, { type: 'image.asked', request: event });
});

/** Starts queued pulls while there is room. A pull without a token of the rate limit fails, as in the kubelet. */
function release(args: Args, queue: readonly string[], pulling: readonly string[]): void {
  const { context, enqueue } = args;
  const nowMs = now(args);
  const refilled = ((nowMs - context.refilledAtMs) / 1_000) * context.qps;
  let tokens = Math.min(context.burst, context.tokens + refilled);
  const waiting = [...queue];
  const running = [...pulling];
  while (context.parallel === null || running.length < context.parallel) {
    const id = waiting.shift();
    if (id === undefined) break;
    if (context.qps > 0 && tokens < 1) {
      enqueue.sendTo<AnyActorRef>(id, { type: 'image.throttled' });
      continue;
    }
    if (context.qps > 0) tokens -= 1;
    running.push(id);
    enqueue.sendTo<AnyActorRef>(id, { type: 'image.mayPull' });
  }
  enqueue.assign({ queue: waiting, pulling: running, tokens, refilledAtMs: nowMs });
}

const queuePull = s.enqueueActions((args) => {
  if (args.event.type !== 'image.pullWanted') return;
  release(args, [...args.context.queue, idOf(args.event.image)], args.context.pulling);
});

const endPull = s.enqueueActions((args) => {
  if (args.event.type !== 'image.pullEnded') return;
  const id = idOf(args.event.image);
  release(
    args,
    args.context.queue,
    args.context.pulling.filter((other) => other !== id),
  );
});

const reapCrashed = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const id = childIn(event);
  if (!id.startsWith('image-')) return;
  const error = errorOf(event).message;
  enqueue.stopChild(id);
  enqueue(line('error', ['The actor of an image crashed', { image: decodeURIComponent(id.slice(6)), error }]));
  const without = (ids: readonly string[]) => ids.filter((other) => other !== id);
  enqueue.assign({ known: without(context.known) });
  release(args, without(context.queue), without(context.pulling));
  enqueue.sendTo(to('pods'), { type: 'images.started' }, { delay: ASK_AGAIN_MS });
});

/** The actor of an image that no pod wants has ended. */
const reap = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event);
  enqueue.stopChild(id);
  enqueue.assign({ known: context.known.filter((other) => other !== id) });
});

/** The pause before pods that waited for a crashed actor are asked to request the image again. */
const ASK_AGAIN_MS = 1_000;

export const imagesMachine = s.createMachine({
  id: 'images',
  context: ({ input }) => ({
    behavior: input.behavior,
    root: input.rootDir,
    verification: input.imagePullVerification ?? null,
    usesAccounts: input.pullsByServiceAccount === true,
    parallel: input.serializeImagePulls ? 1 : input.maxParallelImagePulls || null,
    qps: input.registryPullQPS,
    burst: input.registryBurst,
    tokens: input.registryBurst,
    refilledAtMs: 0,
    known: [],
    queue: [],
    pulling: [],
  }),
  entry: s.enqueueActions((args) => {
    const { root, verification } = args.context;
    args.enqueue.assign({ refilledAtMs: now(args) });
    if (verification !== null) args.enqueue.spawnChild('origins', { id: 'origins', input: { root } });
    args.enqueue.sendTo(to('pods'), { type: 'images.started' });
  }),
  on: {
    'image.wanted': { actions: handleWanted },
    'image.pullWanted': { actions: queuePull },
    'image.pullEnded': { actions: endPull },
    'xstate.done.actor.*': { actions: reap },
    'xstate.error.actor.*': { actions: reapCrashed },
  },
});
