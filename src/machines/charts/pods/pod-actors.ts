/**
 * The actors of pods: started, released when no other pod has their pod's name, reaped when they end, and replaced
 * after a crash; and the pods that sources want, which start, or no longer want, which end. Part of `pods.ts`.
 */
import { childIn, errorOf, line, now, outputOf, reapChild, to } from '../../../kernel/xstate.ts';
import { isMirrorPod, isStaticPod, type Pod, type PodRef } from '../../model/api/pod.ts';
import { withKeys } from '../../model/objects/config-objects.ts';
import { neededKeys, type ObjectsReleased } from '../../model/objects/keys.ts';
import { type PodKill, podActor } from '../../model/pods/pod-messages.ts';
import type { MirrorMessage } from '../../model/pods/source-messages.ts';
import { emptyRuntime } from '../../model/status/runtime-facts.ts';
import { pauseMs, RESPAWN_BACK_OFF } from '../../model/values/time.ts';
import type { PodInput } from './pod/pod-context.ts';
import type { Args, Enqueue, Leftovers, PodRecord, Records, Restarts } from './pods-setup.ts';
import {
  fullName,
  idOf,
  refOf,
  rememberedOf,
  podsSetup as s,
  sendObjects,
  sendToPod,
  wantObjects,
  withRestarts,
} from './pods-setup.ts';

interface Start extends Partial<Pick<PodInput, 'pod' | 'runtime'>> {
  readonly held?: boolean;
}

export function startPod(args: Args, ref: PodRef, before: PodRecord | undefined, what: Start): PodRecord {
  const { context, enqueue } = args;
  const { pod = null, held = false } = what;
  const mustInspect = (before?.crashes ?? 0) > 0;
  const isUnknownToRuntime = context.relisted && !mustInspect;
  const runtime =
    what.runtime ?? (isUnknownToRuntime ? emptyRuntime(ref.uid, ref.name, ref.namespace, now(args)) : null);
  const objectKeys = pod === null ? [] : neededKeys(pod, context.settings);
  const input: PodInput = {
    ...ref,
    node: context.settings,
    networkError: context.networkError,
    pod,
    runtime,
    mustInspect,
    held,
    ...rememberedOf(context.softState, ref.uid),
    objects: withKeys(context.objects, objectKeys),
  };
  enqueue.spawnChild('pod', { id: idOf(ref.uid), systemId: podActor(ref.uid), input });
  wantObjects(args, ref.uid, objectKeys);
  if (before?.verdict) sendToPod(enqueue, ref.uid, before.verdict);
  return {
    ...ref,
    isStatic: pod !== null && isStaticPod(pod),
    objectKeys,
    desired: pod !== null,
    held,
    alive: true,
    crashes: before?.crashes ?? 0,
    kill: before?.kill ?? null,
    verdict: before?.verdict ?? null,
    again: false,
  };
}

/** Releases the first of the pods that wait for a full name, once no other pod on this node has that name. */
export function releaseHeld(enqueue: Enqueue, records: Records): Records {
  if (!Object.values(records).some(({ held }) => held)) return records;
  const taken = new Set(Object.values(records).flatMap((record) => (record.held ? [] : [fullName(record)])));
  const next: Record<string, PodRecord> = { ...records };
  for (const record of Object.values(records)) {
    if (!record.held || taken.has(fullName(record))) continue;
    taken.add(fullName(record));
    if (record.alive) sendToPod(enqueue, record.uid, { type: 'pod.released' });
    next[record.uid] = { ...record, held: false };
  }
  return next;
}

const uidIn = (event: { readonly type: string }): string => childIn(event).replace(/^pod-/, '');

export const reap = s.enqueueActions(({ context, event, enqueue }) => {
  if (!event.type.startsWith('xstate.done.actor.pod-')) return;
  const uid = uidIn(event);
  enqueue.stopChild(idOf(uid));
  const { [uid]: gone, ...rest } = context.records;
  enqueue.sendTo(to('status'), { type: 'status.removed', uid });
  enqueue.sendTo(to('softState'), { type: 'softState.forgotten', uid });
  if (gone) sendReleased(enqueue, context, gone);
  if (context.settings.apiServer !== undefined && gone?.objectKeys.length) {
    enqueue.sendTo(to('objects'), { type: 'objects.released', uid } satisfies ObjectsReleased);
  }
  if (gone?.again) enqueue.sendTo(to('podConfig'), { type: 'config.wanted', uids: [uid] });
  const { restarts } = outputOf<{ readonly restarts: Restarts }>(event);
  enqueue.assign({
    softState: withRestarts(context.softState, uid, gone?.again ? restarts : {}),
    records: context.relisted ? releaseHeld(enqueue, rest) : rest,
  });
});

/** The mirror pod of this static pod may be deleted now. */
function sendReleased(enqueue: Enqueue, { settings }: Args['context'], { uid, namespace, name }: PodRef): void {
  if (settings.apiServer === undefined) return;
  const message: MirrorMessage = { type: 'mirror.released', pod: { uid, namespace, name } };
  enqueue.sendTo(to('mirrorPods'), message);
}

