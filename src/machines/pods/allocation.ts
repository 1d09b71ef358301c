/**
 * The allocation manager: which pods this node takes, and which resources each was given.
 *
 * Decides: admission of new pods, preemption for critical ones, and whether a change of resources can be had now, later
 * or never.
 * Owns: by uid what a pod holds and was given; who was refused and why; who waits for more; who waits for room.
 * Hears: `allocation.*` of pods, `pods.known` of `pods`, `node.*` of whoever watches the node.
 * Asks: `pods` to end the pods that a critical one displaces. Tells pods its answers (through `pods`), `memory` what
 *   must outlive the agent, `containerManager` the sums by QoS class and what
 *   single containers hold.
 * Invariants:
 *   A1 what was taken once stays taken over a restart of the agent, and what was refused stays refused.
 *   A2 the sum of what pods were given never exceeds what the node allows, but for pods taken before it shrank.
 *   A3 a pod that displaces others is told only when they have ended, or when they took too long.
 *   A4 an answer comes in the same turn as the question; only a refusal for labels or taints waits until the Node was
 *   seen.
 */
import { line, now, sendTo, setup, to } from '../../kernel/xstate.ts';
import type { Node } from '../api/node.ts';
import { NO_DEMAND, type QOSDemand } from '../node/cgroups/node-groups.ts';
import type { NodeSettings } from '../node-settings.ts';
import type { SoftState } from '../operations/host.ts';
import { type EventText, podEvents, podMessages, podReasons } from '../reasons.ts';
import { admit, byUrgency, resize } from './admission/admit.ts';
import type { AllocationMessage, AllocationReport, Grant } from './admission/messages.ts';
import type { NodeView, Rejection, Taint } from './admission/predicates.ts';
import type { Candidate } from './admission/preemption.ts';
import type { AdmissionRequest, Allocation } from './admission/request.ts';
import { assignedTo, demandOf, heldBy, pinnedResize, podShares } from './admission/resource-grants.ts';
import { eventRecorded, type PodKillWanted } from './messages.ts';

/** Upstream's period of looking again at what waits for more; ends of pods come first. */
const RETRY_MS = 180_000;
/** A pod that is displaced and does not end by then holds up a critical one no longer. */
const PREEMPTION_WAIT_MS = 60_000;

export interface AllocationInput {
  readonly settings: NodeSettings;
  readonly softState: SoftState | null;
}

interface Waiting {
  readonly request: AdmissionRequest;
  readonly allocation: Allocation;
  readonly victims: readonly string[];
}

type Wish = Pick<Waiting, 'request' | 'allocation'>;

interface PendingResize {
  readonly request: AdmissionRequest;
  readonly allocation: Allocation;
  readonly sinceMs: number;
}

interface Context {
  readonly settings: NodeSettings;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  readonly pressures: readonly string[];
  readonly isShuttingDown: boolean;
  /** Labels and taints are settled: the Node was seen, or there is no cluster that could have one. */
  readonly isNodeKnown: boolean;
  /** The runtime keeps a pod's groups to those of its specification. */
  readonly strictGroups: boolean;
  readonly grants: Readonly<Record<string, Grant>>;
  readonly rejections: Readonly<Record<string, Rejection>>;
  readonly waiting: Readonly<Record<string, Waiting>>;
  /** Those that the Node may be right for once it is known. */
  readonly unjudged: Readonly<Record<string, Wish>>;
  readonly resizes: Readonly<Record<string, PendingResize>>;
  readonly demand: QOSDemand;
}

type Event =
  | AllocationMessage
  | { readonly type: 'memory.loaded'; readonly state: SoftState }
  | { readonly type: 'allocation.waited'; readonly uid: string };

const s = setup({
  types: { input: {} as AllocationInput, context: {} as Context, events: {} as Event },
  guards: {
    hasPending: ({ context }) => Object.keys(context.resizes).length > 0,
    hasNoPending: ({ context }) => Object.keys(context.resizes).length === 0,
  },
});

type Args = Parameters<Parameters<typeof s.enqueueActions>[0]>[0];

/** What changes while one message is worked on; it becomes the context at the end, all at once. */
type Books = { -readonly [Key in 'grants' | 'rejections' | 'waiting' | 'unjudged' | 'resizes']: Context[Key] };

interface Work {
  readonly args: Args;
  readonly books: Books;
}

