/**
 * The garbage collector of images.
 *
 * Decides: which images go, by use of the disk and by age. Owns: when each image was last given to a container, and
 * which images each pod's containers have.
 * Hears: `images.inUse` of pods, `image.used` of images; `garbage.purge` of `eviction`, which it answers.
 * Asks: `cri.imageFsInfo`, `host.fileSystem`; only when something may have to go `cri.listImages`, `cri.removeImage`;
 *   `images.pruneRecords` afterwards.
 * Invariants:
 *   G1 pinned images and images of any container, dead ones included, are never removed.
 *   G2 above the high threshold the least recently used go first, until the low threshold is reached; none that was
 *      used less than the minimum age ago.
 *   G3 with the high threshold at 100 and no maximum age it does nothing at all.
 */
import { line, now, type PlainError, pick, sendTo, setup, to } from '../../../kernel/xstate.ts';
import type { Image } from '../../api/cri.ts';
import type { NodeSettings } from '../../node-settings.ts';
import { operations } from '../../operations/index.ts';
import { type Ended, eventRecorded, type GarbagePurge, type ImagesInUse, type ImageUsed } from '../messages.ts';

/** As upstream: every five minutes. */
const IMAGE_GC_MS = 300_000;

export type ImageGcInput = Pick<NodeSettings, 'imageGc' | 'nodeName' | 'rootDir' | 'imagePullVerification'>;
type Policy = NodeSettings['imageGc'];

interface Context {
  readonly nodeName: string;
  /** Where the records of pulls are; `null` when there are none. */
  readonly recordsRoot: string | null;
  /** Of the images of the runtime those that were not removed. */
  readonly present: readonly string[];
  readonly listedAtMs: number;
  readonly policy: Policy;
  readonly startedAtMs: number;
  /** By image id; an image that nobody was given since the agent started is as old as can be. */
  readonly usedAtMs: Readonly<Record<string, number>>;
  /** By pod. */
  readonly inUse: Readonly<Record<string, readonly string[]>>;
  readonly mountpoint: string;
  readonly toFreeBytes: number;
  readonly queue: readonly Candidate[];
  readonly freedBytes: number;
  /** Somebody waits for the answer. */
  readonly purging: boolean;
}

export interface Candidate {
  readonly id: string;
  readonly sizeBytes: number;
}

/** What must be freed to come down to the low threshold; 0 below the high one. */
export function bytesToFree(capacityBytes: number, availableBytes: number, policy: Policy): number {
  const usedPercent = 100 - Math.floor((availableBytes * 100) / capacityBytes);
  if (usedPercent < policy.highThresholdPercent) return 0;
  return Math.floor((capacityBytes * (100 - policy.lowThresholdPercent)) / 100) - availableBytes;
}

/** What it goes by when it chooses. */
export type ImageGcKnowledge = Pick<Context, 'usedAtMs' | 'inUse' | 'policy' | 'startedAtMs' | 'toFreeBytes'>;

/** Nobody used it for so long that it goes whether there is room or not. */
export function isTooOld(known: ImageGcKnowledge, id: string, nowMs: number): boolean {
  const { policy, startedAtMs, usedAtMs } = known;
  const knowsAge = policy.maxAgeMs > 0 && nowMs - startedAtMs > policy.maxAgeMs;
  return knowsAge && nowMs - (usedAtMs[id] ?? 0) > policy.maxAgeMs;
}

/** Which images go: too old ones, then the least recently used until enough is freed. */
export function imagesToRemove(known: ImageGcKnowledge, images: readonly Image[], nowMs: number): Candidate[] {
  const { policy } = known;
  const refs = new Set(Object.values(known.inUse).flat());
  const usedAt = ({ id }: Image): number => known.usedAtMs[id] ?? 0;
  const isUsed = ({ id, repo_tags, repo_digests }: Image): boolean =>
    [id, ...repo_tags, ...repo_digests].some((ref) => refs.has(ref));
  let rest = known.toFreeBytes;
  const chosen: Candidate[] = [];
  const unused = images.filter((image) => !image.pinned && !isUsed(image)).sort((a, b) => usedAt(a) - usedAt(b));
  for (const image of unused) {
    const idleMs = nowMs - usedAt(image);
    if (!isTooOld(known, image.id, nowMs) && (rest <= 0 || idleMs < policy.minAgeMs)) continue;
    chosen.push({ id: image.id, sizeBytes: Number(image.size) });
    rest -= Number(image.size);
  }
  return chosen;
}

