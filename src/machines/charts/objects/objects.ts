/**
 * The objects of the API server that pods use: one actor each, for as long as some pod uses it.
 *
 * Decides: which objects are followed.
 * Owns: the keys that each pod wants, the state of each object, and the pods that wait for an object to be read again.
 * Hears: `objects.wanted`, `objects.released` of `pods`; `node.labels` of `nodeStatus`; `object.observed` of its
 *   actors.
 * Asks: nothing; its actors do.
 * Sends: `pods` `object.found`, and `objects.started` after it lost their requests.
 * Invariants:
 *   J1 an object is followed exactly as long as one pod wants it; of many new ones some are started in each turn.
 *   J2 a pod that wants an object gets its known state at once, and every later change; if objects are not watched it
 *      is read again first.
 *   J3 an object that became unreadable stays available to the pods that have it.
 */

import {
  type AnyActorRef,
  childIn,
  type Ended,
  type EnqueueOf,
  errorOf,
  line,
  reapChild,
  setup,
  to,
  typed,
} from '../../../kernel/xstate.ts';
import { versionOf } from '../../model/objects/config-objects.ts';
import {
  idOf,
  type NodeLabels,
  type ObjectFound,
  type ObjectObserved,
  type ObjectPeriod,
  type ObjectRefresh,
  type ObjectState,
  type ObjectsReleased,
  type ObjectsWanted,
} from '../../model/objects/keys.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../model/settings/node-settings.ts';
import { parseDecimal } from '../../model/values/go-text.ts';
import { memoize } from '../../model/values/same.ts';
import { claimMachine } from './claim.ts';
import { objectMachine } from './object.ts';
import { servicesMachine } from './services.ts';
import { trustBundlesMachine } from './trust-bundles.ts';

export type ObjectsInput = Pick<NodeSettings, 'nodeName' | 'apiServer' | 'behavior'>;

/** Actors started for one pod in a turn: the cost of each grows with their number. A node of 0.2.0 has no limit. */
const STARTS_MAX = 50;
/** The pause before the crashed actor of an object is restarted. */
const RESPAWN_MS = 1_000;
/** The period of syncing a pod and of reading its objects; also upstream's default for `Cache`. */
const PERIOD_MS = 60_000;
/** Kinds that one actor follows for all keys; by kind, its id. */
const SHARED: Readonly<Record<string, 'services' | 'trustBundles'>> = {
  Services: 'services',
  ClusterTrustBundle: 'trustBundles',
};

interface Context extends Decider {
  readonly strategy: NonNullable<NodeSettings['apiServer']>['changeDetection'];
  readonly wants: Readonly<Record<string, readonly string[]>>;
  /** By key, the state of the object; absent: not read yet. */
  readonly known: Readonly<Record<string, ObjectState>>;
  /** By key, the uids of pods that wait for a refresh of the object, each with the number of that refresh. */
  readonly awaited: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** The number of the newest refresh. */
  readonly refreshes: number;
  /** Ids of the actors that run. */
  readonly actors: readonly string[];
  /** Labels of this node; `null` while unknown. */
  readonly labels: NodeLabels['labels'] | null;
  /** See {@link NodeLabels}; 0 if unknown or not a number. */
  readonly objectTtlMs: number;
}

type Event =
  | ObjectsWanted
  | ObjectsReleased
  | ObjectObserved
  | NodeLabels
  | Ended
  | { readonly type: 'objects.more' }
  | { readonly type: 'object.respawn'; readonly id: string };

const s = setup({
  types: typed<{ input: ObjectsInput; context: Context; events: Event }>(),
  actors: { claim: claimMachine, object: objectMachine, services: servicesMachine, trustBundles: trustBundlesMachine },
});

type Enqueue = EnqueueOf<typeof s>;

const sharedActorOf = (key: string) => SHARED[idOf(key).kind];
const actorOf = (key: string): string => sharedActorOf(key) ?? `object-${key.replaceAll('/', ':')}`;

interface Wanted {
  readonly actor: string;
  readonly shared: string | undefined;
}

/**
 * Memoized, because parsing the keys is expensive and the list of a pod stays the same while other pods come and go.
 */
const wantedOf = memoize((keys: readonly string[]): readonly (readonly [key: string, Wanted])[] =>
  keys.map((key) => [key, { actor: actorOf(key), shared: sharedActorOf(key) }]),
);

