/** Starts the pods that a source wants, and ends the pods that no source wants. Part of `pods.ts`. */
import { errorOf, line, now, outputOf } from '../../../kernel/xstate.ts';
import { isMirrorPod, isStaticPod, type Pod } from '../../model/api/pod.ts';
import { withKeys } from '../../model/objects/config-objects.ts';
import { neededKeys } from '../../model/objects/keys.ts';
import type { PodKill } from '../../model/pods/pod-messages.ts';
import { emptyRuntime } from '../../model/status/runtime-facts.ts';
import { sendReleased, startPod } from './pod-actors.ts';
import {
  type Args,
  type Enqueue,
  type Leftovers,
  type PodRecord,
  type Records,
  refOf,
  podsSetup as s,
  sendObjects,
  sendToPod,
  wantObjects,
} from './pods-setup.ts';

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
