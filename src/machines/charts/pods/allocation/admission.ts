/**
 * Decides the requests of pods. New pods are admitted at once, after a preemption, or when the plugins of their devices
 * have answered; admitted pods get the same grant again, or a resize, now or when resources are free.
 *
 * Holdings from an earlier agent or another kubelet count until it is known which of their pods exist; but they cause
 * no rejection: a pod that lacks resources because of them waits.
 */
import { childIn, errorOf, line, now, to } from '../../../../kernel/xstate.ts';
import type { DeviceAnswers } from '../../../model/allocation/device-manager.ts';
import { callsWithoutAnswer, unexpected, withAnswer, withResponses } from '../../../model/allocation/device-manager.ts';
import {
  admit,
  byUrgency,
  isOfThisStart,
  judgeResize,
  type ResizeVerdict,
  resize,
} from '../../../model/allocation/predicates.ts';
import { type AdmissionRequest, carriedOver, type Rejection } from '../../../model/allocation/request.ts';
import type { Assignment } from '../../../model/allocation/resource-assignment.ts';
import { assignedTo, pinnedResize, podShares } from '../../../model/allocation/resource-grants.ts';
import type { Allocation, Grant, Holding } from '../../../model/operations/grants.ts';
import type { PodKillWanted } from '../../../model/pods/pod-messages.ts';
import { podEvents, podMessages, podReasons } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { AllocationRequest, Arranging, Work } from './allocation-setup.ts';
import {
  candidates,
  holdingsIn,
  isSame,
  recordEvent,
  reply,
  reportHealth,
  updating,
  viewOf,
  without,
} from './allocation-setup.ts';
import type { DeviceCallsInput } from './device-calls.ts';
import { checkRecalled, noteEvaluated } from './earlier-pods.ts';

/** How long a critical pod waited for the pods that it preempts before the behavior `podDetailsAsKubelet`. */
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
  if (!hasBehavior(work.args.context.settings, 'podDetailsAsKubelet')) {
    work.args.enqueue.raise({ type: 'allocation.waited', uid }, { delay: PREEMPTION_WAIT_MS, id: `waited-${uid}` });
  }
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
  const hintsOnAllNodes = !hasBehavior(settings, 'devicesAsKubelet');
  const grants = holdingsIn(work.state);
  return assignedTo(settings, request, { grants, promised, devices, answers, hintsOnAllNodes });
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

/** Evaluates the pod later, when the Node or the pods of an earlier agent are known. */
function postpone(work: Work, wanted: AllocationRequest): void {
  work.state.unjudged = { ...work.state.unjudged, [wanted.request.uid]: wanted };
}

/** Whether pods of an earlier agent hold resources that may soon be free: such a pod may be gone, or may be ending. */
const mayBecomeFree = ({ args: { context }, state }: Work, uid: string): boolean =>
  hasBehavior(context.settings, 'resourcesAsKubelet') &&
  [...state.recalled, ...Object.keys(state.handedOver)].some((other) => other !== uid);

/** Rejections that may be due to holdings of pods that are gone. */
const SHORTAGE_OF_PODS = ['NodePorts', 'UnexpectedAdmissionError', 'TopologyAffinityError', 'SMTAlignmentError'];
const isShortForNow = (work: Work, uid: string, rejection: Rejection | null): boolean =>
  rejection !== null &&
  (SHORTAGE_OF_PODS.includes(rejection.reason) || rejection.reason.startsWith('OutOf')) &&
  mayBecomeFree(work, uid);

/** Rejections that may be due to labels and taints that are not known yet. */
const NODE_REASONS = ['NodeAffinity', 'TaintToleration'];

/** Too little is known of the Node and of other pods to reject this pod, or to preempt others for it. */
function isTooEarly(
  work: Work,
  { uid, rules }: AdmissionRequest,
  rejection: Rejection | null,
  victims: readonly unknown[],
): boolean {
  const isOfTheNode = rejection !== null && NODE_REASONS.includes(rejection.reason);
  if (!work.args.context.isNodeKnown && !rules.isStatic && isOfTheNode) return true;
  return (victims.length > 0 && mayBecomeFree(work, uid)) || isShortForNow(work, uid, rejection);
}

/** Whether other pods of another kubelet have not asked for their resources yet. */
const awaitsOtherPods = ({ state }: Work, uid: string): boolean => state.awaited.some((other) => other !== uid);

function postponeResize(work: Work, { request, allocation }: AllocationRequest, victims: readonly string[] = []): void {
  const sinceMs = work.state.resizes[request.uid]?.sinceMs ?? now(work.args);
  const ending = victims.length === 0 ? {} : { victims };
  work.state.resizes = { ...work.state.resizes, [request.uid]: { request, allocation, sinceMs, ...ending } };
}

