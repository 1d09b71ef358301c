/**
 * The probes of a pod: one actor for each active probe, and the consequences of its verdicts. Part of the chart of
 * `pod.ts`.
 *
 * Invariants: level-triggered, so the order of changes of container, runtime and pod does not matter; a verdict about
 * an ended instance is ignored.
 */
import { childIn, now, random, reapChild, required, to } from '../../../../kernel/xstate.ts';
import { type Container, DEFAULT_GRACE_SECONDS } from '../../../model/api/pod.ts';
import type { ProberReport, SoftStateMessage } from '../../../model/pods/pod-messages.ts';
import { containerFieldPath, killMessages } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { pickKeys, valueIn } from '../../../model/values/tables.ts';
import type { ProberInput } from '../prober/prober.ts';
import { firstDelay, handlerOf, type ProbedState, probeOf, watchOfKind } from '../prober/prober-policy.ts';
import type { PodContext } from './pod-context.ts';
import { type Probed, type ProberPlan, probedInstance, proberChanges } from './pod-members.ts';
import { addressesOf, refOf } from './pod-policy.ts';
import { applyChange, type Enqueue, podSetup as s, sendToContainer } from './pod-setup.ts';

function proberInput(context: PodContext, plan: ProberPlan, nowMs: number, chance: number): ProberInput {
  const { container, facts, kind, state } = plan;
  const probe = required(probeOf(container, kind), 'the probe of the container');
  const isKnown = valueIn(context.probes, container.name)?.id === facts.id;
  const memberKind = required(valueIn(context.containers, container.name), 'the actor of the container').kind;
  return {
    kind,
    container: container.name,
    containerId: facts.id,
    ref: { ...refOf(context), fieldPath: containerFieldPath(memberKind, container.name) },
    asked: handlerOf(probe, container, facts.id, addressesOf(context)[0] ?? ''),
    delayMs: firstDelay(probe, facts, nowMs, isKnown ? 0 : chance),
    watch: watchOfKind(kind, probe, state, { syncMs: syncMs(context), chance }),
    repeatsErrors: hasBehavior(context.node, 'impossibleProbeEachPeriod'),
  };
}

/** How often the kubelet syncs each pod, at least. */
const syncMs = ({ node }: PodContext): number =>
  hasBehavior(node, 'podDetailsAsKubelet') ? node.syncFrequencyMs : Number.POSITIVE_INFINITY;

/** Stops the probers of ended instances before new ones start: a new actor may have the same id. */
const superviseProbers = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { stale, missing } = proberChanges(context);
  if (stale.length > 0) {
    for (const id of stale) enqueue.stopChild(id);
    enqueue.assign({
      probers: pickKeys(context.probers, (id) => !stale.includes(id)),
    });
    return;
  }
  for (const plan of missing) {
    enqueue.spawnChild('prober', { id: plan.id, input: proberInput(context, plan, now(args), random(args)) });
  }
  const states = missing.map(({ container, state }) => [container.name, state] as const);
  const probers = missing.map(({ id, facts }) => [id, facts.id] as const);
  enqueue.assign({
    probes: { ...context.probes, ...Object.fromEntries(states) },
    probers: { ...context.probers, ...Object.fromEntries(probers) },
  });
});

/** Keeps a prober for each probe that should run. */
export const probing = s.createStateConfig({
  always: { guard: 'mustSuperviseProbers', actions: superviseProbers },
});

export const noteVerdict = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'prober.judged') return;
  const container = [...(context.pod?.spec.initContainers ?? []), ...(context.pod?.spec.containers ?? [])].find(
    ({ name }) => name === event.container,
  );
  const instance = container && probedInstance(context, container);
  if (!instance || instance.facts.id !== event.containerId) return;
  const state = afterVerdict(instance.state, event);
  const probes = { ...context.probes, [event.container]: state };
  applyChange(enqueue, context, { probes }, now(args));
  if (state.failed) kill(enqueue, context, instance, event);
  else remember(enqueue, context.uid, event.container, state);
});

function afterVerdict(state: ProbedState, { kind, verdict }: ProberReport): ProbedState {
  const isSuccess = verdict === 'success';
  if (kind === 'readiness') return { ...state, ready: isSuccess };
  if (!isSuccess) return { ...state, failed: true };
  return kind === 'startup' ? { ...state, started: true } : state;
}

/** Stops the instance; its restart policy decides whether another one follows. */
function kill(enqueue: Enqueue, context: PodContext, { container }: Probed, { kind }: ProberReport): void {
  const { name } = container;
  const comes = restartExpected(context, container);
  const isLast =
    comes === 'never' && !context.pod?.spec.containers.some((each) => otherContainersContinue(context, each, name));
  const probe = kind === 'startup' ? 'startup' : 'liveness';
  const probeSeconds = isLast ? undefined : probeOf(container, kind)?.terminationGracePeriodSeconds;
  sendToContainer(enqueue, name, {
    type: 'container.stop',
    graceSeconds: probeSeconds ?? context.pod?.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS,
    message: isLast ? killMessages.stopping(name) : killMessages.probeFailed(name, probe, comes),
    after: comes === 'never' ? 'exit' : 'again',
  });
}

/**
 * True if another container continues beside the one that a probe ends. Otherwise the pod ends, with the grace of the
 * pod.
 */
const otherContainersContinue = ({ containers, probes }: PodContext, { name }: Container, ending: string): boolean =>
  name !== ending && valueIn(containers, name)?.view.phase !== 'ended' && valueIn(probes, name)?.failed !== true;

/** Whether another instance follows. The exit code does not matter here; with `Never` only a restart rule allows it. */
function restartExpected({ pod }: PodContext, container: Container): 'again' | 'never' | 'asSidecar' {
  if (pod?.spec.initContainers?.some(({ name }) => name === container.name)) return 'asSidecar';
  return (container.restartPolicy ?? pod?.spec.restartPolicy) === 'Never' ? 'never' : 'again';
}

function remember(enqueue: Enqueue, uid: string, container: string, { id, started, ready }: ProbedState): void {
  const message: SoftStateMessage = {
    type: 'softState.probed',
    key: `${uid}/${container}`,
    probed: { id, started, ready },
  };
  enqueue.sendTo(to('softState'), message);
}

/** The pause before a crashed prober is replaced. */
const RESPAWN_MS = 10_000;

/** Replaces a crashed prober after a pause; the pod goes on without it. */
export const reapProber = s.enqueueActions(({ event, enqueue }) => {
  const id = childIn(event);
  if (id.startsWith('prober-')) reapChild(enqueue, id, { type: 'prober.respawn', id }, RESPAWN_MS);
});

/** Forgets the prober, so that another one is spawned. */
export const respawnProber = s.assign({
  probers: ({ context, event }) => {
    if (event.type !== 'prober.respawn') return context.probers;
    const { [event.id]: _crashed, ...probers } = context.probers;
    return probers;
  },
});
