/**
 * The pod workers: one actor (`pod-<uid>`) for every pod that is wanted or that the runtime has.
 *
 * Decides: which pods get an actor, which wait for another pod of their name, which are ended, what follows a crash.
 * Owns: by uid the name, whether it is wanted, which objects it names, and the kill that was ordered; all ConfigMaps
 *   and Secrets. Never a pod: those live in their actors.
 * Hears: `config.objects`, `config.pods`, `runtime.*` and `pods.housekeeping` of `syncLoop`; `pods.kill`;
 *   `softState.loaded`; `pods.wanted` of `containerManager`; `node.changed` of the root; for its pods `object.found`,
 *   `csi.*`, restarts of senders and shared CPUs. Answers of `images` and `allocation` go to the pod's actor itself.
 * Asks: `volume.podFolders` and `logs.podFolders` once, for leftovers of an earlier agent; `podConfig` for a pod whose
 *   actor crashed; `softState` for restart counts and back-offs; `objects` for the objects that pods use.
 * Invariants:
 *   W1 one actor a uid, from the first message until nothing of the pod is left on the node.
 *   W2 of static pods with one full name only one is not held; the next one starts when the one before is gone.
 *   W3 a pod whose end was ordered is not started again; if it is wanted again in the meantime, it restarts afterwards,
 *      which counts as a restart of its containers.
 *   W4 a crashed actor is replaced after a back-off, and inspects the runtime before anything else.
 *   W5 an actor that loaded soft state is then sent which pods still exist.
 */
import { errorOf, line, now, outputOf, to } from '../../../kernel/xstate.ts';
import type { AllocationReport, PodsKnown } from '../../model/allocation/messages.ts';
import { isMirrorPod, isStaticPod, type Pod, type PodRef, podFullName } from '../../model/api/pod.ts';
import type { CSIReport } from '../../model/csi/messages.ts';
import { withKeys } from '../../model/objects/config-objects.ts';
import { neededKeys } from '../../model/objects/keys.ts';
import type { ObjectsReleased } from '../../model/objects/messages.ts';
import type { MirrorMessage } from '../../model/pods/api-messages.ts';
import { type GarbageWanted } from '../../model/pods/garbage-messages.ts';
import { type ImageReport } from '../../model/pods/image-messages.ts';
import { type PodKill, podActor } from '../../model/pods/pod-messages.ts';
import { type RuntimeMessage } from '../../model/pods/runtime-messages.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import { emptyRuntime } from '../../model/status/runtime-facts.ts';
import { pauseMs, RESPAWN_BACK_OFF } from '../../model/values/back-off.ts';
import { childIn, reapChild } from '../children.ts';
import type { PodInput } from './pod/pod-policy.ts';
import {
  type Args,
  type Enqueue,
  forwardObject,
  fullName,
  handleObjects,
  idOf,
  type Leftovers,
  type PodRecord,
  type Records,
  type Restarts,
  refOf,
  rememberedOf,
  podsSetup as s,
  sendObjects,
  sendToPod,
  wantObjects,
  wantObjectsAgain,
  withRestarts,
} from './pods-setup.ts';

/** The grace period of orphaned containers; as upstream's for pods that only the runtime knows. */
const ORPHAN_GRACE_SECONDS = 1;
/** Before folders that could not be listed are listed again. */
const LIST_AGAIN_MS = 60_000;

interface Start extends Partial<Pick<PodInput, 'pod' | 'runtime'>> {
  readonly held?: boolean;
}

function start(args: Args, ref: PodRef, before: PodRecord | undefined, what: Start): PodRecord {
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

/** Pods that start from now on get these settings. */
const handleNode = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'node.changed') return;
  enqueue.assign({ settings: event.settings });
  for (const { uid, alive } of Object.values(context.records)) if (alive) sendToPod(enqueue, uid, event);
});

// ---- wanted ---------------------------------------------------------------------------------------------------------

const handleConfig = s.enqueueActions((args) => {
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
      if (!isMirrorPod(pod)) records[pod.metadata.uid] = want(args, records, pod);
    }
  }
  enqueue.assign({ records });
});

function want(args: Args, records: Records, pod: Pod): PodRecord {
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
  const hasPredecessor = Object.values(records).some((other) => isPredecessor(other, pod));
  const held = isStaticPod(pod) && (hasPredecessor || !args.context.relisted);
  return start(args, ref, before, { pod, held });
}

const isPredecessor = (other: PodRecord, pod: Pod): boolean =>
  other.uid !== pod.metadata.uid && fullName(other) === podFullName(pod);

function kill(enqueue: Enqueue, record: PodRecord, graceSeconds: number | null): PodRecord {
  const order: PodKill = { type: 'pod.kill', graceSeconds, remove: true, verdict: null };
  if (record.alive) sendToPod(enqueue, record.uid, order);
  return { ...record, kill: order };
}

