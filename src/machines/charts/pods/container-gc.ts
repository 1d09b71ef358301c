/**
 * The garbage collector of containers: instances that ended and sandboxes that were replaced.
 *
 * Decides: which dead instances are old enough to count, and which exceed the limits of `containerGc` of the settings.
 * Owns: the dead instances and sandboxes of each pod, as its actor reports them.
 * Hears: `garbage.changed` of pods; `garbage.purge` of `eviction`, which it answers.
 * Asks: `cri.removeContainer`, `logs.remove`, `cri.removePodSandbox`, once `logs.unlink`; the runtime is never listed.
 * Invariants:
 *   G1 no running instance is ever removed, and of each container the newest instances that the settings keep stay.
 *   G2 an idle node is silent: without too much garbage there is no timer and no call.
 *   G3 of the dead instances of a container only as many stay as the settings keep, at least one, whatever their age:
 *      the others are removed when one more dies.
 */
import { type Ended, errorOf, line, now, pick, sendTo, setup, to, typed } from '../../../kernel/xstate.ts';
import { operations } from '../../model/operations/index.ts';
import type { GarbagePurge } from '../../model/pods/image-messages.ts';
import { nodeEvent } from '../../model/pods/pod-messages.ts';
import { nodeEvents } from '../../model/reasons/reasons.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import type { NodeSettings } from '../../model/settings/node-settings.ts';
import { type DeadContainer, type GarbageChanged, milliseconds } from '../../model/status/runtime-facts.ts';
import { mapValues, pickBy } from '../../model/values/tables.ts';

/** As upstream: once a minute. */
const CONTAINER_GC_MS = 60_000;

export type ContainerGcInput = Pick<
  NodeSettings,
  'behavior' | 'containerGc' | 'nodeName' | 'podLogsDir' | 'containerLogsDir'
>;
type Policy = NodeSettings['containerGc'];

interface Garbage {
  readonly dead: readonly DeadContainer[];
  readonly sandboxes: readonly string[];
  readonly over: boolean;
  readonly isEvicted?: boolean;
}
type Pods = Readonly<Record<string, Garbage>>;

interface Victim {
  readonly kind: 'container' | 'sandbox';
  readonly id: string;
}

interface Context {
  readonly nodeName: string;
  readonly podLogsDir: string;
  /** The folder of links to logs; empty if there are none. */
  readonly containerLogsDir: string;
  readonly policy: Policy;
  readonly pods: Pods;
  readonly queue: readonly Victim[];
  /** `eviction` waits for the answer of this round. */
  readonly purging: boolean;
  /** How many dead instances of a container stay when one more dies; `null`: all, until the next round. */
  readonly keptAtDeath: number | null;
  /** A failed removal is also an event of the Node: only without the behavior `removalsAsKubelet`. */
  readonly recordsFailures: boolean;
  /** A removal failed: the remaining ones wait for the next round. */
  readonly hasFailed: boolean;
  /** The current wait and its end, which a removal in between does not postpone. */
  readonly rest: { readonly in: 'waiting' | 'settling'; readonly untilMs: number };
}

/** Orders instances of different containers. */
const newestFirst = (a: DeadContainer, b: DeadContainer): number =>
  b.createdAt.length - a.createdAt.length || (a.createdAt < b.createdAt ? 1 : -1);

type Groups = readonly (readonly DeadContainer[])[];

/** The groups of a pod's list, cached: each event needs the groups of all pods, and changes the list of one. */
const knownGroups = new WeakMap<Garbage['dead'], Groups>();

/** The dead instances of one pod by container, newest first. */
function groupsOfPod(dead: Garbage['dead']): Groups {
  const known = knownGroups.get(dead);
  if (known !== undefined) return known;
  const groups = Map.groupBy(dead, ({ name }) => name);
  const sorted = [...groups.values()].map((group) =>
    group.sort((a, b) => b.restartCount - a.restartCount || newestFirst(a, b)),
  );
  knownGroups.set(dead, sorted);
  return sorted;
}

/** Dead instances by pod and container, newest first. */
const groupsOf = (pods: Pods): Groups => Object.values(pods).flatMap(({ dead }) => groupsOfPod(dead));

/** The pods with only the instances that are old enough to count. */
function withOldInstances(pods: Pods, { minAgeMs }: Policy, nowMs: number): Pods {
  if (minAgeMs === 0) return pods;
  const isOldEnough = ({ createdAt }: DeadContainer): boolean => milliseconds(createdAt) <= nowMs - minAgeMs;
  return mapValues(pods, (each) => ({ ...each, dead: each.dead.filter(isOldEnough) }));
}

/** The garbage of one round: the leftovers of ended pods, and the dead instances beyond the limits of the others. */
export function garbageToCollect(pods: Pods, policy: Policy): Victim[] {
  const ofEvicted = Object.values(pods).flatMap(({ isEvicted = false, dead }) => (isEvicted ? dead : []));
  const others = pickBy(pods, ({ isEvicted = false }) => !isEvicted);
  return [
    ...[...ofEvicted, ...beyondLimits(others, policy)].map(({ id }) => ({ kind: 'container' as const, id })),
    ...Object.values(pods).flatMap(({ sandboxes }) => sandboxes.map((id) => ({ kind: 'sandbox' as const, id }))),
  ];
}

