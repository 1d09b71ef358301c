/** Admits new pods: at once, after a preemption, or when the plugins of their devices have answered. */
import { errorOf, line, to } from '../../../../kernel/xstate.ts';
import { admit } from '../../../model/allocation/admit.ts';
import {
  callsWithoutAnswer,
  type DeviceAnswers,
  unexpected,
  withAnswer,
  withResponses,
} from '../../../model/allocation/device-manager.ts';
import type { Rejection } from '../../../model/allocation/node-view.ts';
import { isOfThisStart } from '../../../model/allocation/predicates.ts';
import type { AdmissionRequest } from '../../../model/allocation/request.ts';
import type { Assignment } from '../../../model/allocation/resource-assignment.ts';
import { assignedTo, podShares } from '../../../model/allocation/resource-grants.ts';
import type { Grant, Holding } from '../../../model/operations/grants.ts';
import type { PodKillWanted } from '../../../model/pods/pod-messages.ts';
import { podEvents, podMessages, podReasons } from '../../../model/reasons/reasons.ts';
import { childIn } from '../../children.ts';
import {
  type AllocationRequest,
  type Arranging,
  candidates,
  holdingsIn,
  recordEvent,
  reply,
  reportHealth,
  updating,
  viewOf,
  type Work,
  without,
} from './allocation-setup.ts';
import type { DeviceCallsInput } from './device-calls.ts';
import { noteJudged } from './earlier-pods.ts';
import { isShortEarly, isTooEarly, postpone } from './postponed.ts';

/** How long a critical pod waits for the pods that it preempts. */
const PREEMPTION_WAIT_MS = 60_000;

export function handleNew(w: Work, wanted: AllocationRequest): void {
  const { request, allocation } = wanted;
  const { uid } = request;
  const { rejection, victims = [], shortOf } = admit(request, viewOf(w.args.context), candidates(w.state));
  if (isTooEarly(w, request, rejection, victims)) return postpone(w, wanted);
  w.state.unjudged = without(w.state.unjudged, uid);
  if (rejection !== null) return refuse(w, request, ownShortage(w, wanted, rejection) ?? rejection);
  if (victims.length === 0) return grantAssigned(w, wanted);
  w.state.waiting = { ...w.state.waiting, [uid]: { request, allocation, victims } };
  w.args.enqueue.raise({ type: 'allocation.waited', uid }, { delay: PREEMPTION_WAIT_MS, id: `waited-${uid}` });
  for (const victim of victims) preempt(w, victim, uid, shortOf);
}

function refuse(w: Work, request: AdmissionRequest, rejection: Rejection): void {
  const { uid } = request;
  w.state.rejections = { ...w.state.rejections, [uid]: rejection };
  w.state.handedOver = without(w.state.handedOver, uid);
  if (!isOfThisStart(request, rejection)) {
    w.args.enqueue.sendTo(to('softState'), { type: 'softState.rejected', uid, rejection });
  }
  recordEvent(w, request, podEvents.rejected(rejection.reason, rejection.message));
  reply(w, { type: 'allocation.refused', uid, rejection });
  noteJudged(w, uid);
}

/**
 * Upstream assigns CPUs and memory before it counts resources, so a pod that lacks them is rejected for that reason.
 */
function ownShortage(w: Work, { request }: AllocationRequest, { reason }: Rejection): Rejection | null {
  if (!reason.startsWith('OutOf') && reason !== 'UnexpectedAdmissionError') return null;
  const answer = assigned(w, request, {});
  return 'rejection' in answer ? answer.rejection : null;
}

function assigned(w: Work, request: AdmissionRequest, answers: DeviceAnswers): Assignment {
  const { settings, devices } = w.args.context;
  const { [request.uid]: _own, ...others } = w.state.arranging;
  const promised = Object.values(others).flatMap(({ holding }) => holding ?? []);
  return assignedTo(settings, request, { grants: holdingsIn(w.state), promised, devices, answers });
}

