/**
 * Decides which containers of a pod may start, and whether its sandbox can be used. Pure. See `pod.ts`.
 *
 * Invariant: init containers run one after the other to success, sidecars start in their order and stay, and regular
 * containers start when all of these are passed. A passed container stays passed, even if a sidecar ends or the runtime
 * removes an init container. A regular container waits for the postStart hooks of earlier ones. Ephemeral containers
 * wait for no other, and no other waits for them.
 */

import { messageOf } from '../../../../kernel/xstate.ts';
import type { Pod } from '../../../model/api/pod.ts';
import { claimRefusal, usesClaims } from '../../../model/dra/claims.ts';
import type { PodRuntimeStatus } from '../../../model/operations/cri.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { shouldRestart } from '../../../model/spec/restart.ts';
import { sandboxConfig } from '../../../model/spec/sandbox.ts';
import { usersRefusal } from '../../../model/spec/security.ts';
import { instancesToRemove, isRestartingAll, needsSandbox } from '../../../model/status/conditions.ts';
import { factsOf, hasBegunInSandbox, sandboxesOf } from '../../../model/status/runtime-facts.ts';
import { valueIn } from '../../../model/values/tables.ts';
import type { PodContext } from './pod-context.ts';
import { hasStarted, type Member, membersOf, missingRuntimeClass, runtimeHandler } from './pod-members.ts';

const hasSucceeded = (context: PodContext, name: string): boolean => {
  const facts = factsOf(context.runtime, name);
  return facts?.state === 'exited' && facts.exitCode === 0;
};

const isInOrder = ({ kind }: Member): boolean => kind === 'init' || kind === 'sidecar';

function isPassed(context: PodContext, { container, kind }: Member): boolean {
  const phase = valueIn(context.containers, container.name)?.view.phase;
  if (kind === 'sidecar') return phase === 'running' && hasStarted(context, container);
  return phase === 'ended' && hasSucceeded(context, container.name);
}

const hasRequest = ({ request }: PodContext['containers'][string]): boolean => request !== null;

export function membersToCreate(context: PodContext): Member[] {
  if (context.pod === null || context.volumes === null || !Object.values(context.containers).some(hasRequest))
    return [];
  const members = membersOf(context.pod);
  const hook = members.findIndex((member) => awaitsEarlierHook(context, member));
  const waits = ({ kind, container }: Member, at: number): boolean =>
    valueIn(context.containers, container.name)?.request != null && (kind !== 'regular' || hook === -1 || at <= hook);
  const reachedNow = context.initialised ? startableMembers(context, members) : reachableMembers(context, members);
  const isReachedNow = new Set(reachedNow);
  return withoutConcurrentImageMounts(
    context,
    members.filter((member, at) => isReachedNow.has(member) && waits(member, at)),
  );
}

/** Members that may start once the pod is initialised; a sidecar only while a regular container stays or restarts. */
function startableMembers(context: PodContext, members: readonly Member[]): Member[] {
  const excluded = isEnding(context) ? ['init', 'sidecar'] : ['init'];
  return members.filter(({ kind }) => !excluded.includes(kind));
}

/**
 * Each regular container has ended, or is being stopped without being restarted. Upstream starts nothing in a pod while
 * it stops one of its containers.
 */
function isEnding({ pod, containers, node }: PodContext): boolean {
  if (!hasBehavior(node, 'podsAsKubelet')) return false;
  return (pod?.spec.containers ?? []).every(({ name }) => {
    const { phase, comesAgain } = valueIn(containers, name)?.view ?? {};
    return phase === 'ended' || (phase === 'stopping' && comesAgain !== true);
  });
}

/** A runtime may mount an image for one container of a sandbox at a time: two concurrent starts disturb each other. */
function withoutConcurrentImageMounts({ pod, containers }: PodContext, turns: Member[]): Member[] {
  const images = new Set((pod?.spec.volumes ?? []).flatMap(({ name, image }) => (image === undefined ? [] : [name])));
  if (images.size === 0) return turns;
  const sees = ({ container }: Member): boolean => (container.volumeMounts ?? []).some(({ name }) => images.has(name));
  const begins = ({ container: { name } }: Member): boolean =>
    valueIn(containers, name)?.begins === true || valueIn(containers, name)?.view.phase === 'starting';
  const next = (pod === null ? [] : membersOf(pod)).some((member) => sees(member) && begins(member))
    ? undefined
    : turns.find(sees);
  return turns.filter((member) => member === next || !sees(member));
}

/**
 * The container starts, or its postStart hook runs: the kubelet starts later regular containers when the hook has
 * ended.
 */
function awaitsEarlierHook({ containers }: PodContext, { kind, container }: Member): boolean {
  if (kind !== 'regular' || container.lifecycle?.postStart == null) return false;
  const { phase, reason } = valueIn(containers, container.name)?.view ?? {};
  return phase === 'starting' || (phase === 'waiting' && reason === '');
}

