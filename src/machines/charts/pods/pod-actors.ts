/**
 * The actors of pods: started, released when no other pod has their pod's name, reaped when they end, and replaced
 * after a crash. Part of `pods.ts`.
 */
import { errorOf, line, now, outputOf, to } from '../../../kernel/xstate.ts';
import { isStaticPod, type PodRef } from '../../model/api/pod.ts';
import { withKeys } from '../../model/objects/config-objects.ts';
import { neededKeys } from '../../model/objects/keys.ts';
import type { ObjectsReleased } from '../../model/objects/messages.ts';
import type { MirrorMessage } from '../../model/pods/api-messages.ts';
import { podActor } from '../../model/pods/pod-messages.ts';
import { emptyRuntime } from '../../model/status/runtime-facts.ts';
import { pauseMs, RESPAWN_BACK_OFF } from '../../model/values/back-off.ts';
import { childIn, reapChild } from '../children.ts';
import type { PodInput } from './pod/pod-context.ts';
import {
  type Args,
  type Enqueue,
  fullName,
  idOf,
  type PodRecord,
  type Records,
  type Restarts,
  rememberedOf,
  podsSetup as s,
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
export function sendReleased(enqueue: Enqueue, { settings }: Args['context'], { uid, namespace, name }: PodRef): void {
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
