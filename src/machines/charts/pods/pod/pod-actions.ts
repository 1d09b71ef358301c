/** Actions of a pod's machine for its configuration, its sandbox and its events. The chart is in `pod.ts`. */

import { errorIn, errorOf, line, now, type PlainError, random, to } from '../../../../kernel/xstate.ts';
import { withAllocation } from '../../../model/allocation/request.ts';
import { DEFAULT_GRACE_SECONDS, type Pod } from '../../../model/api/pod.ts';
import { claimRefusal } from '../../../model/dra/claims.ts';
import { eventRecorded, nodeEvent } from '../../../model/pods/pod-messages.ts';
import { type EventText, killMessages, podEvents } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { UndeclaredFeature } from '../../../model/settings/node-settings.ts';
import { podDns } from '../../../model/spec/dns.ts';
import { isSidecar } from '../../../model/spec/resources.ts';
import { isSame } from '../../../model/values/same.ts';
import { valueIn } from '../../../model/values/tables.ts';
import { pauseMs, SYNC_BACK_OFF } from '../../../model/values/time.ts';
import { retryDelay, runsInOrder, SPAWNED } from '../container/container-policy.ts';
import type { PodContext } from './pod-context.ts';
import { membersOf, wantedOf } from './pod-members.ts';
import { podOrName, refOf } from './pod-policy.ts';
import { applyChange, type Enqueue, podSetup as s, sendToContainer } from './pod-setup.ts';
import { nextAttempt, runRefusal } from './pod-start-order.ts';

/** Reports a change that needs features whose gates are off; as upstream, it is applied as far as possible. */
function recordUndeclared(enqueue: Enqueue, context: PodContext, pod: Pod): void {
  const { asked, node } = context;
  if (asked === null || node.undeclared === undefined || !hasBehavior(node, 'podDetailsAsKubelet')) return;
  const names = node.undeclared.filter((feature) => NEEDS[feature](asked, pod));
  if (names.length === 0) return;
  const text = podEvents.failedNodeDeclaredFeaturesCheck(names);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
}

const resourcesOfInits = ({ spec: { initContainers = [] } }: Pod) =>
  initContainers.filter((each) => !isSidecar(each)).map(({ resources }) => resources);

const NEEDS: Readonly<Record<UndeclaredFeature, (before: Pod, after: Pod) => boolean>> = {
  InPlacePodLevelResourcesVerticalScaling: (before, after) => !isSame(before.spec.resources, after.spec.resources),
  InPlacePodVerticalScalingInitContainers: (before, after) =>
    !isSame(resourcesOfInits(before), resourcesOfInits(after)),
};

export const configure = s.enqueueActions((args) => {
  const { event, context, enqueue } = args;
  if (event.type !== 'pod.configured') return;
  recordUndeclared(enqueue, context, event.pod);
  const pod = withAllocation(event.pod, context.allocation);
  applyChange(enqueue, context, { pod, asked: event.pod }, now(args));
  for (const member of membersOf(pod)) {
    const { name } = member.container;
    if (!valueIn(context.containers, name)) continue;
    const definition = wantedOf(pod, member);
    const before = context.pod && membersOf(context.pod).find(({ container }) => container.name === name);
    if (before && JSON.stringify(wantedOf(context.pod, before)) === JSON.stringify(definition)) continue;
    sendToContainer(enqueue, name, { type: 'container.configured', wanted: definition });
  }
});

export const record = (text: (context: PodContext, error: PlainError) => EventText) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const error = errorOf(event);
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text(context, error)));
  });

/** Records where the pod's DNS configuration differs from the requested one. */
export const recordDns = s.enqueueActions(({ context, enqueue }) => {
  const { events, nodeEvents } = podDns(podOrName(context), context.node);
  for (const text of events) enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  for (const text of nodeEvents) {
    enqueue.sendTo(to('eventRecorder'), nodeEvent(context.node.nodeName, text));
  }
});

export const logFailure = (text: string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const { uid, namespace, name } = context;
    const error = errorOf(event);
    enqueue(line('error', [text, { pod: `${namespace}/${name}`, uid, error: error.message }]));
  });

export const recordBlocked = s.enqueueActions(({ context, enqueue }) => {
  const problem = runRefusal(context);
  if (problem === null) return;
  const isOfClaims = context.pod !== null && claimRefusal(context.pod) === problem;
  const text = podEvents[isOfClaims ? 'failedPrepareDynamicResources' : 'failedCreatePodSandBox'](problem);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
});

/** When the kubelet would synchronize the pod again. */
const noteSync = s.assign((args) => ({
  untilMs: now(args) + Math.round(pauseMs(SYNC_BACK_OFF, 0, random(args))),
}));

/** The node has no network: waits for it, and reports the pod at each sync of the kubelet. */
export const offline = s.createStateConfig({
  meta: { waitsFor: 'the network of the node' },
  entry: [record(({ networkError }) => podEvents.networkNotReady(networkError)), noteSync],
  always: { guard: 'isOnline', target: 'deciding' },
  after: { wait: { target: 'offline', reenter: true } },
});

/** A pod that this node cannot run is reported at each sync by the kubelet. */
export const reportedAgain = {
  initial: 'reported',
  states: {
    reported: s.createStateConfig({ always: { guard: 'syncsAgain', target: 'waiting', actions: noteSync } }),
    waiting: s.createStateConfig({ after: { wait: '#sync.deciding' } }),
  },
} as const;

/**
 * Stores a failure. `reserved for` means that the runtime has this sandbox name already, from a call whose reply was
 * lost. `pauseMs`: until the next attempt, by a chance from 0 to 1.
 */
export const noteFailureFor = (pauseMs: (context: PodContext, chance: number) => number) =>
  s.assign((args) => {
    const { context, event } = args;
    const message = errorIn(event)?.message ?? '';
    return {
      failures: context.failures + 1,
      untilMs: now(args) + pauseMs(context, random(args)),
      attempt: message.includes('is reserved for') ? nextAttempt(context) + 1 : context.attempt,
      writing: [],
    };
  });

export const noteFailure = noteFailureFor(({ failures }, chance) => retryDelay(failures, chance));

/** The sandbox died: its containers end, and those that run in order run again. */
export const beginReplacing = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const graceSeconds = context.pod?.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  const containers = Object.fromEntries(
    Object.entries(context.containers).map(([name, each]) => {
      const runsAgain = each.view.phase === 'ended' && runsInOrder(each);
      return [name, runsAgain ? { ...each, view: SPAWNED } : each];
    }),
  );
  applyChange(enqueue, context, { containers, initialised: false, attempt: nextAttempt(context) }, now(args));
  for (const name of Object.keys(containers)) {
    const message = killMessages.stopping(name);
    sendToContainer(enqueue, name, { type: 'container.stop', graceSeconds, message, after: 'restart' });
  }
});