/** Containers up to the last one that has started in this sandbox, and the one after it. */
function reachableMembers(context: PodContext, members: readonly Member[]): Member[] {
  const inOrder = members.filter(isInOrder);
  const last = inOrder.findLastIndex((member) => hasStartedInSandbox(context, member));
  const lastStarted = inOrder[last];
  const turn = lastStarted !== undefined && isPassed(context, lastStarted) ? last + 1 : Math.max(last, 0);
  return members.filter(({ kind }, at) => {
    if (kind === 'init') return at === turn;
    return kind === 'ephemeral' || at <= turn || turn === inOrder.length;
  });
}

/** The runtime may not show a just started instance yet. */
const hasStartedInSandbox = (context: PodContext, { container: { name } }: Member): boolean =>
  ['starting', 'running'].includes(valueIn(context.containers, name)?.view.phase ?? '') ||
  hasBegunInSandbox(context.runtime, name);

/** True if the container need not wait for an earlier one. */
export function arePredecessorsPassed(context: PodContext, name: string): boolean {
  const { pod, initialised } = context;
  if (pod === null || initialised || (pod.spec.initContainers ?? []).length === 0) return true;
  return reachableMembers(context, membersOf(pod)).some(({ container }) => container.name === name);
}

/** Containers that requested their image too early and may have it now. */
export const containersWithDelayedImage = (context: PodContext): readonly string[] =>
  Object.entries(context.containers).flatMap(([name, { isEarly }]) =>
    isEarly === true && arePredecessorsPassed(context, name) ? [name] : [],
  );

export const isRegularTurn = (members: readonly Member[]): boolean => members.some(({ kind }) => kind === 'regular');

/** The runtime has instances of containers that will be restarted. */
export const hasToRemove = ({ pod, runtime }: PodContext): boolean =>
  pod !== null && instancesToRemove(pod, runtime).length > 0;

export const mustRestartAll = (context: PodContext): boolean =>
  context.pod !== null && isRestartingAll(context.pod, context.runtime, context.status) && hasToRemove(context);

export type SandboxPlan = 'use' | 'create' | 'replace' | 'finished';

/** The runtime's state with the newest sandbox and container first, as all rules expect. */
export const newestFirst = (runtime: PodRuntimeStatus): PodRuntimeStatus => ({
  ...runtime,
  sandboxes: sandboxesOf(runtime),
});

export const lacksSandbox = ({ pod, runtime }: PodContext): boolean => pod !== null && needsSandbox(pod, runtime);

export function sandboxPlan(context: PodContext): SandboxPlan {
  const { pod, runtime } = context;
  if (pod === null || (runtime?.sandboxes.length ?? 0) === 0) return 'create';
  if (!needsSandbox(pod, runtime)) return 'use';
  const hasContainers = (runtime?.containers.length ?? 0) > 0;
  if (hasContainers && !membersOf(pod).some((member) => mayRunAgain(context, pod, member))) return 'finished';
  return 'replace';
}

/**
 * True for a container that may run again: never with policy `Never`, as the pod has ended with its sandbox; with
 * `OnFailure` only if it did not succeed.
 */
function mayRunAgain(context: PodContext, pod: Pod, { container, kind }: Member): boolean {
  if (kind !== 'regular') return false;
  const facts = factsOf(context.runtime, container.name);
  if (facts?.state === 'exited') return shouldRestart({ pod, container, exitCode: facts.exitCode });
  return (container.restartPolicy ?? pod.spec.restartPolicy) !== 'Never';
}

export const nextAttempt = ({ runtime, attempt }: PodContext): number =>
  Math.max(attempt, ...(runtime?.sandboxes ?? []).map(({ metadata }) => (metadata?.attempt ?? 0) + 1));

/** The number of each container's next instance, in case the same pod is wanted again. */
export const nextRestarts = ({ status }: PodContext): Readonly<Record<string, number>> =>
  Object.fromEntries(
    [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])].map(
      ({ name, restartCount, containerID = '' }) => [name, containerID === '' ? restartCount : restartCount + 1],
    ),
  );

/** Every regular container has ended for good: sidecars alone do not keep a pod running. */
export function hasOnlySidecars({ containers, pod }: PodContext): boolean {
  const isLeft = Object.values(containers).some(({ kind, view }) => kind === 'sidecar' && view.phase !== 'ended');
  const served = pod?.spec.containers ?? [];
  return isLeft && served.length > 0 && served.every(({ name }) => valueIn(containers, name)?.view.phase === 'ended');
}

/** The pod has claims that resource drivers prepare, which only pods of the API server can have. */
export const hasClaims = ({ pod, node }: PodContext): boolean =>
  pod !== null && node.apiServer !== undefined && hasBehavior(node, 'dynamicResources') && usesClaims(pod, node);

/** Why this pod cannot have a sandbox on this node; `null` if it can. */
export function runRefusal(context: PodContext): string | null {
  const { pod, node } = context;
  if (pod === null) return null;
  const missing = missingRuntimeClass(context);
  if (missing !== null) return missing;
  const unprepared = hasBehavior(node, 'dynamicResources') ? null : claimRefusal(pod);
  const refusal = unprepared ?? usersRefusal(pod, runtimeHandler(context) ?? '', node);
  if (refusal !== null) return refusal;
  try {
    sandboxConfig(pod, 0, node);
    return null;
  } catch (error) {
    return messageOf(error);
  }
}
