/**
 * A pod and its node: what it sends the managers of the node (eviction, shutdown), that it may run, how it ranks, and,
 * for the last time, that nothing of it runs any more; and what it does when the node's configuration is another. Part
 * of the chart of `pod.ts`.
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

/** The pod's facts as known now: also for a manager that has lost its state. */
export const sendNode = s.enqueueActions(({ context, enqueue }) => {
  if (context.pod !== null && context.stage !== 'terminated')
    report(enqueue, context, nodePod(context.pod, context.node));
});

/** The configuration has changed: sent when that changes its rank. Before `configure`. */
export const sendNodeChange = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'pod.configured' || context.stage === 'terminated') return;
  const pod = nodePod(event.pod, context.node);
  const before = context.pod === null ? null : nodePod(context.pod, context.node);
  if (JSON.stringify(pod) !== JSON.stringify(before)) report(enqueue, context, pod);
});

/** Logs are kept by it from now on; containers have it for what they do next. */
export const takeNode = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'node.changed') return;
  const { settings: node } = event;
  for (const id of Object.keys(context.logs)) enqueue.stopChild(id);
  enqueue.assign({ node, logs: {} });
  const limited = { type: 'container.limited', maxBackoffMs: node.crashLoopBackOffMaxMs } as const;
  for (const name of Object.keys(context.containers)) order(enqueue, name, limited);
});

/** Nothing of it runs any more. */
export const sendNodeEnd = s.enqueueActions(({ context, enqueue }) => {
  if (context.pod !== null) report(enqueue, context, null);
});