/** Does the work, then keeps the books and tells what follows from them. */
const keeping = (work: (w: Work) => void) =>
  s.enqueueActions((args) => {
    const { context, enqueue } = args;
    const { grants, rejections, waiting, unjudged, resizes } = context;
    const books: Books = { grants, rejections, waiting, unjudged, resizes };
    work({ args, books });
    const demand = demandOf(books.grants);
    if (!isSame(demand, context.demand)) enqueue.sendTo(to('containerManager'), { type: 'qos.changed', demand });
    const [before, held] = [heldBy(context.settings, grants), heldBy(context.settings, books.grants)];
    if (!isSame(held, before)) enqueue.sendTo(to('containerManager'), held);
    const { shared } = held;
    if (shared !== before.shared) reply({ args, books }, { type: 'allocation.shared', shared });
    enqueue.assign({ ...books, demand });
  });

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

const reply = ({ args }: Work, message: AllocationReport): void => args.enqueue.sendTo(to('pods'), message);

function tellEvent({ args }: Work, { uid, namespace, name }: AdmissionRequest, text: EventText): void {
  args.enqueue.sendTo(to('eventRecorder'), eventRecorded({ kind: 'Pod', namespace, name, uid }, text));
}

const viewOf = ({ settings, labels, taints, pressures, isShuttingDown, strictGroups }: Context): NodeView => ({
  ...settings.admission!,
  nodeName: settings.nodeName,
  labels,
  taints,
  pressures,
  isShuttingDown,
  strictGroups,
});

const candidates = ({ grants, waiting }: Books): readonly Candidate[] => [
  ...Object.entries(grants).map(([uid, { demand }]) => ({ uid, demand })),
  ...Object.values(waiting).map(({ request }) => ({ uid: request.uid, demand: request.demand })),
];

const without = <Value>(table: Readonly<Record<string, Value>>, uid: string): Readonly<Record<string, Value>> => {
  const { [uid]: _gone, ...rest } = table;
  return rest;
};

// ---- who wants something --------------------------------------------------------------------------------------------

const judge = keeping((w) => {
  const { event } = w.args;
  if (event.type !== 'allocation.wanted') return;
  const { uid } = event.request;
  const rejection = w.books.rejections[uid];
  if (rejection) reply(w, { type: 'allocation.refused', uid, rejection });
  else if (w.books.grants[uid]) keep(w, event);
  else if (!w.books.waiting[uid]) take(w, event);
});

/** A new pod. */
function take(w: Work, wish: Wish): void {
  const { request, allocation } = wish;
  const { uid } = request;
  const { rejection, victims = [], shortOf } = admit(request, viewOf(w.args.context), candidates(w.books));
  const isEarly = !w.args.context.isNodeKnown && !request.rules.isStatic && mayChange(rejection);
  w.books.unjudged = isEarly ? { ...w.books.unjudged, [uid]: wish } : without(w.books.unjudged, uid);
  if (isEarly) return;
  if (rejection !== null) return refuse(w, request, ownShortage(w, wish, rejection) ?? rejection);
  if (victims.length === 0) return give(w, wish);
  w.books.waiting = { ...w.books.waiting, [uid]: { request, allocation, victims } };
  w.args.enqueue.raise({ type: 'allocation.waited', uid }, { delay: PREEMPTION_WAIT_MS, id: `waited-${uid}` });
  for (const victim of victims) displace(w, victim, uid, shortOf);
}

const OF_THE_NODE = ['NodeAffinity', 'TaintToleration'];
const mayChange = (rejection: Rejection | null): boolean =>
  rejection !== null && OF_THE_NODE.includes(rejection.reason);

function refuse(w: Work, request: AdmissionRequest, rejection: Rejection): void {
  const { uid } = request;
  w.books.rejections = { ...w.books.rejections, [uid]: rejection };
  w.args.enqueue.sendTo(to('memory'), { type: 'memory.rejected', uid, rejection });
  tellEvent(w, request, podEvents.rejected(rejection.reason, rejection.message));
  reply(w, { type: 'allocation.refused', uid, rejection });
}

/** Upstream gives out single CPUs and memory before it counts, and so that refusal is the one that a pod has. */
function ownShortage(w: Work, { request }: Wish, { reason }: Rejection): Rejection | null {
  if (!reason.startsWith('OutOf') && reason !== 'UnexpectedAdmissionError') return null;
  const answer = assignedTo(w.args.context.settings, request, w.books.grants);
  return 'rejection' in answer ? answer.rejection : null;
}

