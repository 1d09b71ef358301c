/**
 * The garbage collector of images.
 *
 * Decides: which images are removed, by disk usage and by age.
 * Owns: when each image was first and last used for a container, and the images of each pod's containers.
 * Hears: `images.inUse` of pods, `image.used` of images; `garbage.purge` of `eviction`, which it answers.
 * Asks: `cri.imageFsInfo`, `host.fileSystem`; only when images may have to be removed `cri.listImages`,
 *   `cri.removeImage`; `images.pruneRecords` afterwards.
 * Invariants:
 *   G1 pinned images and images of any container, dead ones included, are never removed.
 *   G2 above the high threshold the least recently used images are removed until the low threshold is reached; never
 *      one known for less than the minimum age, and none while the agent itself is younger than that.
 *   G3 in place of an image that cannot be removed the next ones are, until enough is freed.
 *   G4 with the high threshold at 100 and no maximum age it does nothing at all.
 */

import type { Ended, PlainError } from '../../../kernel/xstate.ts';
import { errorOf, line, now, outputOf, pick, sendTo, setup, to, typed } from '../../../kernel/xstate.ts';
import type { Image } from '../../model/api/cri.ts';
import type { Candidate, ImageGcKnowledge } from '../../model/images/image-choice.ts';
import {
  bytesToFree,
  hasSubstitutes,
  imagesToRemove,
  namesOf,
  usedPercentOf,
} from '../../model/images/image-choice.ts';
import { operations } from '../../model/operations/index.ts';
import type { GarbagePurge, ImageUsed } from '../../model/pods/image-messages.ts';
import { nodeEvent } from '../../model/pods/pod-messages.ts';
import { type EventText, nodeEvents } from '../../model/reasons/reasons.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../model/settings/node-settings.ts';
import type { ImagesInUse } from '../../model/status/runtime-facts.ts';
import { aggregate } from '../../model/values/go-text.ts';
import { pickKeys } from '../../model/values/tables.ts';
import { goDuration } from '../../model/values/time.ts';

/** As upstream: every five minutes. */
const IMAGE_GC_MS = 300_000;

export type ImageGcInput = Pick<
  NodeSettings,
  'behavior' | 'imageGc' | 'nodeName' | 'rootDir' | 'imagePullVerification'
>;

interface Context extends ImageGcKnowledge {
  readonly nodeName: string;
  /** The folder of pull records; `null` without them. */
  readonly recordsRoot: string | null;
  /** Images that the runtime has listed and that were not removed since. */
  readonly present: readonly string[];
  /** When the images of the runtime were listed. */
  readonly listedAtMs: number;
  readonly mountpoint: string;
  readonly capacityBytes: number;
  readonly usedPercent: number;
  readonly queue: readonly Candidate[];
  readonly freedBytes: number;
  /** Errors of this round: why images could not be removed. */
  readonly errors: readonly string[];
  /** Those of images that are too old: they end the round. Absent without `managersAsKubelet`. */
  readonly agedErrors?: readonly string[];
  /** The previous round failed as well. */
  readonly failedBefore: boolean;
  /** `eviction` waits for the answer of this round. */
  readonly purging: boolean;
}

type Event = ImagesInUse | ImageUsed | GarbagePurge | Ended;

const s = setup({
  types: typed<{ input: ImageGcInput; context: Context; events: Event }>(),
  actors: pick(
    operations,
    'cri.imageFsInfo',
    'host.fileSystem',
    'cri.listImages',
    'cri.removeImage',
    'images.pruneRecords',
  ),
  guards: {
    isOff: ({ context }) => context.policy.highThresholdPercent === 100 && context.policy.maxAgeMs === 0,
    removesNext: ({ context }) => {
      const { queue, freedBytes, toFreeBytes } = context;
      const [next] = queue;
      return next !== undefined && (!hasSubstitutes(context) || next.isTooOld || freedBytes < toFreeBytes);
    },
    hasAgedErrors: ({ context: { purging, agedErrors = [], queue } }) =>
      !purging && agedErrors.length > 0 && queue[0]?.isTooOld !== true,
    hasErrors: ({ context }) => !context.purging && context.errors.length > 0,
    isShort: ({ context }) => !context.purging && context.freedBytes < context.toFreeBytes,
    hasRemoved: ({ context }) => context.recordsRoot !== null && context.freedBytes > 0,
    mayRemoveImages: ({ context }) => context.policy.maxAgeMs > 0 || context.toFreeBytes > 0,
  },
});

/** It is unknown which images existed before the agent: all present ones may have been pulled at its start. */
const noteStart = s.assign((args) => {
  const nowMs = now(args);
  const isAsKubelet = hasBehavior(args.context, 'imagesAsKubelet');
  return { startedAtMs: nowMs, unusedSinceMs: isAsKubelet ? nowMs : 0, firstUsedAtMs: isAsKubelet ? {} : null };
});

