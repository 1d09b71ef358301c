/** Types, guards and actions of the eviction manager. The chart is in `eviction.ts`. */
import {
  type Ended,
  type EnqueueOf,
  errorOf,
  line,
  now,
  outputOf,
  pick,
  setup,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import type { ConditionsChanged, EvictionContext } from '../../../model/eviction/policy.ts';
import {
  candidates,
  counted,
  dueThresholds,
  evictionMessage,
  graceAtMs,
  hasObserved,
  isCleared,
  located,
  observed,
  reclaims,
  reevaluated,
  reliefAtMs,
  storageMessage,
  target,
} from '../../../model/eviction/policy.ts';
import type { Candidate, NodePodChanged } from '../../../model/eviction/ranking.ts';
import { evictionGrace, IMMEDIATE_GRACE_SECONDS } from '../../../model/eviction/ranking.ts';
import { resourceOf } from '../../../model/eviction/thresholds.ts';
import { type DiskLayout, type Observations, type PodUse, statsOperations } from '../../../model/operations/stats.ts';
import type { GarbagePurged } from '../../../model/pods/image-messages.ts';
import { eventRecorded, nodeEvent, type PodKillWanted } from '../../../model/pods/pod-messages.ts';
import { nodeEvents, podReasons } from '../../../model/reasons/reasons.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { MONITORING_MS, type StorageReport, storageWatchMachine } from './storage-watch.ts';

/** The longest pause between two turns without an effect or a change. */
const MAX_PAUSE_MS = 300_000;
/** The signals under which evictions for local storage limits are counted, as in upstream's metric. */
const STORAGE_SIGNALS = {
  emptyDir: 'emptydirfs.limit',
  pod: 'ephemeralpodfs.limit',
  container: 'ephemeralcontainerfs.limit',
} as const;

type Event =
  | { readonly type: 'signals.changed'; readonly observations: Observations }
  | { readonly type: 'signals.failed'; readonly message: string }
  | { readonly type: 'shortage.noted' }
  | { readonly type: 'world.changed' }
  | { readonly type: 'eviction.conditionsWanted' }
  | NodePodChanged
  | StorageReport
  | GarbagePurged
  | Ended;

export const evictionSetup = setup({
  types: typed<{ input: NodeSettings; context: EvictionContext; events: Event }>(),
  actors: {
    ...pick(statsOperations, 'stats.diskLayout', 'stats.watchSignals', 'stats.observe'),
    storageWatch: storageWatchMachine,
  },
  guards: {
    isDue: ({ context }) => target(context) !== null,
    hasGrace: ({ context }) => graceAtMs(context) !== null,
    hasRelief: ({ context }) => reliefAtMs(context) !== null,
    clearsContainers: ({ context }) => reclaims(context).containers,
    clearsImages: ({ context }) => reclaims(context).images,
    isCleared: ({ context }) => isCleared(context),
    hasVictim: ({ context }) => context.victim !== null,
    isVictimGone: ({ context }) => context.victim === null,
    watchesNothing: ({ context }) => context.thresholds.length === 0,
  },
  delays: {
    grace: (args) => Math.max(0, (graceAtMs(args.context) ?? 0) - now(args)),
    pause: ({ context }) => Math.min(MONITORING_MS * 2 ** Math.max(0, context.idleTurns - 1), MAX_PAUSE_MS),
    relief: (args) => Math.max(0, (reliefAtMs(args.context) ?? 0) - now(args)),
  },
});

const s = evictionSetup;
type Enqueue = EnqueueOf<typeof s>;

type Change = ReturnType<typeof observed>;

/** Applies a change of the context, and sends the conditions if they changed. */
function applyChange(enqueue: Enqueue, context: EvictionContext, change: Change): void {
  enqueue.assign(change);
  enqueue.raise({ type: 'shortage.noted' });
  const isFirst = context.reportsFirst === true && !hasObserved(context);
  if (change.conditions.join() === context.conditions.join() && !isFirst) return;
  sendConditions(enqueue, change.conditions);
  enqueue.sendTo(to('allocation'), { type: 'node.pressed', pressures: change.conditions });
}

function sendConditions(enqueue: Enqueue, conditions: ConditionsChanged['conditions']): void {
  enqueue.sendTo(to('nodeStatus'), { type: 'eviction.conditions', conditions } satisfies ConditionsChanged);
}

/** The publisher of the Node has started again, as for another configuration. */
export const sendAgain = s.enqueueActions(({ context, enqueue }) => {
  if (hasObserved(context)) sendConditions(enqueue, context.conditions);
});

export const noteSignals = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'signals.changed') return;
  enqueue.assign({ failing: false, idleTurns: 0 });
  enqueue.raise({ type: 'world.changed' });
  applyChange(enqueue, context, observed(context, event.observations, now(args)));
});

export const noteObservations = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const output = outputOf<{ observations: Observations; pods: readonly PodUse[] }>(event);
  const { observations, pods } = output;
  enqueue.assign({ uses: pods });
  applyChange(enqueue, context, observed(context, observations, now(args)));
});

export const noteTime = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  applyChange(enqueue, context, reevaluated(context, now(args)));
});