/** Ends a pod that stays wanted: its status shows why, and it is not started again. */
const endByNode = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'pods.kill') return;
  const { uid, graceSeconds, verdict } = event;
  const record = context.records[uid];
  if (!record) return;
  const order: PodKill = { type: 'pod.kill', graceSeconds, remove: false, verdict };
  if (record.alive) sendToPod(enqueue, uid, order);
  enqueue.assign({ records: { ...context.records, [uid]: { ...record, verdict: order } } });
});

const handleHousekeeping = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'pods.housekeeping') return;
  const desired = new Set(event.desired);
  const unwanted = Object.values(context.records).filter(({ uid, kill }) => !desired.has(uid) && kill === null);
  const killed = unwanted.map((record) => [record.uid, endUnwanted(enqueue, record)] as const);
  enqueue.assign({ judges: true, records: { ...context.records, ...Object.fromEntries(killed) } });
});

function endUnwanted(enqueue: Enqueue, record: PodRecord): PodRecord {
  const { namespace, name, uid, desired } = record;
  enqueue(line('info', ['Ending a pod that is not wanted any more', { pod: `${namespace}/${name}`, uid }]));
  return kill(enqueue, { ...record, desired: false }, desired ? null : ORPHAN_GRACE_SECONDS);
}

/** Removes volumes and files of pods that neither a source nor the runtime knows. Only log folders have names. */
const endLeftovers = s.enqueueActions((args) => {
  const { uids = [], pods = [] } = outputOf<Leftovers>(args.event);
  const records: Record<string, PodRecord> = { ...args.context.records };
  const left = [...pods, ...uids.map((uid) => ({ uid, name: '', namespace: '' }))];
  for (const ref of left) {
    if (records[ref.uid]) continue;
    const runtime = emptyRuntime(ref.uid, ref.name, ref.namespace, now(args));
    records[ref.uid] = endUnwanted(args.enqueue, start(args, ref, undefined, { runtime }));
  }
  args.enqueue.assign({ records });
});

const logUnlisted = s.enqueueActions(({ event, enqueue }) => {
  const error = errorOf(event).message;
  enqueue(line('warn', ['Cannot look for folders of pods that are gone', { error }]));
});

// ---- observed -------------------------------------------------------------------------------------------------------

const handleObservation = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'runtime.podChanged') return;
  const { status } = event;
  const record = context.records[status.uid];
  if (record?.alive) sendToPod(enqueue, status.uid, event);
  if (record) return;
  const { uid, name, namespace } = status;
  const added = start(args, { uid, name, namespace }, undefined, { runtime: status });
  const judged = context.judges ? endUnwanted(enqueue, added) : added;
  enqueue.assign({ records: { ...context.records, [uid]: judged } });
});

const handleRelist = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'runtime.relisted') return;
  const seen = new Set(event.uids);
  for (const { uid, alive } of Object.values(context.records)) {
    if (alive && !seen.has(uid)) sendToPod(enqueue, uid, { type: 'runtime.absent', observedAtMs: now(args) });
  }
  enqueue.assign({ relisted: true, records: released(enqueue, context.records) });
});

/** Of the pods that wait for a name, the first one starts when no other pod has that name on this node. */
function released(enqueue: Enqueue, records: Records): Records {
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

const logStale = s.enqueueActions(({ event, enqueue }) => {
  if (event.type !== 'runtime.podStale') return;
  enqueue(line('warn', ['A pod cannot be inspected', { uid: event.uid, error: event.message }]));
});

const forward = s.enqueueActions(({ context, event, enqueue }) => {
  const message = event as RuntimeMessage | ImageReport | AllocationReport | GarbageWanted | CSIReport;
  if ('uid' in message) {
    if (context.records[message.uid]?.alive) sendToPod(enqueue, message.uid, message);
  } else {
    for (const { uid, alive } of Object.values(context.records)) if (alive) sendToPod(enqueue, uid, message);
  }
});

// ---- ends and crashes -----------------------------------------------------------------------------------------------

const uidIn = (event: { readonly type: string }): string => childIn(event).replace(/^pod-/, '');

const reap = s.enqueueActions(({ context, event, enqueue }) => {
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
    records: context.relisted ? released(enqueue, rest) : rest,
  });
});

/** The mirror pod of this static pod may be deleted now. */
function sendReleased(enqueue: Enqueue, { settings }: Args['context'], { uid, namespace, name }: PodRef): void {
  if (settings.apiServer === undefined) return;
  const message: MirrorMessage = { type: 'mirror.released', pod: { uid, namespace, name } };
  enqueue.sendTo(to('mirrorPods'), message);
}