/** Dead instances beyond the limit of each container; then, with a limit for the node, the oldest of all. */
function beyondLimits(pods: Pods, policy: Policy): DeadContainer[] {
  const groups = groupsOf(pods);
  const share = Math.max(1, Math.floor(policy.maxContainers / Math.max(1, groups.length)));
  const total = groups.reduce((sum, group) => sum + group.length, 0);
  const isTooMany = policy.maxContainers >= 0 && total > policy.maxContainers;
  const limit = policy.maxPerPodContainer < 0 ? Number.POSITIVE_INFINITY : policy.maxPerPodContainer;
  const keep = isTooMany ? Math.min(limit, share) : limit;
  const beyond = groups.flatMap((group) => group.slice(keep));
  const kept = groups.flatMap((group) => group.slice(0, keep)).sort(newestFirst);
  const oldest = policy.maxContainers >= 0 ? kept.slice(policy.maxContainers) : [];
  return [...beyond, ...oldest];
}

/** Dead instances that do not wait for the next round; upstream's podContainerDeletor. */
const surplusAtDeath = ({ pods, keptAtDeath, hasFailed }: Context): Victim[] =>
  keptAtDeath === null || hasFailed
    ? []
    : groupsOf(pods).flatMap((group) => group.slice(keptAtDeath).map(({ id }) => ({ kind: 'container', id }) as const));

/** Leaves out an instance that was removed and that its pod still reports. */
function without(pods: Pods, removed: string): Pods {
  const next: Record<string, Garbage> = { ...pods };
  for (const [uid, garbage] of Object.entries(pods)) {
    const dead = garbage.dead.filter(({ id }) => id !== removed);
    if (dead.length < garbage.dead.length) next[uid] = { ...garbage, dead };
  }
  return next;
}

/** When the node is short of disk, also the instances of pods that have ended. */
const garbageToPurge = (pods: Pods, policy: Policy): Victim[] => {
  const ofOver = Object.values(pods).flatMap(({ over, dead }) => (over ? dead : []));
  const idsOfOver = new Set(ofOver.map(({ id }) => id));
  const others = garbageToCollect(pods, policy).filter(({ id }) => !idsOfOver.has(id));
  return [...ofOver.map(({ id }) => ({ kind: 'container' as const, id })), ...others];
};

/** The log of the instance that is removed. */
function logOf({ podLogsDir, containerLogsDir, pods, queue: [victim] }: Context) {
  const dead = Object.values(pods).flatMap((garbage) => garbage.dead);
  const { logPath = '', linkName = '' } = dead.find(({ id }) => id === victim?.id) ?? {};
  return { root: podLogsDir, path: logPath, link: containerLogsDir === '' ? '' : `${containerLogsDir}/${linkName}` };
}

const s = setup({
  types: typed<{ input: ContainerGcInput; context: Context; events: GarbageChanged | GarbagePurge | Ended }>(),
  actors: pick(operations, 'cri.removeContainer', 'cri.removePodSandbox', 'logs.remove', 'logs.unlink'),
  guards: {
    hasSurplus: ({ context }) => surplusAtDeath(context).length > 0,
    wasWaiting: ({ context }) => context.queue.length === 0 && context.rest.in === 'waiting',
    hasVictims: ({ context }) => garbageToCollect(context.pods, context.policy).length > 0,
    isDone: ({ context }) => context.queue.length === 0,
    isPurging: ({ context }) => context.purging,
    hasLog: ({ context }) => logOf(context).path.startsWith(`${context.podLogsDir}/`),
    hasLinks: ({ context }) => context.containerLogsDir !== '',
    isContainer: ({ context }) => context.queue[0]?.kind === 'container',
  },
  delays: { rest: (args) => Math.max(0, args.context.rest.untilMs - now({ system: args.self.system })) },
});

const noteGarbage = s.assign(({ context, event }) => {
  if (event.type !== 'garbage.changed') return {};
  const { uid, dead, sandboxes, over, isEvicted = false } = event;
  const { [uid]: _before, ...others } = context.pods;
  const isClean = dead.length === 0 && sandboxes.length === 0;
  return { pods: isClean ? others : { ...others, [uid]: { dead, sandboxes, over, isEvicted } } };
});

const dequeue = s.assign(({ context }) => {
  const [removed, ...queue] = context.queue;
  const isForgotten = context.keptAtDeath !== null && removed !== undefined;
  return { queue, ...(isForgotten ? { pods: without(context.pods, removed.id) } : {}) };
});

const skip = s.assign({ queue: ({ context }) => context.queue.slice(1), hasFailed: true });