/** Grants a pod its resources: at once, or when the plugins of its devices have answered. */
export function grantAssigned(w: Work, { request, allocation }: AllocationRequest, answers: DeviceAnswers = {}): void {
  const { uid } = request;
  w.state.waiting = without(w.state.waiting, uid);
  w.state.arranging = without(w.state.arranging, uid);
  const answer = assigned(w, request, answers);
  if ('rejection' in answer) {
    if (isShortEarly(w, uid, answer.rejection)) return postpone(w, { request, allocation });
    return refuse(w, request, answer.rejection);
  }
  if ('question' in answer) {
    const { question } = answer;
    return callPlugins(w, { request, allocation, holding: null, answers }, { uid, question, calls: [] });
  }
  const calls = callsWithoutAnswer(answer.devices ?? {});
  if (calls.length === 0) return grant(w, { request, allocation }, answer);
  callPlugins(w, { request, allocation, holding: answer, answers }, { uid, question: null, calls });
}

function callPlugins(w: Work, arranging: Omit<Arranging, 'talk'>, input: DeviceCallsInput): void {
  const id = `devices-${w.state.talks}`;
  w.state.talks += 1;
  w.state.arranging = { ...w.state.arranging, [input.uid]: { ...arranging, talk: id } };
  w.args.enqueue.spawnChild('deviceCalls', { id, input });
}

function grant(w: Work, { request: { uid, demand }, allocation }: AllocationRequest, holding: Holding): void {
  const given: Grant = { demand, allocation, ...holding };
  const earlierGrant = w.state.grants[uid];
  const before = earlierGrant === undefined ? {} : { before: earlierGrant.allocation };
  w.state.grants = { ...w.state.grants, [uid]: given };
  w.state.handedOver = without(w.state.handedOver, uid);
  w.state.resizes = without(w.state.resizes, uid);
  w.args.enqueue.sendTo(to('softState'), { type: 'softState.allocated', uid, grant: given });
  const shares = podShares(w.args.context.settings, holdingsIn(w.state), uid);
  reply(w, { type: 'allocation.granted', uid, allocation, ...before, ...shares });
  reportHealth(w, uid, given, w.args.context.devices);
  noteJudged(w, uid);
}

/** Takes the plugins' answers for a pod that still exists. */
export const handlePluginAnswers = updating((w) => {
  const { event } = w.args;
  if (!('uid' in event) || !event.type.startsWith('devices.')) return;
  const arranging = w.state.arranging[event.uid];
  if (arranging === undefined) return;
  if (event.type === 'devices.preferred') {
    return grantAssigned(w, arranging, withAnswer(arranging.answers, event.question, event.ids));
  }
  w.state.arranging = without(w.state.arranging, event.uid);
  if (event.type === 'devices.refused') return refuse(w, arranging.request, unexpected(event.error));
  if (event.type !== 'devices.allocated' || arranging.holding === null) return;
  grant(w, arranging, withResponses(arranging.holding, event.answers));
});

export const reapCrashed = updating((w) => {
  const id = childIn(w.args.event);
  const found = Object.values(w.state.arranging).find((each) => each.talk === id);
  if (found === undefined) return;
  w.state.arranging = without(w.state.arranging, found.request.uid);
  const { message } = errorOf(w.args.event);
  refuse(w, found.request, unexpected(message));
});

function preempt({ args: { enqueue } }: Work, uid: string, critical: string, shortOf = ''): void {
  const { preempting: reason } = podReasons;
  const verdict = { reason, message: podMessages.preempted, published: 'once', disruptionTarget: true } as const;
  enqueue(line('info', ['Ending a pod to make room for a critical one', { uid, critical }]));
  enqueue.sendTo(to('pods'), { type: 'pods.kill', uid, graceSeconds: null, verdict, shortOf } satisfies PodKillWanted);
}