const allWanted = memoize((wants: Context['wants']) => new Map(Object.values(wants).flatMap(wantedOf)));

/** Keys of a kind that one actor follows, in their order. */
const sharedKeys = (wants: Context['wants'], id: string): string[] =>
  [...allWanted(wants)].flatMap(([key, { shared }]) => (shared === id ? [key] : [])).toSorted();

/** The entries of a table whose keys are wanted; the table itself when these are all. */
function entriesOfWanted<Value>(table: Readonly<Record<string, Value>>, wanted: ReadonlyMap<string, Wanted>) {
  const entries = Object.entries(table);
  const kept = entries.filter(([key]) => wanted.has(key));
  return kept.length === entries.length ? table : Object.fromEntries(kept);
}

/** Starts an actor for each wanted object and stops those of objects that are no longer wanted. */
function follow(
  enqueue: Enqueue,
  context: Context,
  wants: Context['wants'],
): Pick<Context, 'wants' | 'actors' | 'known' | 'awaited'> {
  const wantedObjects = allWanted(wants);
  const actors = new Set(Array.from(wantedObjects.values(), ({ actor }) => actor));
  for (const id of context.actors) if (!actors.has(id)) enqueue.stopChild(id);
  const there = new Set(context.actors.filter((id) => actors.has(id)));
  const most = hasBehavior(context, 'resourcesLimited') ? there.size + STARTS_MAX : Number.POSITIVE_INFINITY;
  for (const [key, { actor, shared }] of wantedObjects) {
    const isLater = there.size >= most && shared === undefined;
    if (isLater || there.has(actor)) continue;
    start(enqueue, context, key);
    there.add(actor);
  }
  if (there.size < actors.size) enqueue.raise({ type: 'objects.more' }, { delay: 0, id: 'more' });
  for (const id of Object.values(SHARED)) {
    const keys = sharedKeys(wants, id);
    if (keys.length > 0 && keys.join() !== sharedKeys(context.wants, id).join()) want(enqueue, id, keys);
  }
  const known = entriesOfWanted(context.known, wantedObjects);
  return { wants, actors: [...there], known, awaited: entriesOfWanted(context.awaited, wantedObjects) };
}

const isConfiguration = (key: string): boolean => /^(ConfigMap|Secret)$/.test(idOf(key).kind);

/** Whether the state of an object is older than its period. */
const isAged = ({ strategy, known }: Context, key: string): boolean =>
  strategy !== 'Watch' && known[key] !== undefined && isConfiguration(key);

const periodOf = ({ strategy, objectTtlMs }: Context, key: string): number =>
  strategy === 'Cache' && isConfiguration(key) ? Math.max(PERIOD_MS, objectTtlMs) : PERIOD_MS;

const want = (enqueue: Enqueue, id: 'services' | 'trustBundles', keys: readonly string[]): void =>
  enqueue.sendTo<AnyActorRef>(id, { type: `${id}.wanted`, keys });

function start(enqueue: Enqueue, context: Context, key: string): void {
  const { strategy, labels, refreshes: refresh } = context;
  const network = {
    ...(hasBehavior(context, 'networkVolumes') ? { hasNetwork: true as const } : {}),
    ...(hasBehavior(context, 'blockNetworkVolumes') ? { hasDisks: true as const } : {}),
  };
  const shared = sharedActorOf(key);
  if (shared !== undefined) enqueue.spawnChild(shared, { id: shared });
  else if (idOf(key).kind === 'PersistentVolumeClaim')
    enqueue.spawnChild('claim', { id: actorOf(key), input: { key, labels, ...network } });
  else
    enqueue.spawnChild('object', {
      id: actorOf(key),
      input: { key, strategy, refresh, periodMs: periodOf(context, key) },
    });
}

const handleWanted = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'objects.wanted') return;
  const { uid, keys } = event;
  const before = context.wants[uid] ?? [];
  const followed = follow(enqueue, context, { ...context.wants, [uid]: keys });
  const awaited: Record<string, Readonly<Record<string, number>>> = { ...followed.awaited };
  let refresh = context.refreshes;
  for (const key of keys) {
    if (!before.includes(key) && isAged(context, key)) {
      refresh += 1;
      awaited[key] = { ...awaited[key], [uid]: refresh };
      enqueue.sendTo<AnyActorRef>(actorOf(key), { type: 'object.refresh', refresh } satisfies ObjectRefresh);
    }
    const state = awaited[key]?.[uid] === undefined ? context.known[key] : undefined;
    if (state) enqueue.sendTo(to('pods'), { type: 'object.found', key, uids: [uid], ...state } satisfies ObjectFound);
  }
  enqueue.assign({ ...followed, awaited, refreshes: refresh });
});

