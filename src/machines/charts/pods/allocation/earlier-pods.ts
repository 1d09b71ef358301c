/** Pods that an earlier agent or another kubelet admitted: the resources that they hold, and their evaluation. */
import { to } from '../../../../kernel/xstate.ts';
import { unusableDevices } from '../../../model/allocation/device-manager.ts';
import type { PodsWanted } from '../../../model/allocation/messages.ts';
import { checkPredicates } from '../../../model/allocation/predicates.ts';
import type { AdmissionRequest, Rejection } from '../../../model/allocation/request.ts';
import type { SoftState } from '../../../model/operations/host.ts';
import type { PodKillWanted } from '../../../model/pods/pod-messages.ts';
import { podEvents, podMessages } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { pickBy, pickKeys } from '../../../model/values/tables.ts';
import {
  type AllocationRequest,
  type Context,
  recordEvent,
  updating,
  viewOf,
  type Work,
  without,
} from './allocation-setup.ts';

/** The grants of the soft state: of active pods, and of ended ones. */
export function recalledGrants({
  grants = {},
}: Pick<SoftState, 'grants'>): Pick<Context, 'grants' | 'over' | 'recalled'> {
  const having = (isOver: boolean): Context['grants'] => pickBy(grants, (grant) => (grant.ended === true) === isOver);
  const active = having(false);
  return { grants: active, over: having(true), recalled: Object.keys(active) };
}

/** Loads the soft state once. Later copies are sent for other actors, and are older than this actor's context. */
export const loadGrants = updating(({ args: { context, event }, state }) => {
  if (event.type !== 'softState.loaded' || context.remembers) return;
  const { grants, over, recalled } = recalledGrants(event.state);
  state.recalled = [...new Set([...state.recalled, ...recalled])];
  state.grants = { ...grants, ...state.grants };
  state.over = { ...over, ...state.over };
  state.rejections = { ...event.state.rejections, ...state.rejections };
  const known = [state.grants, state.over, state.rejections];
  state.awaited = Object.keys(event.state.handedOver ?? {}).filter((uid) => !known.some((table) => uid in table));
});

/** Takes over the holdings in the state files of pods that are unknown here: soft state is newer than any file. */
export const takeOverHoldings = updating(({ args, state }) => {
  const { event, enqueue } = args;
  if (event.type !== 'resources.handedOver') return;
  const isKnown = (uid: string) => [state.grants, state.over, state.rejections].some((table) => uid in table);
  const fresh = Object.entries(event.holdings).filter(([uid]) => !isKnown(uid));
  for (const [uid, holding] of fresh) {
    state.handedOver = { ...state.handedOver, [uid]: { ...state.handedOver[uid], ...holding } };
  }
  // Some of these pods may be gone: `pods` answers with the pods that exist, and the other holdings are released.
  if (fresh.length > 0) enqueue.sendTo(to('pods'), { type: 'pods.wanted' } satisfies PodsWanted);
});

/**
 * Evaluates a pod again that an earlier agent admitted. As upstream, it stays admitted even if resources are short, and
 * is rejected only if the Node lacks labels that it needs, or if its devices cannot be used when it starts again.
 */
export function checkRecalled(work: Work, wanted: AllocationRequest): void {
  const { context } = work.args;
  const { request } = wanted;
  const { uid } = request;
  if (!work.state.recalled.includes(uid)) return;
  const lack = devicesLacking(work, wanted);
  if (lack !== null) return rejectRecalled(work, request, lack);
  const isEarly = !context.isNodeKnown && !request.rules.isStatic;
  work.state.unjudged = isEarly ? { ...work.state.unjudged, [uid]: wanted } : without(work.state.unjudged, uid);
  if (isEarly) return;
  work.state.recalled = work.state.recalled.filter((each) => each !== uid);
  const { mismatch } = checkPredicates(request, viewOf(context), []);
  if (mismatch?.reason === 'NodeAffinity') rejectRecalled(work, request, mismatch);
}

/**
 * Why a pod that the runtime no longer runs cannot have its devices again; `null` if it can. After a restart of the
 * machine its plugins may be missing. A pod that only the agent left keeps its devices without them.
 */
function devicesLacking(
  { args: { context }, state }: Work,
  { request, ...wanted }: AllocationRequest,
): Rejection | null {
  const isRunning = wanted.isAnew !== true && wanted.isStopped !== true;
  if (isRunning || !hasBehavior(context.settings, 'specsAsKubelet')) return null;
  return unusableDevices(state.grants[request.uid]?.devices ?? {}, context.devices);
}

function rejectRecalled(work: Work, request: AdmissionRequest, { reason, message }: Rejection): void {
  const { uid } = request;
  const { enqueue } = work.args;
  work.state.recalled = work.state.recalled.filter((each) => each !== uid);
  work.state.unjudged = without(work.state.unjudged, uid);
  recordEvent(work, request, podEvents.rejected(reason, message));
  const verdict = { reason, message: podMessages.rejected(message), published: 'always' } as const;
  enqueue.sendTo(to('pods'), { type: 'pods.kill', uid, graceSeconds: null, verdict } satisfies PodKillWanted);
}

/** Notes that a pod of another kubelet was admitted, was rejected or is gone. */
export const noteEvaluated = (work: Work, uid: string): void => noteAllEvaluated(work, (each) => each === uid);

function noteAllEvaluated({ args, state }: Work, isEvaluated: (uid: string) => boolean): void {
  if (!state.awaited.some(isEvaluated)) return;
  state.awaited = state.awaited.filter((uid) => !isEvaluated(uid));
  if (state.awaited.length === 0) args.enqueue.raise({ type: 'allocation.awaited' });
}

/** Releases the earlier holding of a pod, which has it as a grant now, or is gone. */
export function forgetRecalled(work: Work, uid: string): void {
  noteEvaluated(work, uid);
  work.state.recalled = work.state.recalled.filter((each) => each !== uid);
  work.state.handedOver = without(work.state.handedOver, uid);
}

/** Forgets the grants, rejections and earlier holdings of pods that are not on this node. */
export const forgetGonePods = updating((work) => {
  const { event } = work.args;
  if (event.type !== 'pods.known') return;
  const known = new Set(event.uids);
  const { grants, awaited, handedOver, over, rejections } = work.state;
  const remembered = [grants, handedOver, over, rejections].flatMap((table) => Object.keys(table));
  const gone = new Set([...remembered, ...awaited].filter((uid) => !known.has(uid)));
  if (gone.size === 0) return;
  const isGone = (uid: string): boolean => gone.has(uid);
  noteAllEvaluated(work, isGone);
  work.state.recalled = work.state.recalled.filter((uid) => !isGone(uid));
  work.state.grants = withoutAll(grants, isGone);
  work.state.handedOver = withoutAll(handedOver, isGone);
  work.state.over = withoutAll(over, isGone);
  work.state.rejections = withoutAll(rejections, isGone);
});

const withoutAll = <Value>(
  table: Readonly<Record<string, Value>>,
  isGone: (uid: string) => boolean,
): Readonly<Record<string, Value>> => pickKeys(table, (uid) => !isGone(uid));
