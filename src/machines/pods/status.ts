/**
 * The status manager: what each pod's status was last, in short, and a line when its phase changes.
 *
 * Decides: what is worth a line. Publishes nothing without an API server.
 * Owns: a summary by pod; the full status stays with the pod's actor, which is its only writer.
 * Hears: `status.changed` of pods, `status.removed` of `pods`.
 * Invariant: a summary exists exactly for the pods that have an actor and a configuration.
 */
import { line, setup } from '../../kernel/xstate.ts';
import type { PodStatus } from '../api/pod.ts';
import type { PodRef, StatusMessage } from './messages.ts';

export interface PodSummary extends PodRef {
  readonly phase: string;
  readonly ready: boolean;
  readonly restarts: number;
}

interface Context {
  readonly pods: Readonly<Record<string, PodSummary>>;
}

const s = setup({ types: { context: {} as Context, events: {} as StatusMessage } });

const summaryOf = ({ uid, namespace, name }: PodRef, status: PodStatus): PodSummary => ({
  uid,
  namespace,
  name,
  phase: status.phase ?? '',
  ready: status.conditions?.find(({ type }) => type === 'Ready')?.status === 'True',
  restarts: (status.containerStatuses ?? []).reduce((sum, { restartCount }) => sum + restartCount, 0),
});

const note = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'status.changed') return;
  const summary = summaryOf(event.pod, event.status);
  const before = context.pods[summary.uid];
  if (before && JSON.stringify(before) === JSON.stringify(summary)) return;
  enqueue.assign({ pods: { ...context.pods, [summary.uid]: summary } });
  const { namespace, name, uid, phase, ready, restarts } = summary;
  const changed = before?.phase !== phase || before.ready !== ready || before.restarts !== restarts;
  if (changed) enqueue(line('info', ['Pod status', { pod: `${namespace}/${name}`, uid, phase, ready, restarts }]));
});

const forget = s.assign({
  pods: ({ context, event }) => {
    if (event.type !== 'status.removed') return context.pods;
    const { [event.uid]: _gone, ...pods } = context.pods;
    return pods;
  },
});

export const statusMachine = s.createMachine({
  id: 'status',
  context: { pods: {} },
  on: { 'status.changed': { actions: note }, 'status.removed': { actions: forget } },
});