/** An image that no container has any more was in use until now. */
const noteInUse = s.assign((args) => {
  const { context, event } = args;
  if (event.type !== 'images.inUse') return {};
  const { [event.uid]: before = [], ...others } = context.inUse;
  const inUse = event.refs.length === 0 ? others : { ...others, [event.uid]: event.refs };
  if (context.firstUsedAtMs === null) return { inUse };
  const unused = before.filter((ref) => !event.refs.includes(ref));
  return { inUse, usedAtMs: { ...context.usedAtMs, ...Object.fromEntries(unused.map((ref) => [ref, now(args)])) } };
});

const noteUse = s.assign((args) => {
  const { context, event } = args;
  if (event.type !== 'image.used') return {};
  const nowMs = now(args);
  const firstUsedAtMs = context.firstUsedAtMs && { [event.id]: nowMs, ...context.firstUsedAtMs };
  return { usedAtMs: { ...context.usedAtMs, [event.id]: nowMs }, firstUsedAtMs };
});

const noteDisk = s.assign(({ context, event }) => {
  const disk = outputOf<{ capacityBytes: string; availableBytes: string }>(event);
  const capacityBytes = Number(disk.capacityBytes);
  const availableBytes = Math.min(Number(disk.availableBytes), capacityBytes);
  const usedPercent = usedPercentOf(capacityBytes, availableBytes);
  const toFreeBytes = bytesToFree(capacityBytes, availableBytes, context.policy);
  return { capacityBytes, usedPercent, toFreeBytes, freedBytes: 0, errors: [], ...noAgedErrors(context) };
});

const noAgedErrors = ({ agedErrors }: Context): Pick<Context, 'agedErrors'> =>
  agedErrors === undefined ? {} : { agedErrors: [] };

/** Records when the list was requested: images pulled later may be missing in it. Pull records have whole seconds. */
const noteListing = s.assign((args) => ({ listedAtMs: Math.floor(now(args) / 1_000) * 1_000 }));

/** Forgets images that are gone, and chooses which of the others to remove. */
const choose = s.assign((args) => {
  const { context, event } = args;
  const { images } = outputOf<{ images: readonly Image[] }>(event);
  const present = new Set(images.flatMap(namesOf));
  const ofPresent = (times: Readonly<Record<string, number>>) => pickKeys(times, (id) => present.has(id));
  return {
    present: images.map(({ id }) => id),
    usedAtMs: ofPresent(context.usedAtMs),
    firstUsedAtMs: context.firstUsedAtMs && ofPresent(context.firstUsedAtMs),
    queue: imagesToRemove(context, images, now(args)),
  };
});

/** Removes every image that is not in use and not too young. */
const beginPurge = s.assign({ purging: true, toFreeBytes: Number.MAX_SAFE_INTEGER, freedBytes: 0, errors: [] });

const answer = s.enqueueActions(({ context, enqueue }) => {
  if (!context.purging) return;
  enqueue.assign({ purging: false, toFreeBytes: 0 });
  enqueue.sendTo(to('eviction'), { type: 'garbage.purged' });
});

const noteRemoval = s.assign(({ context }) => ({
  queue: context.queue.slice(1),
  present: context.present.filter((id) => id !== context.queue[0]?.id),
  freedBytes: context.freedBytes + (context.queue[0]?.sizeBytes ?? 0),
}));

const noteError = s.assign(({ context, event }) => {
  const { agedErrors, errors } = context;
  const [image, ...queue] = context.queue;
  const { message } = errorOf(event);
  if (image?.isTooOld !== true || agedErrors === undefined) return { queue, errors: [...errors, message] };
  return { queue, errors: [...errors, message], agedErrors: [...agedErrors, message] };
});

const logUnremoved = line<Context, { type: string; error: unknown }, undefined, Event>(
  'error',
  ({ context, event }) => ['Failed to remove image', { image: context.queue[0]?.id, err: errorOf(event).message }],
);

const FAILED_ONCE_MESSAGE = 'Image garbage collection failed once. Stats initialization may not have completed yet';
const FAILED_AGAIN_MESSAGE = 'Image garbage collection failed multiple times in a row';

/**
 * A failure becomes an event only if the previous round failed too: at first the disk may not have been measured yet.
 */
const fail = (messageOf: (context: Context, error: PlainError) => string, eventOf?: (message: string) => EventText) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const message = messageOf(context, errorOf(event));
    enqueue(line('error', [context.failedBefore ? FAILED_AGAIN_MESSAGE : FAILED_ONCE_MESSAGE, { err: message }]));
    for (const text of [eventOf, context.failedBefore ? nodeEvents.imageGCFailed : undefined]) {
      if (text) enqueue.sendTo(to('eventRecorder'), nodeEvent(context.nodeName, text(message)));
    }
    enqueue.assign({ failedBefore: true });
  });

const failed = { target: 'waiting', actions: fail((_, { message }) => message) } as const;
const succeed = s.assign({ failedBefore: false });