/** Handles a request of an admitted pod: its actor restarted, or its specification changed. */
export function regrant(work: Work, wanted: AllocationRequest, held: Grant): void {
  const { uid } = wanted.request;
  const { allocation } = held;
  if (!isSame(carriedOver(allocation, wanted.allocation), wanted.allocation)) {
    changeGrant(work, wanted, held);
    return retryWithFreed(work, uid, held);
  }
  if (!isSame(allocation, wanted.allocation)) return grantAssigned(work, wanted);
  work.state.resizes = without(work.state.resizes, uid);
  reply(work, {
    type: 'allocation.granted',
    uid,
    allocation,
    ...podShares(work.args.context.settings, holdingsIn(work.state), uid),
  });
  reportHealth(work, uid, held, work.args.context.devices);
  checkRecalled(work, wanted);
  if (!work.state.recalled.includes(uid)) retryPostponed(work);
}

function changeGrant(work: Work, wanted: AllocationRequest, { allocation }: Grant): void {
  const { uid } = wanted.request;
  if (awaitsOtherPods(work, uid) || awaitsVictims(work, uid)) return postponeResize(work, wanted, endingFor(work, uid));
  const verdict = judge(work, wanted, allocation);
  if (verdict.refusal === null) return giveRoom(work, wanted, verdict);
  const { refusal } = verdict;
  const sinceMs = work.state.resizes[uid]?.sinceMs ?? now(work.args);
  const pending = refusal.reason === 'Deferred' ? { ...work.state.resizes, [uid]: { ...wanted, sinceMs } } : null;
  work.state.resizes = pending ?? without(work.state.resizes, uid);
  const shares = podShares(work.args.context.settings, holdingsIn(work.state), uid);
  reply(work, { type: 'allocation.pending', uid, allocation, refusal, ...shares });
}

function judge(work: Work, wanted: AllocationRequest, allocation: Allocation): ResizeVerdict {
  const { context } = work.args;
  const { settings } = context;
  const pinned = pinnedResize(settings, wanted, allocation);
  if (pinned !== null) return { refusal: pinned };
  const [view, active] = [viewOf(context), candidates(work.state)];
  if (hasBehavior(settings, 'resizesJudgedAsKubelet')) return judgeResize(wanted.request, view, active);
  const refusal = resize(wanted.request, view, settings.admission?.wholeNode ?? {}, active);
  return refusal === null ? { refusal, victims: [] } : { refusal };
}

/** Grants a resize at once, or ends the pods that a critical pod preempts for it. */
function giveRoom(
  work: Work,
  wanted: AllocationRequest,
  { victims, shortOf }: Extract<ResizeVerdict, { readonly refusal: null }>,
): void {
  const { uid } = wanted.request;
  if (victims.length === 0) return grantAssigned(work, wanted);
  if (mayBecomeFree(work, uid)) return postponeResize(work, wanted);
  postponeResize(work, wanted, victims);
  for (const victim of victims) preempt(work, victim, uid, shortOf);
}

/** Grants the resizes that waited only for this pod to end. */
export function resizeWaiting(work: Work, victim: string): void {
  for (const resize of Object.values(work.state.resizes)) {
    if (!resize.victims?.includes(victim)) continue;
    const { uid } = resize.request;
    const victims = endingFor(work, uid).filter((each) => each !== victim);
    if (victims.length === 0) grantAssigned(work, resize);
    else work.state.resizes = { ...work.state.resizes, [uid]: { ...resize, victims } };
  }
}

/** The pods that are ending to make room for a resize. */
const endingFor = ({ state }: Work, uid: string): readonly string[] =>
  (state.resizes[uid]?.victims ?? []).filter((victim) => state.grants[victim] !== undefined);

const awaitsVictims = (work: Work, uid: string): boolean => endingFor(work, uid).length > 0;

/** Retries waiting pods and resizes, the most urgent first, after resources became free or time passed. */
export function retry(work: Work): void {
  const pending = Object.values(work.state.resizes).map((each) => ({
    ...each,
    increases: increases(work.state.grants[each.request.uid], each.request),
  }));
  for (const wanted of pending.toSorted(byUrgency)) {
    const granted = work.state.grants[wanted.request.uid];
    if (granted) changeGrant(work, { request: wanted.request, allocation: wanted.allocation }, granted);
    else work.state.resizes = without(work.state.resizes, wanted.request.uid);
  }
}

const increases = (grant: Grant | undefined, { demand }: Pick<AdmissionRequest, 'demand'>): boolean =>
  ['cpu', 'memory'].some((name) => BigInt(demand.requests[name] ?? '0') > BigInt(grant?.demand.requests[name] ?? '0'));

/** A resize that gave something back makes room for others that wait. */
function retryWithFreed(work: Work, uid: string, { demand }: Grant): void {
  const isAsKubelet = hasBehavior(work.args.context.settings, 'resizesJudgedAsKubelet');
  if (isAsKubelet && increases(work.state.grants[uid], { demand })) retry(work);
}

export function retryPostponed(work: Work): void {
  for (const wanted of Object.values(work.state.unjudged)) {
    if (work.state.grants[wanted.request.uid]) checkRecalled(work, wanted);
    else handleNew(work, wanted);
  }
}