const restIn = (state: 'waiting' | 'settling') =>
  s.assign((args) => {
    const { rest } = args.context;
    return rest.in === state && rest.untilMs > now(args)
      ? {}
      : { rest: { in: state, untilMs: now(args) + CONTAINER_GC_MS } };
  });

const NO_REST = { in: 'settling', untilMs: 0 } as const;
const collectSurplus = s.assign({ queue: ({ context }) => surplusAtDeath(context) });

const podsWithOldInstances = (args: { readonly context: Context; readonly system: object }): Pods =>
  withOldInstances(args.context.pods, args.context.policy, now(args));

const collect = s.assign({
  rest: NO_REST,
  queue: (args) => garbageToCollect(podsWithOldInstances(args), args.context.policy),
});

const beginPurge = s.assign({
  purging: true,
  rest: NO_REST,
  queue: (args) => garbageToPurge(podsWithOldInstances(args), args.context.policy),
});

const answerPurge = s.enqueueActions(({ enqueue }) => {
  enqueue.assign({ purging: false });
  enqueue.sendTo(to('eviction'), { type: 'garbage.purged' });
});

const logFailure = s.enqueueActions(({ context, event, enqueue }) => {
  const { message } = errorOf(event);
  enqueue(line('error', ['Container garbage collection failed', { id: context.queue[0]?.id, error: message }]));
  if (!context.recordsFailures) return;
  enqueue.sendTo(to('eventRecorder'), nodeEvent(context.nodeName, nodeEvents.containerGCFailed(message)));
});

const removingSurplus = { guard: 'hasSurplus', target: 'next', actions: collectSurplus } as const;

const failed = { target: 'next', actions: [logFailure, skip] } as const;

/** How many dead instances of a container stay when one more dies; upstream keeps one if there is no limit. */
const keptAtDeath = (input: ContainerGcInput): number | null =>
  hasBehavior(input, 'deadContainersAsKubelet') ? Math.max(1, input.containerGc.maxPerPodContainer) : null;

export const containerGcMachine = s.createMachine({
  id: 'containerGC',
  context: ({ input }) => ({
    nodeName: input.nodeName,
    podLogsDir: input.podLogsDir,
    containerLogsDir: input.containerLogsDir,
    policy: input.containerGc,
    pods: {},
    queue: [],
    purging: false,
    keptAtDeath: keptAtDeath(input),
    hasFailed: false,
    recordsFailures: !hasBehavior(input, 'removalsAsKubelet'),
    rest: NO_REST,
  }),
  entry: sendTo(to('pods'), { type: 'garbage.wanted' }),
  initial: 'choosing',
  on: { 'garbage.changed': { actions: noteGarbage }, 'garbage.purge': { target: '.next', actions: beginPurge } },
  states: {
    choosing: { always: [{ guard: 'hasLinks', target: 'sweeping' }, { target: 'idle' }] },
    /** Waits until links without a log are removed: a crashed agent may have left them. */
    sweeping: {
      invoke: {
        id: 'sweep',
        src: 'logs.unlink',
        input: ({ context }) => ({ links: context.containerLogsDir, folder: context.podLogsDir, dangling: true }),
        onDone: 'idle',
        onError: {
          target: 'idle',
          actions: line('warn', ({ event }) => [
            'Cannot look for links to logs that are gone',
            { error: errorOf(event).message },
          ]),
        },
      },
    },
    idle: {
      entry: s.assign({ hasFailed: false }),
      always: [removingSurplus, { guard: 'hasVictims', target: 'waiting' }],
    },
    waiting: {
      entry: restIn('waiting'),
      always: removingSurplus,
      after: { rest: { target: 'next', actions: collect } },
    },
    next: {
      always: [
        {
          guard: ({ context }) => context.purging && context.queue.length === 0,
          target: 'settling',
          actions: answerPurge,
        },
        { guard: 'wasWaiting', target: 'waiting' },
        { guard: 'isDone', target: 'settling' },
        { guard: 'isContainer', target: 'removingContainer' },
        { target: 'removingSandbox' },
      ],
    },
    removingContainer: {
      invoke: {
        id: 'removeContainer',
        src: 'cri.removeContainer',
        input: ({ context }) => ({ containerId: context.queue[0]?.id ?? '' }),
        onDone: [
          { guard: 'hasLog', target: 'removingLog' },
          { target: 'next', actions: dequeue },
        ],
        onError: failed,
      },
    },
    removingLog: {
      invoke: {
        id: 'removeLog',
        src: 'logs.remove',
        input: ({ context }) => logOf(context),
        onDone: { target: 'next', actions: dequeue },
        onError: failed,
      },
    },
    removingSandbox: {
      invoke: {
        id: 'removeSandbox',
        src: 'cri.removePodSandbox',
        input: ({ context }) => ({ podSandboxId: context.queue[0]?.id ?? '' }),
        onDone: { target: 'next', actions: dequeue },
        onError: failed,
      },
    },
    /** Waits until the pods have reported the removed containers. */
    settling: { entry: restIn('settling'), always: removingSurplus, after: { rest: 'idle' } },
  },
});