function give(w: Work, { request, allocation }: Wish): void {
  const { uid, demand } = request;
  const answer = assignedTo(w.args.context.settings, request, w.books.grants);
  if ('rejection' in answer) {
    w.books.waiting = without(w.books.waiting, uid);
    return refuse(w, request, answer.rejection);
  }
  const grant: Grant = { demand, allocation, ...answer };
  w.books.grants = { ...w.books.grants, [uid]: grant };
  w.books.waiting = without(w.books.waiting, uid);
  w.books.resizes = without(w.books.resizes, uid);
  w.args.enqueue.sendTo(to('memory'), { type: 'memory.allocated', uid, grant });
  reply(w, { type: 'allocation.granted', uid, allocation, ...podShares(w.args.context.settings, w.books.grants, uid) });
}

function displace({ args: { enqueue } }: Work, uid: string, critical: string, shortOf = ''): void {
  const { preempting: reason } = podReasons;
  const verdict = { reason, message: podMessages.preempted, said: 'once', disruptionTarget: true } as const;
  enqueue(line('info', ['Ending a pod to make room for a critical one', { uid, critical }]));
  enqueue.sendTo(to('pods'), { type: 'pods.kill', uid, graceSeconds: null, verdict, shortOf } satisfies PodKillWanted);
}

// ---- who wants something else ---------------------------------------------------------------------------------------

/** A pod that was taken before, after a restart of its actor or with another specification. */
function keep(w: Work, wish: Wish): void {
  const { uid } = wish.request;
  const { allocation } = w.books.grants[uid]!;
  if (!isSame(allocation, wish.allocation)) return change(w, wish);
  w.books.resizes = without(w.books.resizes, uid);
  reply(w, { type: 'allocation.granted', uid, allocation, ...podShares(w.args.context.settings, w.books.grants, uid) });
}

function change(w: Work, wish: Wish): void {
  const { settings } = w.args.context;
  const { request } = wish;
  const { uid } = request;
  const wholeNode = settings.admission?.wholeNode ?? {};
  const { allocation } = w.books.grants[uid]!;
  const refusal =
    pinnedResize(settings, wish, allocation) ?? resize(request, viewOf(w.args.context), wholeNode, candidates(w.books));
  if (refusal === null) return give(w, wish);
  const before = w.books.resizes[uid];
  const sinceMs = before?.sinceMs ?? now(w.args);
  const pending = refusal.reason === 'Deferred' ? { ...w.books.resizes, [uid]: { ...wish, sinceMs } } : null;
  w.books.resizes = pending ?? without(w.books.resizes, uid);
  const shares = podShares(settings, w.books.grants, uid);
  reply(w, { type: 'allocation.pending', uid, allocation, refusal, ...shares });
}

/** Something became free, or enough time went by: what waits is looked at again, the most urgent first. */
function retry(w: Work): void {
  const pending = Object.values(w.books.resizes).map((each) => ({
    ...each,
    increases: increases(w.books.grants[each.request.uid], each.request),
  }));
  for (const wish of pending.toSorted(byUrgency)) {
    if (w.books.grants[wish.request.uid]) change(w, { request: wish.request, allocation: wish.allocation });
    else w.books.resizes = without(w.books.resizes, wish.request.uid);
  }
}

const increases = (grant: Grant | undefined, { demand }: AdmissionRequest): boolean =>
  ['cpu', 'memory'].some((name) => BigInt(demand.requests[name] ?? '0') > BigInt(grant?.demand.requests[name] ?? '0'));

const retryNow = keeping(retry);

// ---- who is gone ----------------------------------------------------------------------------------------------------

const free = keeping((w) => {
  const { event } = w.args;
  if (event.type !== 'allocation.ended' && event.type !== 'allocation.released') return;
  const { uid } = event;
  const held = w.books.grants[uid] !== undefined;
  w.books.grants = without(w.books.grants, uid);
  w.books.waiting = without(w.books.waiting, uid);
  w.books.unjudged = without(w.books.unjudged, uid);
  w.books.resizes = without(w.books.resizes, uid);
  if (event.type === 'allocation.released') w.books.rejections = without(w.books.rejections, uid);
  if (!held) return;
  admitWaiting(w, uid);
  retry(w);
});

