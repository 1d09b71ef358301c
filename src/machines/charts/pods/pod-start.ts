/** Starts the actor of a pod, and releases a pod that waited for its name. Part of `pods.ts`. */
import { now } from '../../../kernel/xstate.ts';
import { isStaticPod, type PodRef } from '../../model/api/pod.ts';
import { withKeys } from '../../model/objects/config-objects.ts';
import { neededKeys } from '../../model/objects/keys.ts';
import { podActor } from '../../model/pods/pod-messages.ts';
import { emptyRuntime } from '../../model/status/runtime-facts.ts';
import type { PodInput } from './pod/pod-context.ts';
import {
  type Args,
  type Enqueue,
  fullName,
  idOf,
  type PodRecord,
  type Records,
  rememberedOf,
  sendToPod,
  wantObjects,
} from './pods-setup.ts';

interface Start extends Partial<Pick<PodInput, 'pod' | 'runtime'>> {
  readonly held?: boolean;
}

export function start(args: Args, ref: PodRef, before: PodRecord | undefined, what: Start): PodRecord {
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

/** Of the pods that wait for a name, the first one starts when no other pod has that name on this node. */
export function released(enqueue: Enqueue, records: Records): Records {
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
