/** What a container's actor starts from: its definition, what the runtime has of it, whether its turn is over. Pure. */

import type { RememberedContainer } from '../../../model/pods/messages.ts';
import { type ContainerFacts, factsOf, hasBegunInSandbox } from '../../../model/status/runtime-facts.ts';
import type { ContainerInput } from '../container/container-policy.ts';
import {
  addressesOf,
  anyReadySandbox,
  type Member,
  type PodContext,
  podOrName,
  versionOf,
  wantedOf,
} from './pod-policy.ts';

export function containerInput(context: PodContext, member: Member, nowMs: number): ContainerInput {
  const { uid, name, namespace, node, kill } = context;
  const facts = factsOf(context.runtime, member.container.name);
  return {
    uid,
    namespace,
    podName: name,
    name: member.container.name,
    kind: member.kind,
    wanted: wantedOf(podOrName(context), member),
    facts: facts && facts.finishedAtMs > nowMs ? { ...facts, finishedAtMs: nowMs } : facts,
    remembered: rememberedOf(context, member, facts),
    begun: context.begun[member.container.name] ?? null,
    maxBackoffMs: node.crashLoopBackOffMaxMs,
    behavior: node.behavior,
    ...(node.crashLoopBackOffInitialMs === undefined ? {} : { initialBackoffMs: node.crashLoopBackOffInitialMs }),
    podIP: addressesOf(context)[0] ?? '',
    ...versionOf(context.pod),
    dormant: kill !== null || context.stage !== 'sync' || isInitialisedPast(context, member),
  };
}

/** It had its turn: the regular containers came, or one that comes after it in this sandbox. */
function isInitialisedPast({ initialised, pod, runtime }: PodContext, { kind, container }: Member): boolean {
  if (kind !== 'init') return false;
  const inits = (pod?.spec.initContainers ?? []).map(({ name }) => name);
  const later = inits.slice(inits.indexOf(container.name) + 1);
  return initialised || later.some((name) => hasBegunInSandbox(runtime, name));
}

/**
 * Of a sandbox that was replaced before: what runs in order has to run again in the one that is there now, and what was
 * created never runs.
 */
function rememberedOf(
  { runtime, rememberedContainers }: PodContext,
  { kind, container: { name } }: Member,
  facts: ContainerFacts | null,
): RememberedContainer | null {
  const known = rememberedContainers[name] ?? null;
  const isInOrder = kind === 'init' || kind === 'sidecar';
  const isPast = facts?.state === 'created' || (isInOrder && facts?.state === 'exited');
  if (!isPast || !anyReadySandbox({ runtime }) || hasBegunInSandbox(runtime, name)) return known;
  const restartCount = facts.restartCount + 1;
  return (known?.restartCount ?? 0) >= restartCount ? known : { restartCount, backoffMs: 0, backoffUntilMs: 0 };
}
