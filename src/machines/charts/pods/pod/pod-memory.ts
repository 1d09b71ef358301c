/**
 * The memory of NUMA nodes that init containers had: once a later container runs, other pods get it. Part of the chart
 * of `pod.ts`.
 *
 * Invariants: M1 a sidecar keeps its memory. M2 an init container that runs again, in another sandbox, has no nodes of
 * its own. Upstream: memorymanager/memory_manager.go (AddContainer).
 */
import { to } from '../../../../kernel/xstate.ts';
import type { AllocationMessage } from '../../../model/allocation/messages.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { pickKeys } from '../../../model/values/tables.ts';
import type { PodContext } from './pod-context.ts';
import { membersOf } from './pod-members.ts';
import { podSetup as s } from './pod-setup.ts';

/** The init containers before this one that hold memory and have ended, because this one runs. */
function endedBefore({ pod, memoryNodes }: PodContext, name: string): readonly string[] {
  const members = (pod === null ? [] : membersOf(pod)).filter(({ kind }) => kind !== 'ephemeral');
  const at = members.findIndex(({ container }) => container.name === name);
  return members.flatMap(({ kind, container }, index) =>
    index < at && kind === 'init' && Object.hasOwn(memoryNodes, container.name) ? [container.name] : [],
  );
}

export const releaseMemory = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'container.changed' || event.view.phase !== 'running') return;
  if (Object.keys(context.memoryNodes).length === 0 || !hasBehavior(context.node, 'podDetailsAsKubelet')) return;
  const containers = endedBefore(context, event.name);
  if (containers.length === 0) return;
  enqueue.assign({ memoryNodes: pickKeys(context.memoryNodes, (name) => !containers.includes(name)) });
  const message: AllocationMessage = { type: 'allocation.initialised', uid: context.uid, containers };
  enqueue.sendTo(to('allocation'), message);
});
