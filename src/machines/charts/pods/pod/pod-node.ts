/**
 * A pod and its node: the facts that it sends to the node's managers (eviction, shutdown) while it is admitted and
 * running, and its reaction to changes of the node's configuration. Part of the chart of `pod.ts`.
 */
import { to } from '../../../../kernel/xstate.ts';
import { type NodePodChanged, nodePod } from '../../../model/eviction/facts.ts';
import type { PodContext } from './pod-policy.ts';
import { type Enqueue, order, podSetup as s } from './pod-setup.ts';

function report(enqueue: Enqueue, { uid, node }: PodContext, pod: NodePodChanged['pod']): void {
  const message: NodePodChanged = { type: 'node.podChanged', uid, pod };
  if (node.eviction !== undefined) enqueue.sendTo(to('eviction'), message);
  if (node.shutdown !== undefined) enqueue.sendTo(to('shutdown'), message);
}

/** Sends the pod's current facts, also to a manager that has lost its state. */
export const sendNode = s.enqueueActions(({ context, enqueue }) => {
  if (context.pod !== null && context.stage !== 'terminated')
    report(enqueue, context, nodePod(context.pod, context.node));
});

/** Sends the pod's facts when a change of its configuration changes its rank. Before `configure`. */
export const sendNodeChange = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'pod.configured' || context.stage === 'terminated') return;
  const pod = nodePod(event.pod, context.node);
  const before = context.pod === null ? null : nodePod(context.pod, context.node);
  if (JSON.stringify(pod) !== JSON.stringify(before)) report(enqueue, context, pod);
});

/** Applies the node's changed configuration: log actors restart with it, containers get the maximum of back-offs. */
export const handleNode = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'node.changed') return;
  const { settings: node } = event;
  for (const id of Object.keys(context.logs)) enqueue.stopChild(id);
  enqueue.assign({ node, logs: {} });
  const limited = { type: 'container.limited', maxBackoffMs: node.crashLoopBackOffMaxMs } as const;
  for (const name of Object.keys(context.containers)) order(enqueue, name, limited);
});

/** No container of the pod runs any more. */
export const sendNodeEnd = s.enqueueActions(({ context, enqueue }) => {
  if (context.pod !== null) report(enqueue, context, null);
});
