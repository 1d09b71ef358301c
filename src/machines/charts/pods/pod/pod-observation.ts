/**
 * Observes the sandboxes and containers of a pod, by inspections, events and answers to the pod's own calls; reports
 * that the pod cannot be inspected. Part of the chart of `pod.ts`.
 */
import { type ActionArgsOf, errorIn, now, type OutputOf, outputOf, random, to } from '../../../../kernel/xstate.ts';
import type { PodSandboxStatus } from '../../../model/api/cri.ts';
import type { PodRuntimeStatus } from '../../../model/operations/cri.ts';
import type { Operations } from '../../../model/operations/index.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { podEvents } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import {
  emptyRuntime,
  garbageOf,
  imagesOf,
  mergedStatus,
  withContainer,
  withSandbox,
} from '../../../model/status/runtime-facts.ts';
import { isSame } from '../../../model/values/same.ts';
import { pauseMs, SYNC_BACK_OFF } from '../../../model/values/time.ts';
import { logFailure } from './pod-actions.ts';
import { begunAt, type PodContext } from './pod-context.ts';
import { changedFacts, refOf } from './pod-policy.ts';
import { applyChange, type Enqueue, podSetup as s, sendToContainer } from './pod-setup.ts';
import { newestFirst } from './pod-start-order.ts';

/** The pause before a failed inspection is retried. */
const INSPECTION_RETRY_MS = 1_000;
/** An inspection that takes longer is repeated. */
const INSPECTION_DEADLINE_MS = 15_000;

type ActionArgs = ActionArgsOf<typeof s>;

/**
 * Stores the runtime's state of the pod, and publishes the status. `by`: the container that reported its part itself.
 */
export function applyRuntime(
  args: ActionArgs,
  runtime: PodRuntimeStatus,
  change: Partial<PodContext> = {},
  by = '',
): void {
  const { context, enqueue } = args;
  const begun = context.runtime === null ? { begunMs: begunAt(runtime) } : {};
  applyChange(enqueue, context, { runtime, ...begun, ...change }, now(args));
  sendCollectors(enqueue, context, runtime);
  for (const [name, facts] of changedFacts(context.runtime, runtime, Object.keys(context.containers))) {
    if (name !== by) sendToContainer(enqueue, name, { type: 'container.observed', facts });
  }
}

function applyInspection(args: ActionArgs, seen: PodRuntimeStatus, own = false): void {
  const { context, enqueue } = args;
  const runtime = mergedStatus(context.runtime, newestFirst(seen));
  const inspected = own || context.inspected;
  if (runtime !== context.runtime) applyRuntime(args, runtime, { inspected });
  else if (inspected !== context.inspected) enqueue.assign({ inspected });
}

/** The state of the runtime; an empty one if none was reported yet. */
export const runtimeOf = ({ runtime, uid, name, namespace }: PodContext): PodRuntimeStatus =>
  runtime ?? emptyRuntime(uid, name, namespace, 0);

/** The garbage collectors receive only changes. */
function sendCollectors(enqueue: Enqueue, context: PodContext, now: PodRuntimeStatus): void {
  const { uid, runtime, kill, node } = context;
  const before = runtime ?? emptyRuntime(uid, '', '', 0);
  const byNode = kill?.verdict?.published === 'once' && hasBehavior(node, 'evictionAsKubelet');
  const garbage = garbageOf(uid, now, byNode);
  if (!isSame(garbageOf(uid, before, byNode), garbage)) enqueue.sendTo(to('containerGC'), garbage);
  const images = imagesOf(uid, now);
  if (!isSame(imagesOf(uid, before), images)) enqueue.sendTo(to('imageGC'), images);
}

/** Sends the pod's facts again to a garbage collector that lost its state. */
export const sendCollectorsAgain = s.enqueueActions(({ context, enqueue }) => {
  const { uid, runtime } = context;
  if (runtime !== null) sendCollectors(enqueue, { ...context, runtime: emptyRuntime(uid, '', '', 0) }, runtime);
});

const OVERDUE = 'rpc error: code = DeadlineExceeded desc = context deadline exceeded';
/** The runtime is away, and answers nothing about any pod. */
const AWAY = 'rpc error: code = Unavailable';

/**
 * Stores why the pod cannot be inspected: an own inspection failed or is overdue, or one of the watch failed. That the
 * runtime is away is no fault of its pods.
 */
export const noteStale = s.assign(({ context, event }) => {
  if (!hasBehavior(context.node, 'containersAsKubelet')) return {};
  const message = event.type === 'runtime.podStale' ? event.message : (errorIn(event)?.message ?? OVERDUE);
  if (message.startsWith(AWAY)) return {};
  return { stale: { message, untilMs: context.stale?.untilMs ?? 0 } };
});

export const noteFresh = s.assign(({ context: { stale } }) => (stale ? { stale: { ...stale, message: '' } } : {}));