const s = setup({
  types: {
    input: {} as ImageGcInput,
    context: {} as Context,
    events: {} as ImagesInUse | ImageUsed | GarbagePurge | Ended,
  },
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
    isShort: ({ context }) => !context.purging && context.freedBytes < context.toFreeBytes,
    hasRemoved: ({ context }) => context.recordsRoot !== null && context.freedBytes > 0,
    mayHaveOldOnes: ({ context }) => context.policy.maxAgeMs > 0 || context.toFreeBytes > 0,
  },
});

const outputOf = (event: unknown): unknown => (event as { output: unknown }).output;

const noteInUse = s.assign(({ context, event }) => {
  if (event.type !== 'images.inUse') return {};
  const { [event.uid]: _before, ...others } = context.inUse;
  return { inUse: event.refs.length === 0 ? others : { ...others, [event.uid]: event.refs } };
});

const noteUse = s.assign((args) => {
  const { context, event } = args;
  return event.type === 'image.used' ? { usedAtMs: { ...context.usedAtMs, [event.id]: now(args) } } : {};
});

const noteDisk = s.assign(({ context, event }) => {
  const disk = outputOf(event) as { capacityBytes: string; availableBytes: string };
  const toFreeBytes = bytesToFree(Number(disk.capacityBytes), Number(disk.availableBytes), context.policy);
  return { toFreeBytes, freedBytes: 0 };
});

/** Forgets images that are gone, and chooses among those that are there. */
const choose = s.assign((args) => {
  const { context, event } = args;
  const { images } = outputOf(event) as { images: readonly Image[] };
  const present = new Set(images.map(({ id }) => id));
  return {
    present: images.map(({ id }) => id),
    listedAtMs: now(args),
    usedAtMs: Object.fromEntries(Object.entries(context.usedAtMs).filter(([id]) => present.has(id))),
    queue: imagesToRemove(context, images, now(args)),
  };
});

/** Everything that is not in use and not too young goes. */
const beginPurge = s.assign({ purging: true, toFreeBytes: Number.MAX_SAFE_INTEGER, freedBytes: 0 });

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

const skip = s.assign({ queue: ({ context }) => context.queue.slice(1) });

const warn = (reason: string, messageOf: (context: Context, error: PlainError) => string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const message = messageOf(context, (event as never as { error: PlainError }).error);
    enqueue(line('error', ['Image garbage collection failed', { error: message }]));
    const ref = { kind: 'Node' as const, namespace: '', name: context.nodeName, uid: '' };
    enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, { type: 'Warning', reason, message }));
  });

const failed = { target: 'waiting', actions: warn('ImageGCFailed', (_, { message }) => message) } as const;

const notEnough = warn(
  'FreeDiskSpaceFailed',
  ({ toFreeBytes, freedBytes }) =>
    `Failed to garbage collect required amount of images. Attempted to free ${toFreeBytes} bytes, but only found ` +
    `${freedBytes} bytes eligible to free.`,
);

export const imageGcMachine = s.createMachine({
  id: 'imageGC',
  context: ({ input }) => ({
    nodeName: input.nodeName,
    recordsRoot: input.imagePullVerification ? input.rootDir : null,
    present: [],
    listedAtMs: 0,
    policy: input.imageGc,
    startedAtMs: 0,
    usedAtMs: {},
    inUse: {},
    mountpoint: '',
    toFreeBytes: 0,
    queue: [],
    freedBytes: 0,
    purging: false,
  }),
  entry: [s.assign({ startedAtMs: (args) => now(args) }), sendTo(to('pods'), { type: 'garbage.wanted' })],
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
    /** Waits for the runtime to say where its images are. */
    locating: {
      invoke: {
        id: 'fsInfo',
        src: 'cri.imageFsInfo',
        input: {},
        onDone: {
          target: 'measuring',
          actions: s.assign({ mountpoint: ({ event }) => (outputOf(event) as { mountpoint: string }).mountpoint }),
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
            actions: warn(
              'InvalidDiskCapacity',
              ({ mountpoint }) => `invalid capacity 0 on image filesystem ${mountpoint}`,
            ),
          },
          { target: 'judging', actions: noteDisk },
        ],
        onError: failed,
      },
    },
    judging: { always: [{ guard: 'mayHaveOldOnes', target: 'listing' }, { target: 'waiting' }] },
    listing: {
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
        { guard: ({ context }) => context.queue.length > 0, target: 'removing' },
        { guard: 'isShort', target: 'settling', actions: notEnough },
        { target: 'settling' },
      ],
    },
    settling: { always: [{ guard: 'hasRemoved', target: 'pruning' }, { target: 'waiting' }] },
    /** Waits until nothing is recorded any more of images that are gone. */
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
        onError: { target: 'next', actions: [skip, warn('ImageGCFailed', (_, { message }) => message)] },
      },
    },
  },
});