/** Those that waited for this pod to end, and for nobody else. */
function admitWaiting(w: Work, uid: string): void {
  for (const waiting of Object.values(w.books.waiting)) {
    const victims = waiting.victims.filter((victim) => victim !== uid);
    if (victims.length === 0) give(w, waiting);
    else w.books.waiting = { ...w.books.waiting, [waiting.request.uid]: { ...waiting, victims } };
  }
}

const stopWaiting = keeping((w) => {
  const { event } = w.args;
  if (event.type !== 'allocation.waited') return;
  const waiting = w.books.waiting[event.uid];
  if (!waiting) return;
  w.args.enqueue(line('warn', ['Pods that were displaced have not ended', { uid: event.uid, pods: waiting.victims }]));
  give(w, waiting);
});

/** What is remembered of pods that are not on this node any more holds nothing. */
const forgetOthers = keeping((w) => {
  const { event } = w.args;
  if (event.type !== 'pods.known') return;
  const known = new Set(event.uids);
  const remembered = [...Object.keys(w.books.grants), ...Object.keys(w.books.rejections)];
  for (const uid of remembered.filter((each) => !known.has(each))) {
    w.books.grants = without(w.books.grants, uid);
    w.books.rejections = without(w.books.rejections, uid);
    w.args.enqueue.sendTo(to('memory'), { type: 'memory.forgotten', uid });
  }
});

const observed = ({ metadata, spec }: Node): Pick<Context, 'labels' | 'taints' | 'isNodeKnown'> => ({
  labels: metadata?.labels ?? {},
  taints: spec?.taints ?? [],
  isNodeKnown: true,
});

const observe = s.assign(({ context, event }): Partial<Context> => {
  if (event.type === 'node.known') return observed(event.node);
  if (event.type === 'node.pressed') return { pressures: event.pressures };
  if (event.type === 'node.reported') {
    return { strictGroups: event.reports.features?.supplementalGroupsPolicy ?? context.strictGroups };
  }
  return event.type === 'node.shuttingDown' ? { isShuttingDown: event.active } : {};
});

/** The Node is known from now on: who had to wait for that is judged. */
const judgeEarly = keeping((w) => {
  for (const wish of Object.values(w.books.unjudged)) take(w, wish);
});

/** What was known before; what was decided since counts more. */
const remember = keeping(({ args: { event }, books }) => {
  if (event.type !== 'memory.loaded') return;
  books.grants = { ...event.state.grants, ...books.grants };
  books.rejections = { ...event.state.rejections, ...books.rejections };
});

export const allocationMachine = s.createMachine({
  id: 'allocation',
  context: ({ input: { settings, softState } }) => ({
    settings,
    labels: settings.admission?.labels ?? {},
    taints: settings.admission?.taints ?? [],
    pressures: [],
    isShuttingDown: false,
    isNodeKnown: settings.apiServer === undefined,
    strictGroups: false,
    grants: softState?.grants ?? {},
    rejections: softState?.rejections ?? {},
    waiting: {},
    unjudged: {},
    resizes: {},
    demand: NO_DEMAND,
  }),
  entry: s.enqueueActions(({ enqueue }) => {
    enqueue.sendTo(to('memory'), { type: 'memory.wanted' });
    enqueue.sendTo(to('pods'), { type: 'allocation.started' } satisfies AllocationReport);
    enqueue.sendTo(to('runtimeState'), { type: 'runtimeState.wanted' });
    enqueue.sendTo(to('nodeStatus'), { type: 'node.wanted' });
  }),
  on: {
    'memory.loaded': { actions: remember },
    'allocation.wanted': { actions: judge },
    'allocation.ended': { actions: free },
    'allocation.released': { actions: free },
    'allocation.waited': { actions: stopWaiting },
    'pods.known': { actions: forgetOthers },
    'resources.wanted': {
      actions: sendTo(to('containerManager'), ({ context }) => heldBy(context.settings, context.grants)),
    },
    'node.known': { actions: [observe, judgeEarly] },
    'node.pressed': { actions: observe },
    'node.shuttingDown': { actions: observe },
    'node.reported': { actions: observe },
  },
  initial: 'quiet',
  states: {
    quiet: { always: { guard: 'hasPending', target: 'pending' } },
    /** Some pod waits for more than there is. */
    pending: {
      always: { guard: 'hasNoPending', target: 'quiet' },
      after: { [RETRY_MS]: { target: 'pending', reenter: true, actions: retryNow } },
    },
  },
});