const reapCrashed = s.enqueueActions(({ context, event, enqueue }) => {
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
  /** `softState` has the soft state that the pod recorded since the agent started. */
  enqueue.sendTo(to('softState'), { type: 'softState.wanted' });
  reapChild(enqueue, idOf(uid), { type: 'pod.respawn', uid }, delay);
});

/** A wanted pod is requested again from its source; for an ending one its name is enough. */
const respawn = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'pod.respawn') return;
  const record = context.records[event.uid];
  if (!record || record.alive) return;
  if (record.desired && record.kill === null) {
    enqueue.sendTo(to('podConfig'), { type: 'config.wanted', uids: [event.uid] });
    return;
  }
  const { uid, name, namespace, desired, again } = record;
  const added = start(args, { uid, name, namespace }, record, {});
  if (record.kill) sendToPod(enqueue, uid, record.kill);
  enqueue.assign({ records: { ...context.records, [uid]: { ...added, desired, again } } });
});

const noteSoftState = s.assign(({ event }) => (event.type === 'softState.loaded' ? { softState: event.state } : {}));

const sendKnown = s.enqueueActions(({ context, enqueue }) => {
  const known: PodsKnown = { type: 'pods.known', uids: Object.keys(context.records) };
  const others = hasBehavior(context.settings, 'dynamicResources') ? ['draManager'] : [];
  for (const id of ['allocation', 'containerManager', 'softState', ...others]) enqueue.sendTo(to(id), known);
});

const publishingKnown = s.createStateConfig({
  entry: sendKnown,
  on: { 'softState.loaded': { actions: [noteSoftState, sendKnown] }, 'pods.wanted': { actions: sendKnown } },
});

export const podsMachine = s.createMachine({
  id: 'pods',
  context: ({ input }) => ({
    settings: input.settings,
    softState: { containers: {}, probes: {} },
    records: {},
    objects: {},
    relisted: false,
    judges: false,
    lacksLogs: false,
  }),
  entry: s.enqueueActions(({ enqueue }) => {
    enqueue.sendTo(to('softState'), { type: 'softState.wanted' });
    for (const other of ['syncLoop', 'status']) enqueue.sendTo(to(other), { type: 'pods.started' });
  }),
  initial: 'gathering',
  on: {
    'softState.loaded': { actions: noteSoftState },
    'config.objects': { actions: handleObjects },
    'object.found': { actions: forwardObject },
    'objects.started': { actions: wantObjectsAgain },
    'config.pods': { actions: handleConfig },
    'pods.housekeeping': { actions: handleHousekeeping },
    'pods.kill': { actions: endByNode },
    'node.changed': { actions: handleNode },
    'allocation.started': { actions: forward },
    'allocation.shared': { actions: forward },
    'runtime.podChanged': { actions: handleObservation },
    'runtime.sandboxChanged': { actions: forward },
    'runtime.containerChanged': { actions: forward },
    'runtime.podRemoved': { actions: forward },
    'runtime.podStale': { actions: logStale },
    'runtime.relisted': { actions: handleRelist },
    'images.started': { actions: forward },
    'garbage.wanted': { actions: forward },
    'status.wanted': { actions: forward },
    'csi.mounted': { actions: forward },
    'csi.unmounted': { actions: forward },
    'csi.started': { actions: forward },
    'claims.started': { actions: forward },
    'xstate.done.actor.*': { actions: reap },
    'xstate.error.actor.*': { actions: reapCrashed },
    'pod.respawn': { actions: respawn },
  },
  states: {
    /** Waits until it is known which pods are wanted. */
    gathering: { on: { 'pods.housekeeping': { target: 'listingLogs', actions: handleHousekeeping } } },
    listingLogs: {
      invoke: {
        id: 'logFolders',
        src: 'logs.podFolders',
        input: ({ context }) => ({ root: context.settings.podLogsDir }),
        onDone: { target: 'listingFolders', actions: [endLeftovers, s.assign({ lacksLogs: false })] },
        onError: { target: 'listingFolders', actions: [logUnlisted, s.assign({ lacksLogs: true })] },
      },
    },
    listingFolders: {
      invoke: {
        id: 'podFolders',
        src: 'volume.podFolders',
        input: ({ context }) => ({ root: context.settings.rootDir }),
        onDone: [
          { guard: ({ context }) => context.lacksLogs, target: 'retrying', actions: endLeftovers },
          { target: 'keeping', actions: endLeftovers },
        ],
        onError: { target: 'retrying', actions: logUnlisted },
      },
    },
    retrying: { ...publishingKnown, after: { [LIST_AGAIN_MS]: 'listingLogs' } },
    keeping: publishingKnown,
  },
});
