/**
 * Reflector: lists and watches one collection of the API server, and reports its objects to its parent.
 *
 * Decides: when to list, from where to watch on, how long to wait after a failure.
 * Owns: the newest resource version; the pages of an incomplete list. Not the objects.
 * Hears: only the answers of its operations.
 * Asks: `kube.list`, `kube.watch`.
 * Sends: its parent `reflector.listed` with all objects, then `reflector.changed` for each change.
 * Invariants:
 *   F1 a list is published when it is complete, never page by page: an object missing in it is gone.
 *   F2 a watch continues after the newest published version; nothing between a list and its watch is lost.
 *   F3 an expired version (410, Expired) leads to a new list, any other failure to the same watch.
 *   F4 it never gives up; pauses double, with jitter, and are reset after a quiet period.
 *   F5 a list ends: one of more than {@link PAGES_MAX} pages is a failure, and the published objects stay.
 *   F6 a list that is too long for one answer is asked for in smaller pages.
 * Upstream: client-go tools/cache/reflector.go.
 */

import type { Ended, EventObject, MachineContext } from '../../../kernel/xstate.ts';
import {
  assign,
  errorIn,
  errorOf,
  line,
  now,
  outputOf,
  pick,
  random,
  sendParent,
  setup,
  typed,
} from '../../../kernel/xstate.ts';
import type { KubeObject, KubeSelection, KubeTarget, WatchItem } from '../../model/operations/kube.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import { type BackOff, doubledMs } from '../../model/values/time.ts';

export interface ReflectorInput extends KubeSelection {
  readonly target: KubeTarget;
  /** A list that is longer than an answer may be is asked for in small pages. */
  readonly splitsLongLists?: true;
}

export type ReflectorReport =
  | { readonly type: 'reflector.listed'; readonly items: readonly KubeObject[] }
  | {
      readonly type: 'reflector.changed';
      readonly change: 'ADDED' | 'MODIFIED' | 'DELETED';
      readonly object: KubeObject;
    };

/** The pause between the end of a reflector and its next start. */
export const REOPEN_MS = 1_000;

/** The line about the crash of a reflector, which starts again. */
export const reflectorCrash = <Context extends MachineContext, Event extends EventObject, Any extends EventObject>(
  objects: string,
) =>
  line<Context, Event, undefined, Any>('error', ({ event }) => [
    `Following ${objects} crashed and starts again`,
    { error: errorOf(event).message },
  ]);

/** Objects of one page, as client-go requests them. */
const PAGE_LIMIT = 500;
/** Of objects as large as etcd holds, with every character escaped, no more fit into an answer. */
const SMALL_PAGE_LIMIT = 25;
/** The code of an answer that is longer than an answer may be. */
const TOO_LARGE = 'TooLarge';
/**
 * A hundred thousand objects; unlimited pages of a faulty server would fill memory and journal. client-go has no limit.
 */
const PAGES_MAX = 200;
/** A watch ends by itself after five to ten minutes, so that no server keeps it open forever. */
const WATCH_MIN_S = 300;
/** Pauses after failures, as client-go's: doubled each time, up to twice as long by jitter. */
const BACK_OFF: BackOff = { baseMs: 800, maxMs: 30_000 };
/** A failure after this long without one counts as the first. */
const BACKOFF_RESET_MS = 120_000;
/** A watch that the server closed sooner counts as refused. */
const SHORT_WATCH_MS = 1_000;

interface Context extends ReflectorInput {
  /** `0`: any version in the server's cache; empty: the newest version. */
  readonly resourceVersion: string;
  readonly pages: readonly KubeObject[];
  readonly continue: string;
  readonly pageCount: number;
  readonly watchingSinceMs: number;
  readonly closedAtMs: number;
  readonly failedAtMs: number;
  readonly backoffMs: number;
  readonly isListed: boolean;
  /** A list was too long for one answer. */
  readonly isLong?: true;
}

type Event = WatchItem | Ended;

interface ListPage {
  readonly items: readonly KubeObject[];
  readonly resourceVersion: string;
  readonly continue: string;
}

const pageOf = (event: unknown): ListPage => outputOf<ListPage>(event);
const hasMore = (event: unknown): boolean => pageOf(event).continue !== '';

const s = setup({
  types: typed<{ input: ReflectorInput; context: Context; events: Event }>(),
  actors: pick(kubeOperations, 'kube.list', 'kube.watch'),
  guards: {
    isListed: ({ context }) => context.isListed,
    isEndless: ({ context, event }) => hasMore(event) && context.pageCount + 1 >= PAGES_MAX,
    hasMore: ({ event }) => hasMore(event),
    wasShort: ({ context }) => context.closedAtMs - context.watchingSinceMs < SHORT_WATCH_MS,
  },
  delays: { backoff: (args) => args.context.backoffMs * (1 + random(args)) },
});