const isStale = ({ context: { stale, stage } }: { readonly context: PodContext }): boolean =>
  stage === 'sync' && stale !== undefined && stale.message !== '';

/** Reports it, at most at each sync by the kubelet. */
const reportStale = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const nowMs = now(args);
  if (context.stale === undefined || nowMs < context.stale.untilMs) return;
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), podEvents.failedSync(context.stale.message)));
  enqueue.assign({ stale: { ...context.stale, untilMs: nowMs + Math.round(pauseMs(SYNC_BACK_OFF, 0, random(args))) } });
});

export const staleness = s.createStateConfig({
  initial: 'fresh',
  states: {
    fresh: { always: { guard: isStale, target: 'stale' } },
    stale: {
      entry: reportStale,
      always: { guard: (args) => !isStale(args), target: 'fresh' },
      after: { syncAgain: { target: 'stale', reenter: true } },
    },
  },
});

/** The actor's own inspection counts: it began after the last call. */
const handleInspection = s.enqueueActions((args) =>
  applyInspection(args, outputOf<PodRuntimeStatus>(args.event), true),
);

/** Another observation counts if it began after the last call; otherwise the runtime is inspected again. */
export const handleObservation = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'runtime.podChanged') return;
  if (event.status.observedAtMs > context.actedAtMs) applyInspection(args, event.status);
  else enqueue.raise({ type: 'container.unseen' });
});

/** The observation of one sandbox or container: its end is never undone, whenever it was observed. */
export const handleInstance = s.enqueueActions((args) => {
  const { event, context } = args;
  const { runtime: known } = context;
  if (known === null) return;
  if (event.type === 'runtime.sandboxChanged') applySandbox(args, known, event.status);
  else if (event.type === 'runtime.containerChanged') {
    const runtime = withContainer(known, event.status);
    if (runtime !== known) applyRuntime(args, runtime);
  }
});

function applySandbox(args: ActionArgs, known: PodRuntimeStatus, status: PodSandboxStatus): void {
  const runtime = withSandbox(known, status);
  if (runtime !== known) applyRuntime(args, newestFirst(runtime));
}

export const handleAbsence = s.enqueueActions((args) => {
  const { event, context } = args;
  if (event.type !== 'runtime.absent' || context.runtime !== null) return;
  applyInspection(args, emptyRuntime(context.uid, context.name, context.namespace, event.observedAtMs));
});

/** Earlier observations no longer count; the runtime is inspected again. */
const requestInspection = (enqueue: Enqueue, nowMs: number, more: Partial<PodContext> = {}): void => {
  enqueue.assign({ ...more, actedAtMs: nowMs, inspected: false });
  enqueue.raise({ type: 'inspection.due' });
};

export const observeNow = s.enqueueActions((args) => requestInspection(args.enqueue, now(args)));

/** An own call has ended, and its answer showed the effect; an inspection in progress may not. */
export function noteCallEnded({ check, enqueue }: ActionArgs): void {
  if (check('isAsking')) enqueue.raise({ type: 'acted' });
}

/** The sandbox was created: the answer shows it, or the runtime is inspected. */
export const handleSandbox = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const { status } = outputOf<OutputOf<Operations['cri.runPodSandbox']>>(event);
  if (status === null) return requestInspection(enqueue, now(args), { failures: 0 });
  const runtime = newestFirst(withSandbox(runtimeOf(context), status));
  applyRuntime(args, runtime, { failures: 0, actedAtMs: now(args) });
  noteCallEnded(args);
});

/** A sandbox was stopped: the answer shows it, or a watch of the runtime will. */
export const handleStopped = s.enqueueActions((args) => {
  const { status } = outputOf<OutputOf<Operations['cri.stopPodSandbox']>>(args.event);
  if (status !== null) applySandbox(args, runtimeOf(args.context), status);
});

/** Inspects this pod alone in the runtime. A hanging inspection delays no other pod. */
export const observer = s.createStateConfig({
  initial: 'idle',
  states: {
    idle: { on: { 'inspection.due': 'asking', 'container.unseen': 'asking' } },
    asking: {
      invoke: {
        id: 'podStatus',
        src: 'cri.podStatus',
        input: ({ context }) => ({ uid: context.uid }),
        onDone: { target: 'idle', actions: [handleInspection, noteFresh] },
        onError: { target: 'failing', actions: [logFailure('Cannot inspect the pod in the runtime'), noteStale] },
      },
      on: { 'inspection.due': { target: 'asking', reenter: true }, acted: { target: 'asking', reenter: true } },
      after: { [INSPECTION_DEADLINE_MS]: { target: 'asking', reenter: true, actions: noteStale } },
    },
    failing: { on: { 'inspection.due': 'asking' }, after: { [INSPECTION_RETRY_MS]: 'asking' } },
  },
});