const release = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'objects.released' || !context.wants[event.uid]) return;
  const { [event.uid]: _gone, ...wants } = context.wants;
  enqueue.assign(follow(enqueue, context, wants));
});

const startMore = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type === 'objects.more') enqueue.assign(follow(enqueue, context, context.wants));
});

const observe = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'object.observed') return;
  const { type: _, key, refresh = 0, ...state } = event;
  const before = Object.entries(context.awaited[key] ?? {});
  const waiting = before.flatMap(([uid, wanted]) => (wanted <= refresh ? [uid] : []));
  const later = Object.fromEntries(before.filter(([, wanted]) => wanted > refresh));
  const known = context.known[key];
  const isKept = state.state === 'unknown' && known !== undefined && known.state !== 'unknown';
  const isChange = !isKept && (waiting.length === 0 || known === undefined || versionOf(state) !== versionOf(known));
  if (!isKept) enqueue.assign({ known: { ...context.known, [key]: state } });
  if (state.state !== 'unknown') enqueue.assign({ awaited: { ...context.awaited, [key]: later } });
  const uids = Object.entries(context.wants).flatMap(([uid, keys]) =>
    keys.includes(key) && (waiting.includes(uid) || (isChange && later[uid] === undefined)) ? [uid] : [],
  );
  if (uids.length === 0) return;
  enqueue.sendTo(to('pods'), { type: 'object.found', key, uids, ...state } satisfies ObjectFound);
});

/** Labels of the node decide which claims can be mounted, and its annotation the maximum age of an object. */
const label = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'node.labels') return;
  const seconds = parseDecimal(event.objectTtl ?? '');
  const objectTtlMs = seconds.error === undefined ? seconds.value * 1_000 : 0;
  enqueue.assign({ labels: event.labels, objectTtlMs });
  const running = new Set(context.actors);
  for (const [key, { actor }] of allWanted(context.wants)) {
    const periodMs = periodOf({ ...context, objectTtlMs }, key);
    if (periodMs === periodOf(context, key) || !running.has(actor)) continue;
    enqueue.sendTo<AnyActorRef>(actor, { type: 'object.period', periodMs } satisfies ObjectPeriod);
  }
  const claims = context.actors.filter((id) => id.startsWith('object-PersistentVolumeClaim:'));
  for (const id of claims) enqueue.sendTo<AnyActorRef>(id, event);
});

const reapCrashed = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event);
  const { message } = errorOf(event);
  enqueue(line('error', ['The actor of an object of the API server crashed and starts again', { id, error: message }]));
  enqueue.assign({ actors: context.actors.filter((each) => each !== id) });
  reapChild(enqueue, id, { type: 'object.respawn', id }, RESPAWN_MS);
});

const respawn = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'object.respawn' || context.actors.includes(event.id)) return;
  const { id } = event;
  const keys = [...allWanted(context.wants)].flatMap(([key, { actor }]) => (actor === id ? [key] : []));
  const [key] = keys;
  if (key === undefined) return;
  start(enqueue, context, key);
  const shared = sharedActorOf(key);
  if (shared !== undefined) want(enqueue, shared, keys);
  enqueue.assign({ actors: [...context.actors, id] });
});

export const objectsMachine = s.createMachine({
  id: 'objects',
  context: ({ input }) => ({
    behavior: input.behavior,
    strategy: input.apiServer?.changeDetection ?? 'Watch',
    wants: {},
    known: {},
    awaited: {},
    refreshes: 0,
    actors: [],
    labels: null,
    objectTtlMs: 0,
  }),
  entry: s.enqueueActions(({ enqueue }) => {
    enqueue.sendTo(to('pods'), { type: 'objects.started' });
    enqueue.sendTo(to('nodeStatus'), { type: 'node.wanted' });
  }),
  on: {
    'objects.wanted': { actions: handleWanted },
    'objects.released': { actions: release },
    'objects.more': { actions: startMore },
    'object.observed': { actions: observe },
    'node.labels': { actions: label },
    'xstate.error.actor.*': { actions: reapCrashed },
    'object.respawn': { actions: respawn },
  },
});
