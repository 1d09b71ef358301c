/**
 * The logs of a pod's containers: one actor for each running instance. Part of the chart of `pod.ts`.
 *
 * Invariant: level-triggered by the state of the runtime, so that the order of events does not matter.
 */
import type { KeptLog } from '../../../model/operations/logs.ts';
import { legacyLogName } from '../../../model/spec/paths.ts';
import { instancesOf } from '../../../model/status/runtime-facts.ts';
import { childIn, reapChild } from '../../children.ts';
import type { ContainerLogInput } from '../container/container-log.ts';
import type { PodContext } from './pod-context.ts';
import { podOrName } from './pod-policy.ts';
import { podSetup as s } from './pod-setup.ts';

/** The pause before the crashed actor of a log is replaced. */
const RESPAWN_MS = 60_000;

const idOf = (container: string): string => `log-${container}`;

/** By actor id, the log to follow. */
function wantedLogs(context: PodContext): Readonly<Record<string, ContainerLogInput>> {
  const { runtime, node } = context;
  const settings = node.containerLogs;
  if (settings === undefined) return {};
  const names = new Set((runtime?.containers ?? []).flatMap(({ metadata }) => metadata?.name ?? []));
  const entries = [...names].flatMap((name) => {
    const [newest] = instancesOf(runtime, name);
    if (newest?.state !== 'CONTAINER_RUNNING' || !newest.log_path.startsWith(`${node.podLogsDir}/`)) return [];
    const link = legacyLogName(podOrName(context), name, newest.id);
    const log: KeptLog = {
      ...settings,
      root: node.podLogsDir,
      path: newest.log_path,
      link: node.containerLogsDir === '' ? '' : `${node.containerLogsDir}/${link}`,
    };
    return [[idOf(name), { containerId: newest.id, log }] as const];
  });
  return Object.fromEntries(entries);
}

function logChanges(context: PodContext): {
  readonly stale: readonly string[];
  readonly missing: Readonly<Record<string, ContainerLogInput>>;
} {
  const desiredLogs = wantedLogs(context);
  const stale = Object.keys(context.logs).filter((id) => desiredLogs[id]?.containerId !== context.logs[id]);
  const missing = Object.entries(desiredLogs).filter(([id]) => context.logs[id] === undefined);
  return { stale, missing: Object.fromEntries(missing) };
}

/** Stops the actors of ended instances before new ones start: a new actor may have the same id. */
const superviseLogs = s.enqueueActions(({ context, enqueue }) => {
  const { stale, missing } = logChanges(context);
  if (stale.length > 0) {
    for (const id of stale) enqueue.stopChild(id);
    enqueue.assign({ logs: Object.fromEntries(Object.entries(context.logs).filter(([id]) => !stale.includes(id))) });
    return;
  }
  for (const [id, input] of Object.entries(missing)) enqueue.spawnChild('containerLog', { id, input });
  const added = Object.entries(missing).map(([id, { containerId }]) => [id, containerId] as const);
  enqueue.assign({ logs: { ...context.logs, ...Object.fromEntries(added) } });
});

/** Keeps an actor for the log of each instance that runs. */
export const logging = s.createStateConfig({
  always: {
    guard: ({ context }) => {
      const { stale, missing } = logChanges(context);
      return stale.length > 0 || Object.keys(missing).length > 0;
    },
    actions: superviseLogs,
  },
});

export const reapLog = s.enqueueActions(({ event, enqueue }) => {
  const id = childIn(event);
  if (id.startsWith('log-')) reapChild(enqueue, id, { type: 'log.respawn', id }, RESPAWN_MS);
});

/** Forgets the actor, so that another one is spawned. */
export const respawnLog = s.assign({
  logs: ({ context, event }) => {
    if (event.type !== 'log.respawn') return context.logs;
    const { [event.id]: _crashed, ...logs } = context.logs;
    return logs;
  },
});
