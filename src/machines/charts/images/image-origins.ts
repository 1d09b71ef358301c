/**
 * The origins of images (`imageOrigins`): resolves the intents of pulls that an earlier agent did not finish.
 *
 * Decides: which images of the runtime were pulled by that agent. Such an image gets a record without credentials, so
 *   that a pod needs a credential to use it.
 * Owns: the intents found.
 * Hears: nothing.
 * Asks: `images.listIntents`, `cri.listImages`, `images.recordPulled`. Ends when every such image is recorded.
 * Invariants:
 *   I1 an intent whose image the runtime does not have stays: a later agent may still find it.
 */

import type { Ended } from '../../../kernel/xstate.ts';
import { errorOf, line, outputOf, pick, required, setup, typed } from '../../../kernel/xstate.ts';
import type { Image } from '../../model/api/cri.ts';
import { operations } from '../../model/operations/index.ts';
import { nameOf, repositoryOf } from '../../model/spec/image.ts';

export interface ImageOriginsInput {
  readonly root: string;
}

interface Origin {
  readonly image: string;
  readonly imageRef: string;
}

interface Context extends ImageOriginsInput {
  readonly intents: readonly string[];
  /** Images of the runtime that are not recorded yet. */
  readonly queue: readonly Origin[];
}

const s = setup({
  types: typed<{ input: ImageOriginsInput; context: Context; events: Ended }>(),
  actors: pick(operations, 'images.listIntents', 'cri.listImages', 'images.recordPulled'),
  guards: {
    hasNone: ({ context }) => context.intents.length === 0,
    isDone: ({ context }) => context.queue.length === 0,
  },
});

/** Finds the images by the name in the pull intent, or by their full name. */
const match = s.assign(({ context, event }) => {
  const { images } = outputOf<{ images: readonly Image[] }>(event);
  const isOf = (intent: string) => (name: string) => name === intent || repositoryWithTag(intent) === name;
  const queue = images.flatMap(({ id, repo_tags, repo_digests }) =>
    context.intents
      .filter((intent) => [...repo_tags, ...repo_digests].some(isOf(intent)))
      .map((image) => ({ image, imageRef: id })),
  );
  return { queue };
});

function repositoryWithTag(image: string): string {
  return `${repositoryOf(image)}${image.slice(nameOf(image).length)}`;
}

const UNREAD = 'Cannot tell which images were being pulled when the agent ended';

const logUnreadIntents = s.enqueueActions(({ event, enqueue }) => {
  const { message } = errorOf(event);
  enqueue(line('error', [UNREAD, { error: message }]));
});

/** The intents that can be read are resolved without the others. */
const noteIntents = s.enqueueActions(({ event, enqueue }) => {
  const { images, unread = [] } = outputOf<{ images: readonly string[]; unread?: readonly string[] }>(event);
  enqueue.assign({ intents: images });
  for (const error of unread) enqueue(line('error', [UNREAD, { error }]));
});

const dequeue = s.assign({ queue: ({ context }) => context.queue.slice(1) });

export const imageOriginsMachine = s.createMachine({
  id: 'imageOrigins',
  context: ({ input }) => ({ ...input, intents: [], queue: [] }),
  initial: 'reading',
  states: {
    reading: {
      invoke: {
        id: 'intents',
        src: 'images.listIntents',
        input: ({ context }) => ({ root: context.root }),
        onDone: {
          target: 'read',
          actions: noteIntents,
        },
        onError: { target: 'done', actions: logUnreadIntents },
      },
    },
    read: { always: [{ guard: 'hasNone', target: 'done' }, { target: 'listing' }] },
    /** Waits for the runtime to name its images. */
    listing: {
      invoke: {
        id: 'images',
        src: 'cri.listImages',
        input: {},
        onDone: { target: 'next', actions: match },
        onError: { target: 'done', actions: logUnreadIntents },
      },
    },
    next: { always: [{ guard: 'isDone', target: 'done' }, { target: 'recording' }] },
    recording: {
      invoke: {
        id: 'record',
        src: 'images.recordPulled',
        input: ({ context }) => {
          const { image, imageRef } = required(context.queue[0], 'the pull to record');
          return { root: context.root, image, imageRef, repository: repositoryOf(image), credentials: null };
        },
        onDone: { target: 'next', actions: dequeue },
        onError: { target: 'next', actions: [logUnreadIntents, dequeue] },
      },
    },
    done: { type: 'final' },
  },
});