export const reapCrashed = s.enqueueActions(({ context, event, enqueue }) => {
  if (!event.type.startsWith('xstate.error.actor.pod-')) return;
  const uid = uidIn(event);
  const record = context.records[uid];
  if (!record) return enqueue.stopChild(idOf(uid));
  const delay = pauseMs(RESPAWN_BACK_OFF, record.crashes);
  const error = errorOf(event).message;
  enqueue(line('error', ['The actor of a pod crashed and will be started again', { uid, error, restartInMs: delay }]));
  enqueue.assign({
    records: { ...context.records, [uid]: { ...record, alive: false, crashes: record.crashes + 1 } },
  });
  // `softState` also has the facts that the pod recorded since the agent started.
  enqueue.sendTo(to('softState'), { type: 'softState.wanted' });
  reapChild(enqueue, idOf(uid), { type: 'pod.respawn', uid }, delay);
});

/** A wanted pod is requested again from its source; an ending pod needs no definition, so it starts at once. */
export const respawn = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'pod.respawn') return;
  const record = context.records[event.uid];
  if (!record || record.alive) return;
  if (record.desired && record.kill === null) {
    enqueue.sendTo(to('podConfig'), { type: 'config.wanted', uids: [event.uid] });
    return;
  }
  const { uid, name, namespace, desired, again } = record;
  const added = startPod(args, { uid, name, namespace }, record, {});
  if (record.kill) sendToPod(enqueue, uid, record.kill);
  enqueue.assign({ records: { ...context.records, [uid]: { ...added, desired, again } } });
});

/** The grace period of orphaned containers; as upstream's for pods that only the runtime knows. */
const ORPHAN_GRACE_SECONDS = 1;

export const handleConfig = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'config.pods') return;
  const records: Record<string, PodRecord> = { ...context.records };
  if (event.op === 'REMOVE') {
    for (const { uid, namespace, name } of event.pods) {
      const record = records[uid];
      if (record) records[uid] = kill(enqueue, { ...record, desired: false, again: false }, null);
      else sendReleased(enqueue, context, { uid, namespace, name });
    }
  } else {
    for (const pod of event.pods) {
      if (!isMirrorPod(pod)) records[pod.metadata.uid] = handleWanted(args, records, pod);
    }
  }
  enqueue.assign({ records });
});

function handleWanted(args: Args, records: Records, pod: Pod): PodRecord {
  const ref = refOf(pod);
  const before = records[ref.uid];
  if (before?.kill) return { ...before, desired: true, again: true };
  if (before?.alive) {
    const objectKeys = neededKeys(pod, args.context.settings);
    sendObjects(args.enqueue, before, withKeys(args.context.objects, objectKeys), args.context.objects);
    sendToPod(args.enqueue, ref.uid, { type: 'pod.configured', pod });
    if (objectKeys.join() !== before.objectKeys.join()) wantObjects(args, ref.uid, objectKeys);
    return { ...before, desired: true, isStatic: isStaticPod(pod), objectKeys };
  }
  const hasPredecessor = () => Object.values(records).some((other) => isPredecessor(other, pod));
  const mustWait = isStaticPod(pod) && (!args.context.relisted || hasPredecessor());
  return startPod(args, ref, before, { pod, held: mustWait });
}

const isPredecessor = ({ uid, name, namespace }: PodRecord, { metadata }: Pod): boolean =>
  uid !== metadata.uid && name === metadata.name && namespace === metadata.namespace;

function kill(enqueue: Enqueue, record: PodRecord, graceSeconds: number | null): PodRecord {
  const order: PodKill = { type: 'pod.kill', graceSeconds, remove: true, verdict: null };
  if (record.alive) sendToPod(enqueue, record.uid, order);
  return { ...record, kill: order };
}

/** Ends a pod that stays wanted: its status shows why, and it is not started again. */
export const endByNode = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'pods.kill') return;
  const { uid, graceSeconds, verdict } = event;
  const record = context.records[uid];
  if (!record) return;
  const order: PodKill = { type: 'pod.kill', graceSeconds, remove: false, verdict };
  if (record.alive) sendToPod(enqueue, uid, order);
  enqueue.assign({ records: { ...context.records, [uid]: { ...record, verdict: order } } });
});

export const handleHousekeeping = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'pods.housekeeping') return;
  const desired = new Set(event.desired);
  const unwanted = Object.values(context.records).filter(({ uid, kill }) => !desired.has(uid) && kill === null);
  const killed = unwanted.map((record) => [record.uid, endUnwanted(enqueue, record)] as const);
  enqueue.assign({ judges: true, records: { ...context.records, ...Object.fromEntries(killed) } });
});

export function endUnwanted(enqueue: Enqueue, record: PodRecord): PodRecord {
  const { namespace, name, uid, desired } = record;
  enqueue(line('info', ['Ending a pod that is not wanted any more', { pod: `${namespace}/${name}`, uid }]));
  return kill(enqueue, { ...record, desired: false }, desired ? null : ORPHAN_GRACE_SECONDS);
}

/** Removes volumes and files of pods that neither a source nor the runtime knows. Only log folders have names. */
export const endLeftovers = s.enqueueActions((args) => {
  const { uids = [], pods = [] } = outputOf<Leftovers>(args.event);
  const records: Record<string, PodRecord> = { ...args.context.records };
  const leftovers = [...pods, ...uids.map((uid) => ({ uid, name: '', namespace: '' }))];
  for (const ref of leftovers) {
    if (records[ref.uid]) continue;
    const runtime = emptyRuntime(ref.uid, ref.name, ref.namespace, now(args));
    records[ref.uid] = endUnwanted(args.enqueue, startPod(args, ref, undefined, { runtime }));
  }
  args.enqueue.assign({ records });
});

export const logUnlisted = s.enqueueActions(({ event, enqueue }) => {
  const error = errorOf(event).message;
  enqueue(line('warn', ['Cannot look for folders of pods that are gone', { error }]));
});
