/** Types and guards of a pod's machine, and the change of its context with its status. The chart is in `pod.ts`. */

import {
  type AnyActorRef,
  type Ended,
  type EnqueueOf,
  now,
  pick,
  setup,
  stateIn,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import type { AllocationReport } from '../../../model/allocation/messages.ts';
import type { CSIReport } from '../../../model/csi/messages.ts';
import type { ClaimReport } from '../../../model/dra/messages.ts';
import type { NodePodChanged } from '../../../model/eviction/ranking.ts';
import type { ObjectFound } from '../../../model/objects/keys.ts';
import { operations } from '../../../model/operations/index.ts';
import type { GarbageWanted, ImageReport } from '../../../model/pods/image-messages.ts';
import type {
  ContainerReport,
  ContainerView,
  NetworkChanged,
  PodMessage,
  ProberReport,
  RuntimeMessage,
  StatusMessage,
  StatusWanted,
} from '../../../model/pods/pod-messages.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import type { NodeChanged } from '../../../model/settings/node-settings.ts';
import { factsOf } from '../../../model/status/runtime-facts.ts';
import { isSame } from '../../../model/values/same.ts';
import { valueIn } from '../../../model/values/tables.ts';
import { containerMachine } from '../container/container.ts';
import { containerLogMachine } from '../container/container-log.ts';
import type { ContainerOrder } from '../container/container-setup.ts';
import { proberMachine } from '../prober/prober.ts';
import { podCertificateMachine } from '../volumes/pod-certificate.ts';
import { serviceAccountTokenMachine } from '../volumes/service-account-token.ts';
import { type VolumesReport, volumesMachine } from '../volumes/volumes.ts';
import type { PodContext, PodInput } from './pod-context.ts';
import { fileVariablesOf, subPathsOf } from './pod-files.ts';
import { proberChanges } from './pod-members.ts';
import { allEnded, anyAlive, anyReadySandbox, hasRunInOrder, mayBePublished } from './pod-policy.ts';
import {
  containersWithDelayedImage,
  hasClaims,
  hasOnlySidecars,
  hasToRemove,
  lacksSandbox,
  membersToCreate,
  mustRestartAll,
  runRefusal,
  sandboxPlan,
} from './pod-start-order.ts';
import { deadlineOf, isOver, isOverInApi, isRejected, overdueAt, statusOf } from './pod-status.ts';

type Event =
  /** One of the pod's own calls has ended: an inspection in progress may not show its effect. */
  | { readonly type: 'acted' }
  | PodMessage
  | NodeChanged
  | NetworkChanged
  | AllocationReport
  | RuntimeMessage
  | ContainerReport
  | ProberReport
  | ImageReport
  | GarbageWanted
  | StatusWanted
  | ObjectFound
  | CSIReport
  | ClaimReport
  | VolumesReport
  | Ended
  | { readonly type: 'inspection.due' }
  /** A manager of the node has waited for the end of the pod for as long as it waits. */
  | { readonly type: 'kill.overdue' }
  | { readonly type: 'volumes.lost' }
  | { readonly type: 'container.respawn'; readonly name: string }
  | { readonly type: 'prober.respawn'; readonly id: string }
  | { readonly type: 'log.respawn'; readonly id: string };

export const podSetup = setup({
  types: typed<{ input: PodInput; context: PodContext; events: Event }>(),
  actors: {
    container: containerMachine,
    prober: proberMachine,
    containerLog: containerLogMachine,
    ...pick(
      operations,
      'cri.podStatus',
      'cri.runPodSandbox',
      'cri.stopPodSandbox',
      'cri.removePodSandbox',
      'cri.removeContainer',
      'host.preparePod',
      'host.removePod',
      'volume.bindSubPaths',
      'volume.readVariables',
      'devices.preStartContainers',
      'volume.tearDown',
      'cri.updateContainerResources',
      'cri.updatePodSandboxResources',
      'cgroup.missing',
      'cgroup.ensure',
      'cgroup.update',
      'cgroup.memoryUsage',
      'cgroup.destroy',
      'logs.unlink',
      'users.map',
    ),
    volumes: volumesMachine,
    token: serviceAccountTokenMachine,
    certificate: podCertificateMachine,
  },
  guards: {
    /** An inspection is in progress. */
    isAsking: stateIn({ alive: { observer: 'asking' } }),
    hasPredecessor: ({ context }) => context.held,
    isUninspected: ({ context }) => context.runtime === null && !context.mustInspect,
    mustInspect: ({ context }) => context.runtime === null,
    isUnclaimed: ({ context }) => context.pod === null,
    isDeleted: ({ context }) => context.pod?.metadata.deletionTimestamp !== undefined,
    hasDeadline: ({ context }) => deadlineOf(context) !== null,
    isOverdue: ({ context }) => context.isOverdue && hasBehavior(context.node, 'podsAsKubelet'),
    isKilled: ({ context }) => context.kill !== null,
    /** Its sandbox is replaced, and the pod goes on. */
    isReplacing: ({ context }) => context.kill === null && hasBehavior(context.node, 'podLifeAsKubelet'),
    isOver: ({ context }) => isOver(context),
    hasOnlySidecars: ({ context }) => hasOnlySidecars(context),
    mustRestartAll: ({ context }) => mustRestartAll(context),
    hasNoneToRemove: ({ context }) => context.inspected && !hasToRemove(context),
    noneToRestartRuns: ({ context }) =>
      Object.values(context.containers).every(({ kind, view }) => kind === 'ephemeral' || !isStartedView(view)),
    isOverAndIdle: ({ context }) =>
      (isOver(context) || isOverInApi(context)) && !anyAlive(context) && !anyReadySandbox(context),
    isOffline: ({ context }) => isOffline(context),
    isOnline: ({ context }) => !isOffline(context),
    isBlocked: ({ context }) => runRefusal(context) !== null,
    syncsAgain: ({ context }) => hasBehavior(context.node, 'syncsAsKubelet'),
    isRejected: ({ context }) => isRejected(context),
    hasSandbox: ({ context }) => sandboxPlan(context) === 'use',
    /** A missing sandbox is replaced as well: containers that run in order run again. */
    mustReplace: ({ context }) =>
      sandboxPlan(context) === 'replace' || (sandboxPlan(context) === 'create' && hasRunInOrder(context)),
    isFinished: ({ context }) => sandboxPlan(context) === 'finished',
    lacksSandbox: ({ context }) => lacksSandbox(context),
    isMounted: ({ context }) => context.volumes !== null,
    hasGroup: ({ context }) => hasGroup(context),
    needsGroup: ({ context }) => needsGroup(context),
    /** Containers run that this agent did not start: the cgroup exists, unless an earlier agent used another one. */
    mayBeMisplaced: ({ context }) => needsGroup(context) && mayBeMisplaced(context),
    isEmptied: ({ context }) => needsGroup(context) && noneRuns(context),
    isMisplaced: ({ context }) => context.isMisplaced === true,
    isUnadmitted: ({ context }) => isUnadmitted(context),
    mustResize: ({ context }) =>
      context.kill === null &&
      context.stage === 'sync' &&
      context.allocation !== null &&
      sandboxPlan(context) === 'use' &&
      !isResized(context),
    isResized: ({ context }) =>
      isResized(context) && (context.resize?.anew ?? []).every((name) => isShownRunning(context, name)),
    isResizeChanged: ({ context }) => JSON.stringify(context.resize?.target) !== JSON.stringify(context.allocation),
    hasNoGroup: ({ context }) => context.node.makesPodCgroups !== true,
    hasNoUsers: ({ context: { pod, node } }) => pod?.spec.hostUsers !== false || !hasBehavior(node, 'usersReleased'),
    hasFileVariables: ({ context }) => fileVariablesOf(context).length > 0,
    hasSubPaths: ({ context }) => subPathsOf(context).length > 0,
    hasDevices: ({ context: { writing, devices } }) => writing.some((name) => valueIn(devices, name) !== undefined),
    hasNothingPublished: ({ context }) => !mayBePublished(context),
    hasNoVolumes: ({ context }) => context.pod !== null && (context.pod.spec.volumes ?? []).length === 0,
    hasDelayedImages: ({ context }) => containersWithDelayedImage(context).length > 0,
    /** Containers with devices wait until it is known which claims are prepared. */
    hasTurn: ({ context }) => (context.claims !== null || !hasClaims(context)) && membersToCreate(context).length > 0,
    mustPrepareClaims: ({ context }) => hasGroup(context) && hasClaims(context),
    isInspected: ({ context }) => context.inspected,
    isQueueEmpty: ({ context }) => context.queue.length === 0,
    noneRuns: ({ context }) => noneRuns(context),
    allGone: ({ context }) => allEnded(context),
    isFreshAndStopped: ({ context }) => isFreshAndStopped(context),
    mustReleaseClaims: ({ context }) => hasClaims(context) && isFreshAndStopped(context),
    needsUsers: ({ context }) => context.pod?.spec.hostUsers === false && context.users === null,
    isEmpty: ({ context }) => !context.runtime?.sandboxes.length && !context.runtime?.containers.length,
    isFreshAndEmpty: ({ context }) =>
      context.inspected &&
      (context.runtime?.sandboxes.length ?? 0) === 0 &&
      (context.runtime?.containers.length ?? 0) === 0,
    mustSuperviseProbers: ({ context }) => {
      const { stale, missing } = proberChanges(context);
      return stale.length > 0 || missing.length > 0;
    },
    mustRemove: ({ context }) => context.kill?.remove === true || context.pod === null,
  },
  delays: {
    wait: (args) => Math.max(0, args.context.untilMs - now(args)),
    syncAgain: (args) => Math.max(0, (args.context.stale?.untilMs ?? 0) - now(args)),
    pinAgain: ({ context }) => context.node.cpuReconcilePeriodMs || CPU_RECONCILE_PERIOD_MS,
    deadline: (args) => Math.max(0, (deadlineOf(args.context) ?? 0) - now(args)),
  },
});

/** Upstream's `cpuManagerReconcilePeriod`. */
const CPU_RECONCILE_PERIOD_MS = 10_000;

const hasGroup = (context: PodContext): boolean => context.hasGroup || context.node.makesPodCgroups !== true;

const needsGroup = (context: PodContext): boolean =>
  context.node.makesPodCgroups === true &&
  context.pod !== null &&
  context.kill === null &&
  context.stage === 'sync' &&
  !isUnadmitted(context);

const noneRuns = ({ containers, runtime }: PodContext): boolean =>
  Object.entries(containers).every(
    ([name, { view }]) => !isStartedView(view) && factsOf(runtime, name)?.state !== 'running',
  );

/** As upstream, only regular containers count. */
const mayBeMisplaced = ({ pod, runtime, node }: PodContext): boolean =>
  hasBehavior(node, 'podDetailsAsKubelet') &&
  (pod?.spec.containers ?? []).some(({ name }) => factsOf(runtime, name)?.state === 'running');

const isFreshAndStopped = (context: PodContext): boolean =>
  context.inspected && !anyAlive(context) && !anyReadySandbox(context);

const isStartedView = ({ phase }: ContainerView): boolean => phase !== 'waiting' && phase !== 'ended';

/** The start has succeeded and the runtime shows it: only then does the status show the new instance. */
const isShownRunning = ({ containers, runtime }: PodContext, name: string): boolean =>
  valueIn(containers, name)?.view.phase === 'running' && factsOf(runtime, name)?.state === 'running';

const isResized = ({ actuated, allocation }: PodContext): boolean =>
  JSON.stringify(actuated) === JSON.stringify(allocation);

/** The pod needs admission by the node, which counts its resources, and does not have it yet. */
const isUnadmitted = ({ node, allocation }: PodContext): boolean => node.admission !== undefined && allocation === null;

/** The pod needs a sandbox with a network, and the node has none. */
const isOffline = (context: PodContext): boolean =>
  context.networkError !== '' &&
  context.pod?.spec.hostNetwork !== true &&
  ['create', 'replace'].includes(sandboxPlan(context)) &&
  hasBehavior(context.node, 'networkAwaited');

const s = podSetup;
export type Enqueue = EnqueueOf<typeof s>;

/** The pod has ended and the runtime removes its instances one by one: the last published status stays. */
const isCleaningUp = ({ stage }: PodContext, { runtime }: Partial<PodContext>): boolean =>
  stage === 'terminated' && runtime !== undefined;

/** Once a pod's end was published, nothing more is published, even if its specification changes. */
const wasEndPublished = ({ stage, status }: PodContext, { pod }: Partial<PodContext>): boolean =>
  stage === 'terminated' && status !== null && pod !== undefined;

/** Changes the context in one assignment, and publishes the status if it differs. */
export function applyChange(
  enqueue: Enqueue,
  context: PodContext,
  change: Partial<PodContext>,
  nowMs: number,
): PodContext {
  const next = { ...context, ...change };
  const keeps = isCleaningUp(context, change) || isEnding(context, next) || wasEndPublished(context, change);
  const status = keeps ? context.status : statusOf(next, nowMs);
  const isNew = !isSame(status, context.status);
  enqueue.assign({ ...change, ...(isNew ? { status } : {}), ...overdueAt({ ...next, status }, nowMs) });
  if (isNew || next.stage !== context.stage) sendStatus(enqueue, { ...next, status });
  return { ...next, status };
}

/** Publishes the current status even while the pod ends, because something delays its end. */
export function publishNow(enqueue: Enqueue, context: PodContext, nowMs: number): void {
  const status = statusOf(context, nowMs);
  if (isSame(status, context.status)) return;
  enqueue.assign({ status });
  sendStatus(enqueue, { ...context, status });
}

/** While the containers end one by one, the published status stays; the outcome is published once. */
const isEnding = (before: PodContext, next: PodContext): boolean =>
  before.kill !== null &&
  next.stage === 'sync' &&
  next.pod === before.pod &&
  next.probes === before.probes &&
  next.status !== null;

function sendStatus(enqueue: Enqueue, { uid, name, namespace, status, stage }: PodContext): void {
  if (status === null) return;
  const message: StatusMessage = { type: 'status.changed', pod: { uid, name, namespace }, status, stage };
  enqueue.sendTo(to('status'), message);
}

/** Sends the status again to a status manager that lost its state. */
export const sendStatusAgain = s.enqueueActions(({ context, enqueue }) => {
  sendStatus(enqueue, context);
  if (context.isReclaimed) enqueue.sendTo(to('status'), { type: 'status.reclaimed', uid: context.uid });
});

/** Reports that the resources of the pod are free. */
export const noteReclaimed = s.enqueueActions(({ context: { uid, node }, enqueue }) => {
  enqueue.assign({ isReclaimed: true });
  enqueue.sendTo(to('status'), { type: 'status.reclaimed', uid });
  const message: NodePodChanged = { type: 'node.podChanged', uid, pod: null, isReclaimed: true };
  if (node.eviction !== undefined) enqueue.sendTo(to('eviction'), message);
  if (node.shutdown !== undefined && hasBehavior(node, 'volumesAwaited')) enqueue.sendTo(to('shutdown'), message);
});

export const sendToContainer = (enqueue: Enqueue, name: string, message: ContainerOrder | ImageReport): void =>
  enqueue.sendTo<AnyActorRef>(`container-${name}`, message);

export const assignChange = (compute: (context: PodContext) => Partial<PodContext>) =>
  s.enqueueActions((args) => void applyChange(args.enqueue, args.context, compute(args.context), now(args)));
