/**
 * The sync loop: decides when pods may be run, and when pods that no source wants may be ended.
 *
 * Decides: when the sources may publish, when enough is known to end orphaned pods, and when housekeeping runs.
 * Owns: which sources have published, the uids of the pods that they want, whether the runtime was listed.
 * Hears: `config.sourceReady` and `config.sourceChanged` of the sources, `sources.started` of `podConfig`,
 *   `runtime.relisted` of `pleg`, `runtime.up`/`runtime.down` of the root, `pods.started`.
 * Asks: `podConfig` and `pleg` to publish everything again when it or `pods` lost it.
 * Sends: the root `syncLoop.started`, which answers with `runtime.up` when the runtime is up; `pods` the housekeeping.
 * Invariants:
 *   L1 messages about a pod reach `pods` in the order in which its source or `pleg` sent them: the senders send them to
 *      `pods` directly, and only afterwards a summary to this actor.
 *   L2 no pod is ended for being unwanted before every source has published and the runtime was listed once, both to
 *      the present actor `pods`.
 *   L3 no housekeeping while the runtime is down.
 *   L4 no pod is wanted before the runtime was up once: by then the node's cgroups exist, which contain the cgroups of
 *      pods. The sources publish nothing before this actor requests it.
 */
import { line, sendParent, setup, to, typed } from '../../../kernel/xstate.ts';
import type { PodsMessage, RuntimeHealth, RuntimeRelisted } from '../../model/pods/pod-messages.ts';
import type { Source, SourceChanged, SourceReady, SourcesMessage } from '../../model/pods/source-messages.ts';
import type { NodeSettings } from '../../model/settings/node-settings.ts';

/** The period of housekeeping. The kubelet does it every 2 s; here everything urgent has an event of its own. */
const HOUSEKEEPING_MS = 60_000;

export type SyncLoopInput = Pick<NodeSettings, 'nodeName' | 'apiServer' | 'staticPodURL'>;

/** The sources that must have published before an unwanted pod is ended. */
const sourcesOf = ({ apiServer, staticPodURL }: SyncLoopInput): readonly Source[] => [
  'file',
  ...(staticPodURL ? (['http'] as const) : []),
  ...(apiServer === undefined ? [] : (['api'] as const)),
];

interface Context {
  /** By source, the uids that it wants; `null` until it has published. */
  readonly sources: Readonly<Partial<Record<Source, readonly string[] | null>>>;
  readonly relisted: boolean;
  readonly runtimeUp: boolean;
}

type Event = SourcesMessage | SourceReady | SourceChanged | RuntimeRelisted | RuntimeHealth | PodsMessage;

const s = setup({
  types: typed<{ input: SyncLoopInput; context: Context; events: Event }>(),
  guards: {
    isComplete: ({ context }) =>
      context.runtimeUp && context.relisted && Object.values(context.sources).every((uids) => uids !== null),
  },
});

const desired = (context: Context): string[] => Object.values(context.sources).flatMap((uids) => uids ?? []);

const noteSource = s.assign({
  sources: ({ context, event }) =>
    event.type === 'config.sourceReady' ? { ...context.sources, [event.source]: event.uids } : context.sources,
});

const noteChange = s.assign(({ context, event }) => {
  if (event.type !== 'config.sourceChanged') return {};
  const uids = context.sources[event.source];
  if (uids == null) return {};
  const removed = new Set(event.removed);
  const kept = removed.size === 0 ? uids : uids.filter((uid) => !removed.has(uid));
  return { sources: { ...context.sources, [event.source]: [...kept, ...event.added] } };
});

const noteRelist = s.assign({ relisted: true });

const sendHousekeeping = s.enqueueActions(({ context, enqueue }) => {
  enqueue.sendTo(to('pods'), { type: 'pods.housekeeping', desired: desired(context) });
});

/** `pods` lost its state: everything is published to it again, and no pod is ended before that. */
const forget = s.assign({
  sources: ({ context }) => Object.fromEntries(Object.keys(context.sources).map((source) => [source, null])),
  relisted: false,
});

const requestSources = s.enqueueActions(({ enqueue }) => enqueue.sendTo(to('podConfig'), { type: 'sources.wanted' }));

const requestRuntime = s.enqueueActions(({ enqueue }) => enqueue.sendTo(to('pleg'), { type: 'runtime.wanted' }));

export const syncLoopMachine = s.createMachine({
  id: 'syncLoop',
  context: ({ input }) => ({
    sources: Object.fromEntries(sourcesOf(input).map((source) => [source, null])),
    relisted: false,
    runtimeUp: false,
  }),
  entry: [sendParent({ type: 'syncLoop.started' }), requestRuntime],
  initial: 'waiting',
  on: {
    'runtime.relisted': { actions: noteRelist },
    'config.sourceReady': { actions: noteSource },
    'config.sourceChanged': { actions: noteChange },
    'runtime.up': { actions: s.assign({ runtimeUp: true }) },
    'runtime.down': { actions: s.assign({ runtimeUp: false }) },
    'sources.started': { actions: requestSources },
    'pods.started': { target: '.starting', actions: [forget, requestSources, requestRuntime] },
  },
  states: {
    /** Waits until the runtime is up for the first time. */
    waiting: {
      on: {
        'runtime.up': { target: 'starting', actions: [s.assign({ runtimeUp: true }), requestSources] },
        'sources.started': {},
        'pods.started': { actions: [forget, requestRuntime] },
      },
    },
    /** Waits until every source has published, the runtime is up and its pods were listed. */
    starting: { always: { guard: 'isComplete', target: 'syncing' } },
    syncing: {
      entry: sendHousekeeping,
      on: {
        'config.sourceReady': { target: 'syncing', reenter: true, actions: noteSource },
        'runtime.relisted': { target: 'syncing', reenter: true, actions: noteRelist },
        'runtime.down': {
          target: 'starting',
          actions: [
            s.assign({ runtimeUp: false }),
            line('error', ({ event }) => ['Skipping pod synchronization', { err: event.errors.join(', ') }]),
          ],
        },
      },
      after: { [HOUSEKEEPING_MS]: { target: 'syncing', reenter: true } },
    },
  },
});
