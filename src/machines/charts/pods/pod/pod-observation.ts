/** What a pod learns about its sandboxes and containers, by inspections, events and answers to its calls. */
import { now, type OutputOf, outputOf, to } from '../../../../kernel/xstate.ts';
import type { PodSandboxStatus } from '../../../model/api/cri.ts';
import type { PodRuntimeStatus } from '../../../model/operations/cri.ts';
import type { Operations } from '../../../model/operations/index.ts';
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
import { begunAt, type PodContext } from './pod-context.ts';
import { changedFacts } from './pod-policy.ts';
import { type Enqueue, order, podSetup as s, settle } from './pod-setup.ts';
import { ordered } from './pod-turns.ts';

type Observing = Parameters<Parameters<typeof s.enqueueActions>[0]>[0];

/** Takes the runtime's state of the pod, and publishes its status. `by`: the container that knows its part already. */
export function learn(args: Observing, runtime: PodRuntimeStatus, change: Partial<PodContext> = {}, by = ''): void {
  const { context, enqueue } = args;
  const begun = context.runtime === null ? { begunMs: begunAt(runtime) } : {};
  settle(enqueue, context, { runtime, ...begun, ...change }, now(args));
  sendCollectors(enqueue, context, runtime);
  for (const [name, facts] of changedFacts(context.runtime, runtime, Object.keys(context.containers))) {
    if (name !== by) order(enqueue, name, { type: 'container.observed', facts });
  }
}

/** Takes an inspection of the whole pod. */
function learnAll(args: Observing, seen: PodRuntimeStatus, own = false): void {
  const { context, enqueue } = args;
  const runtime = mergedStatus(context.runtime, ordered(seen));
  const inspected = own || context.inspected;
  if (runtime !== context.runtime) learn(args, runtime, { inspected });
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

/** An inspection by this actor began after its last call; other observations count only if they began later. */
export const learnFromInspection = s.enqueueActions((args) =>
  learnAll(args, outputOf<PodRuntimeStatus>(args.event), true),
);

/** An observation that began before the last call is dropped and repeated: it may have shown other changes too. */
export const learnFromWatch = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'runtime.podChanged') return;
  if (event.status.observedAtMs > context.actedAtMs) learnAll(args, event.status);
  else enqueue.raise({ type: 'container.unseen' });
});

/** The observation of one sandbox or container: its end is never undone, whenever it was observed. */
export const learnInstance = s.enqueueActions((args) => {
  const { event, context } = args;
  const { runtime: known } = context;
  if (known === null) return;
  if (event.type === 'runtime.sandboxChanged') learnSandbox(args, known, event.status);
  else if (event.type === 'runtime.containerChanged') {
    const runtime = withContainer(known, event.status);
    if (runtime !== known) learn(args, runtime);
  }
});

function learnSandbox(args: Observing, known: PodRuntimeStatus, status: PodSandboxStatus): void {
  const runtime = withSandbox(known, status);
  if (runtime !== known) learn(args, ordered(runtime));
}

export const learnAbsence = s.enqueueActions((args) => {
  const { event, context } = args;
  if (event.type !== 'runtime.absent' || context.runtime !== null) return;
  learnAll(args, emptyRuntime(context.uid, context.name, context.namespace, event.observedAtMs));
});

/** Earlier observations no longer count; the runtime is inspected again. */
const begin = (enqueue: Enqueue, nowMs: number, more: Partial<PodContext> = {}): void => {
  enqueue.assign({ ...more, actedAtMs: nowMs, inspected: false });
  enqueue.raise({ type: 'inspection.due' });
};

export const observeNow = s.enqueueActions((args) => begin(args.enqueue, now(args)));

/** An own call has ended, and its answer showed the effect; an inspection in progress may not. */
export function noteActed({ check, enqueue }: Observing): void {
  if (check('isAsking')) enqueue.raise({ type: 'acted' });
}

/** The sandbox was created: the answer shows it, or the runtime is inspected. */
export const handleSandbox = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const { status } = outputOf<OutputOf<Operations['cri.runPodSandbox']>>(event);
  if (status === null) return begin(enqueue, now(args), { failures: 0 });
  const runtime = ordered(withSandbox(runtimeOf(context), status));
  learn(args, runtime, { failures: 0, actedAtMs: now(args) });
  noteActed(args);
});

/** A sandbox was stopped: the answer shows it, or a watch of the runtime will. */
export const handleStopped = s.enqueueActions((args) => {
  const { status } = outputOf<OutputOf<Operations['cri.stopPodSandbox']>>(args.event);
  if (status !== null) learnSandbox(args, runtimeOf(args.context), status);
});