/** An answer with this error counts as a failure that needs a new list. */
const isExpired = ({ event }: { event: unknown }): boolean => ['Expired', 'Gone'].includes(errorIn(event)?.code ?? '');

const handlePage = s.assign(({ context, event }) => {
  const { items, continue: more, resourceVersion } = pageOf(event);
  return { pages: [...context.pages, ...items], continue: more, resourceVersion, pageCount: context.pageCount + 1 };
});

const handleChange = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'watch.changed') return;
  const { change, object } = event;
  enqueue.assign({ resourceVersion: object.metadata.resourceVersion ?? context.resourceVersion });
  enqueue(sendParent({ type: 'reflector.changed', change, object } satisfies ReflectorReport));
});

const fail = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const { message, retryAfterMs = 0 } = errorIn(event) ?? { message: `the list has more than ${PAGES_MAX} pages` };
  const nowMs = now(args);
  const isFirst = nowMs - context.failedAtMs > BACKOFF_RESET_MS;
  const doubled = isFirst ? BACK_OFF.baseMs : doubledMs(BACK_OFF, context.backoffMs);
  enqueue.assign({ failedAtMs: nowMs, backoffMs: Math.max(doubled, retryAfterMs) });
  // Lists from a cache (version 0) ignore the limit of a page.
  const isLong = errorIn(event)?.code === TOO_LARGE && context.splitsLongLists === true;
  if (isLong) enqueue.assign({ isLong, resourceVersion: '' });
  const { resource, namespace } = context.target;
  enqueue(line('warn', ['Failed to watch', { resource, ...(namespace ? { namespace } : {}), err: message }]));
});

/** Forgets the pages of a list that will not be completed. */
const drop = s.assign({ pages: [], continue: '', pageCount: 0 });

const selection = ({ target, fieldSelector, labelSelector }: Context) => ({
  ...target,
  ...(fieldSelector === undefined ? {} : { fieldSelector }),
  ...(labelSelector === undefined ? {} : { labelSelector }),
});

export const reflectorMachine = s.createMachine({
  id: 'reflector',
  context: ({ input }) => ({
    ...input,
    resourceVersion: '0',
    pages: [],
    continue: '',
    pageCount: 0,
    watchingSinceMs: 0,
    closedAtMs: 0,
    failedAtMs: -BACKOFF_RESET_MS,
    backoffMs: BACK_OFF.baseMs,
    isListed: false,
  }),
  initial: 'listing',
  states: {
    listing: {
      meta: { waitsFor: 'the API server to list the collection' },
      invoke: {
        id: 'list',
        src: 'kube.list',
        input: ({ context }) => ({
          ...selection(context),
          limit: context.isLong === true ? SMALL_PAGE_LIMIT : PAGE_LIMIT,
          ...(context.continue === '' ? { resourceVersion: context.resourceVersion } : { continue: context.continue }),
        }),
        onDone: [
          { guard: 'isEndless', target: 'backingOff', actions: [drop, fail] },
          { guard: 'hasMore', target: 'listing', reenter: true, actions: handlePage },
          {
            target: 'watching',
            actions: [
              handlePage,
              sendParent(
                ({ context }) => ({ type: 'reflector.listed', items: context.pages }) satisfies ReflectorReport,
              ),
              drop,
              assign({ isListed: true }),
            ],
          },
        ],
        onError: [
          { guard: isExpired, target: 'backingOff', actions: [drop, fail, assign({ resourceVersion: '' })] },
          { target: 'backingOff', actions: [drop, fail] },
        ],
      },
    },
    watching: {
      entry: assign({ watchingSinceMs: (args) => now({ system: args.self.system }) }),
      invoke: {
        id: 'watch',
        src: 'kube.watch',
        input: (args) => ({
          ...selection(args.context),
          resourceVersion: args.context.resourceVersion,
          timeoutSeconds: Math.floor(WATCH_MIN_S * (1 + random({ system: args.self.system }))),
        }),
        onDone: [
          {
            guard: ({ event }) => event.output.reason === 'expired',
            target: 'listing',
            actions: assign({ resourceVersion: '', isListed: false }),
          },
          {
            target: 'closed',
            actions: assign({ resourceVersion: ({ event }) => event.output.resourceVersion }),
          },
        ],
        onError: [
          {
            guard: isExpired,
            target: 'backingOff',
            actions: [fail, assign({ resourceVersion: '', isListed: false })],
          },
          { target: 'backingOff', actions: fail },
        ],
      },
      on: { 'watch.changed': { actions: handleChange } },
    },
    closed: {
      entry: assign({ closedAtMs: (args) => now({ system: args.self.system }) }),
      always: [{ guard: 'wasShort', target: 'backingOff' }, { target: 'watching' }],
    },
    backingOff: {
      meta: { waitsFor: 'the next try' },
      after: { backoff: [{ guard: 'isListed', target: 'watching' }, { target: 'listing' }] },
    },
  },
});