export const logFailure = s.enqueueActions(({ context, event, enqueue }) => {
  const err = event.type === 'signals.failed' ? event.message : errorOf(event).message;
  if (!context.failing) enqueue(line('error', ['Eviction manager: failed to get summary stats', { err }]));
  enqueue.assign({ failing: true });
});

const watchId = (uid: string): string => `storage-${uid}`;

function watchStorage(enqueue: Enqueue, context: EvictionContext, uid: string): void {
  const pod = context.pods[uid];
  const { layout, place, settings } = context;
  if (!settings.localStorage || layout === null || !pod?.storage) return;
  const { name, namespace, storage: limits } = pod;
  const input = { place, pod: { uid, name, namespace }, limits, countLayers: !layout.dedicatedImageFs };
  enqueue.spawnChild('storageWatch', { id: watchId(uid), input });
}

export const notePod = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'node.podChanged') return;
  const { uid, pod, isReclaimed = false } = event;
  const victim = isReclaimed && uid === context.victim ? null : context.victim;
  const { [uid]: before, ...others } = context.pods;
  const pods = pod === null ? others : { ...others, [uid]: pod };
  const ordered = pod === null ? context.ordered.filter((each) => each !== uid) : context.ordered;
  enqueue.assign({ pods, ordered, victim, idleTurns: 0 });
  enqueue.raise({ type: 'world.changed' });
  if (JSON.stringify(before?.storage) === JSON.stringify(pod?.storage)) return;
  enqueue.stopChild(watchId(uid));
  watchStorage(enqueue, { ...context, pods }, uid);
});

export const noteLayout = s.enqueueActions(({ context, event, enqueue }) => {
  const change = located(context, outputOf<DiskLayout>(event));
  enqueue.assign(change);
  for (const uid of Object.keys(context.pods)) watchStorage(enqueue, { ...context, ...change }, uid);
});

interface Order {
  readonly message: string;
  readonly graceSeconds: number;
  readonly annotations: Readonly<Record<string, string>>;
  /** The pod is evicted because of the node's shortage, which is a disruption of the pod. */
  readonly disruptionTarget: boolean;
}

/** Evicts a pod; false if the pod is critical and stays. */
function evict(enqueue: Enqueue, { uid, pod }: Pick<Candidate, 'uid' | 'pod'>, order: Order): boolean {
  const name = `${pod.namespace}/${pod.name}`;
  if (pod.isCritical) {
    enqueue(line('error', ['Eviction manager: cannot evict a critical pod', { pod: name }]));
    return false;
  }
  const ref = { kind: 'Pod' as const, namespace: pod.namespace, name: pod.name, uid };
  const { message, graceSeconds, disruptionTarget, annotations } = order;
  const text = { type: 'Warning' as const, reason: podReasons.evicted, message };
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, text, annotations));
  const kill: PodKillWanted = {
    type: 'pods.kill',
    uid,
    graceSeconds,
    verdict: { reason: podReasons.evicted, message, published: 'once', disruptionTarget },
  };
  enqueue.sendTo(to('pods'), kill);
  return true;
}

export const evictForStorage = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'storage.exceeded') return;
  const { uid, exceeded } = event;
  const pod = context.pods[uid];
  if (!pod?.storage || context.ordered.includes(uid)) return;
  const message = storageMessage(exceeded, pod.storage);
  const order = { message, graceSeconds: IMMEDIATE_GRACE_SECONDS, annotations: {}, disruptionTarget: false };
  if (!evict(enqueue, { uid, pod }, order)) return;
  const evictions = counted(context.evictions, STORAGE_SIGNALS[exceeded.kind]);
  enqueue.assign({ ordered: [...context.ordered, uid], evictions });
});

export const evictFirst = s.enqueueActions(({ context, enqueue }) => {
  const threshold = target(context);
  if (threshold === null) return enqueue.assign({ victim: null });
  const resource = resourceOf(threshold.signal);
  const ranked = candidates(context);
  enqueue(line('info', ['Eviction manager: must evict pod(s) to reclaim', { resourceName: resource }]));
  const why = { resource, due: dueThresholds(context), observations: context.observations };
  const victim = ranked.find((candidate) => {
    const ownSeconds = context.boundsGrace ? candidate.pod.graceSeconds : null;
    const graceSeconds = evictionGrace(threshold, context.settings.maxPodGraceSeconds, ownSeconds);
    return evict(enqueue, candidate, { ...evictionMessage(candidate, why), graceSeconds, disruptionTarget: true });
  });
  if (victim === undefined) {
    enqueue(line('info', 'Eviction manager: unable to evict any pods from the node'));
    return enqueue.assign({ victim: null });
  }
  const evictions = counted(context.evictions, threshold.signal);
  enqueue.assign({ victim: victim.uid, ordered: [...context.ordered, victim.uid], evictions });
});

export const logThreshold = s.enqueueActions(({ context, enqueue }) => {
  const threshold = target(context);
  if (threshold === null) return;
  const resource = resourceOf(threshold.signal);
  enqueue(line('warn', ['Eviction manager: attempting to reclaim', { resourceName: resource }]));
  enqueue.sendTo(to('eventRecorder'), nodeEvent(context.nodeName, nodeEvents.thresholdMet(resource)));
});