const noCapacity = fail(() => 'invalid capacity 0 on image filesystem', nodeEvents.imageDiskInvalid);

const notRemoved = fail(
  ({ toFreeBytes, freedBytes, errors }) =>
    `wanted to free ${toFreeBytes} bytes, but freed ${freedBytes} bytes space with errors in image deletion: ` +
    aggregate(errors),
);

const tooOldNotRemoved = fail(
  ({ policy, agedErrors = [] }) =>
    `wanted to free images older than ${goDuration(policy.maxAgeMs)}, encountered errors in image deletion: ` +
    aggregate(agedErrors),
);

const notEnough = fail(
  ({ capacityBytes, usedPercent, freedBytes }) =>
    `Insufficient free disk space on the node's image filesystem (${usedPercent}% of ${sizeText(capacityBytes)} ` +
    `used). Failed to free sufficient space by deleting unused images (freed ${freedBytes} bytes). Investigate ` +
    'disk usage, as it could be used by active images, logs, volumes, or other data.',
  nodeEvents.imageDiskFull,
);

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** A size as in upstream's texts: `10.0 GiB`. */
function sizeText(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** unit).toFixed(1)} ${UNITS[unit] ?? ''}`;
}

export const imageGcMachine = s.createMachine({
  id: 'imageGC',
  context: ({ input }) => ({
    behavior: input.behavior,
    nodeName: input.nodeName,
    recordsRoot: input.imagePullVerification ? input.rootDir : null,
    present: [],
    listedAtMs: 0,
    policy: input.imageGc,
    startedAtMs: 0,
    unusedSinceMs: 0,
    usedAtMs: {},
    firstUsedAtMs: null,
    inUse: {},
    mountpoint: '',
    capacityBytes: 0,
    usedPercent: 0,
    toFreeBytes: 0,
    queue: [],
    freedBytes: 0,
    errors: [],
    ...(hasBehavior(input, 'managersAsKubelet') ? { agedErrors: [] } : {}),
    failedBefore: false,
    purging: false,
  }),
  entry: [noteStart, sendTo(to('pods'), { type: 'garbage.wanted' })],
  initial: 'choosing',
  on: {
    'images.inUse': { actions: noteInUse },
    'image.used': { actions: noteUse },
    'garbage.purge': { target: '.listing', actions: beginPurge },
  },
  states: {
    choosing: { always: [{ guard: 'isOff', target: 'off' }, { target: 'waiting' }] },
    off: { entry: answer },
    waiting: {
      entry: answer,
      always: { guard: 'isOff', target: 'off' },
      after: { [IMAGE_GC_MS]: 'locating' },
    },
    /** Waits for the runtime to report the file system of its images. */
    locating: {
      invoke: {
        id: 'fsInfo',
        src: 'cri.imageFsInfo',
        input: {},
        onDone: {
          target: 'measuring',
          actions: s.assign({ mountpoint: ({ event }) => outputOf<{ mountpoint: string }>(event).mountpoint }),
        },
        onError: failed,
      },
    },
    measuring: {
      invoke: {
        id: 'fileSystem',
        src: 'host.fileSystem',
        input: ({ context }) => ({ path: context.mountpoint }),
        onDone: [
          {
            guard: ({ event }) => Number(event.output.capacityBytes) === 0,
            target: 'waiting',
            actions: noCapacity,
          },
          { target: 'judging', actions: noteDisk },
        ],
        onError: failed,
      },
    },
    judging: {
      always: [
        { guard: 'mayRemoveImages', target: 'listing' },
        { target: 'waiting', actions: succeed },
      ],
    },
    listing: {
      entry: noteListing,
      invoke: {
        id: 'listImages',
        src: 'cri.listImages',
        input: {},
        onDone: { target: 'next', actions: choose },
        onError: failed,
      },
    },
    next: {
      always: [
        { guard: 'hasAgedErrors', target: 'waiting', actions: tooOldNotRemoved },
        { guard: 'removesNext', target: 'removing' },
        { guard: 'hasErrors', target: 'waiting', actions: notRemoved },
        { guard: 'isShort', target: 'settling', actions: notEnough },
        { target: 'settling', actions: succeed },
      ],
    },
    settling: { always: [{ guard: 'hasRemoved', target: 'pruning' }, { target: 'waiting' }] },
    /** Waits until the records of removed images are removed. */
    pruning: {
      invoke: {
        id: 'prune',
        src: 'images.pruneRecords',
        input: ({ context: { recordsRoot, present, listedAtMs } }) => ({
          root: recordsRoot ?? '',
          keep: present,
          untilMs: listedAtMs,
        }),
        onDone: 'waiting',
        onError: failed,
      },
    },
    removing: {
      invoke: {
        id: 'removeImage',
        src: 'cri.removeImage',
        input: ({ context }) => ({ image: context.queue[0]?.id ?? '' }),
        onDone: { target: 'next', actions: noteRemoval },
        onError: { target: 'next', actions: [logUnremoved, noteError] },
      },
    },
  },
});
