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
import { noteEvaluated } from './earlier-pods.ts';
import { isShortForNow, isTooEarly, postpone } from './postponed.ts';

/** How long a critical pod waits for the pods that it preempts. */
const PREEMPTION_WAIT_MS = 60_000;

export function handleNew(work: Work, wanted: AllocationRequest): void {
  const { request, allocation } = wanted;
  const { uid } = request;
  const { rejection, victims = [], shortOf } = admit(request, viewOf(work.args.context), candidates(work.state));
  if (isTooEarly(work, request, rejection, victims)) return postpone(work, wanted);
  work.state.unjudged = without(work.state.unjudged, uid);
  if (rejection !== null) return refuse(work, request, assignmentRejection(work, wanted, rejection) ?? rejection);
  if (victims.length === 0) return grantAssigned(work, wanted);
  work.state.waiting = { ...work.state.waiting, [uid]: { request, allocation, victims } };
  work.args.enqueue.raise({ type: 'allocation.waited', uid }, { delay: PREEMPTION_WAIT_MS, id: `waited-${uid}` });
  for (const victim of victims) preempt(work, victim, uid, shortOf);
}

function refuse(work: Work, request: AdmissionRequest, rejection: Rejection): void {
  const { uid } = request;
  work.state.rejections = { ...work.state.rejections, [uid]: rejection };
  work.state.handedOver = without(work.state.handedOver, uid);
  if (!isOfThisStart(request, rejection)) {
    work.args.enqueue.sendTo(to('softState'), { type: 'softState.rejected', uid, rejection });
  }
  recordEvent(work, request, podEvents.rejected(rejection.reason, rejection.message));
  reply(work, { type: 'allocation.refused', uid, rejection });
  noteEvaluated(work, uid);
}

/**
 * The rejection of a pod whose exclusive CPUs or memory cannot be assigned; `null` if they can. It has precedence over
 * other shortages, because upstream assigns exclusive resources before it counts the others.
 */
function assignmentRejection(work: Work, { request }: AllocationRequest, { reason }: Rejection): Rejection | null {
  if (!reason.startsWith('OutOf') && reason !== 'UnexpectedAdmissionError') return null;
  const answer = assignmentFor(work, request, {});
  return 'rejection' in answer ? answer.rejection : null;
}

function assignmentFor(work: Work, request: AdmissionRequest, answers: DeviceAnswers): Assignment {
  const { settings, devices } = work.args.context;
  const { [request.uid]: _own, ...others } = work.state.arranging;
  const promised = Object.values(others).flatMap(({ holding }) => holding ?? []);
  return assignedTo(settings, request, { grants: holdingsIn(work.state), promised, devices, answers });
}

/** Grants a pod its resources: at once, or when the plugins of its devices have answered. */
export function grantAssigned(
  work: Work,
  { request, allocation }: AllocationRequest,
  answers: DeviceAnswers = {},
): void {
  const { uid } = request;
  work.state.waiting = without(work.state.waiting, uid);
  work.state.arranging = without(work.state.arranging, uid);
  const answer = assignmentFor(work, request, answers);
  if ('rejection' in answer) {
    if (isShortForNow(work, uid, answer.rejection)) return postpone(work, { request, allocation });
    return refuse(work, request, answer.rejection);
  }
  if ('question' in answer) {
    const { question } = answer;
    return callPlugins(work, { request, allocation, holding: null, answers }, { uid, question, calls: [] });
  }
  const calls = callsWithoutAnswer(answer.devices ?? {});
  if (calls.length === 0) return grant(work, { request, allocation }, answer);
  callPlugins(work, { request, allocation, holding: answer, answers }, { uid, question: null, calls });
}

function callPlugins(work: Work, arranging: Omit<Arranging, 'talk'>, input: DeviceCallsInput): void {
  const id = `devices-${work.state.talks}`;
  work.state.talks += 1;
  work.state.arranging = { ...work.state.arranging, [input.uid]: { ...arranging, talk: id } };
  work.args.enqueue.spawnChild('deviceCalls', { id, input });
}

function grant(work: Work, { request: { uid, demand }, allocation }: AllocationRequest, holding: Holding): void {
  const given: Grant = { demand, allocation, ...holding };
  const earlierGrant = work.state.grants[uid];
  const before = earlierGrant === undefined ? {} : { before: earlierGrant.allocation };
  work.state.grants = { ...work.state.grants, [uid]: given };
  work.state.handedOver = without(work.state.handedOver, uid);
  work.state.resizes = without(work.state.resizes, uid);
  work.args.enqueue.sendTo(to('softState'), { type: 'softState.allocated', uid, grant: given });
  const shares = podShares(work.args.context.settings, holdingsIn(work.state), uid);
  reply(work, { type: 'allocation.granted', uid, allocation, ...before, ...shares });
  reportHealth(work, uid, given, work.args.context.devices);
  noteEvaluated(work, uid);
}

/** Handles the answers of device plugins for a pod that still exists. */
export const handlePluginAnswers = updating((work) => {
  const { event } = work.args;
  if (!('uid' in event) || !event.type.startsWith('devices.')) return;
  const arranging = work.state.arranging[event.uid];
  if (arranging === undefined) return;
  if (event.type === 'devices.preferred') {
    return grantAssigned(work, arranging, withAnswer(arranging.answers, event.question, event.ids));
  }
  work.state.arranging = without(work.state.arranging, event.uid);
  if (event.type === 'devices.refused') return refuse(work, arranging.request, unexpected(event.error));
  if (event.type !== 'devices.allocated' || arranging.holding === null) return;
  grant(work, arranging, withResponses(arranging.holding, event.answers));
});

export const reapCrashed = updating((work) => {
  const id = childIn(work.args.event);
  const found = Object.values(work.state.arranging).find((each) => each.talk === id);
  if (found === undefined) return;
  work.state.arranging = without(work.state.arranging, found.request.uid);
  const { message } = errorOf(work.args.event);
  refuse(work, found.request, unexpected(message));
});

function preempt({ args: { enqueue } }: Work, uid: string, critical: string, shortOf = ''): void {
  const { preempting: reason } = podReasons;
  const verdict = { reason, message: podMessages.preempted, published: 'once', disruptionTarget: true } as const;
  enqueue(line('info', ['Ending a pod to make room for a critical one', { uid, critical }]));
  enqueue.sendTo(to('pods'), { type: 'pods.kill', uid, graceSeconds: null, verdict, shortOf } satisfies PodKillWanted);
}
