/**
 * Types and helpers of the pod workers' machine: records, events, sending to pods, and which pod gets which objects of
 * the API server. See `pods.ts`.
 */

import { type ActionArgsOf, type AnyActorRef, type Ended, pick, setup, to, typed } from '../../../kernel/xstate.ts';
import type { AllocationReport, PodsWanted } from '../../model/allocation/messages.ts';
import type { Pod, PodRef } from '../../model/api/pod.ts';
import type { CSIReport } from '../../model/csi/messages.ts';
import { type ConfigObjects, differ, withKeys } from '../../model/objects/config-objects.ts';
import type { ObjectFound, ObjectsStarted, ObjectsWanted } from '../../model/objects/keys.ts';
import type { SoftState } from '../../model/operations/host.ts';
import { operations } from '../../model/operations/index.ts';
import type { GarbageWanted, ImageReport } from '../../model/pods/image-messages.ts';
import type {
  NetworkChanged,
  PodKill,
  PodKillWanted,
  PodMessage,
  PodsMessage,
  RuntimeMessage,
  StatusWanted,
} from '../../model/pods/pod-messages.ts';
import type { ConfigMessage, ObjectsReported } from '../../model/pods/source-messages.ts';
import type { NodeChanged, NodeSettings } from '../../model/settings/node-settings.ts';
import { podMachine } from './pod/pod.ts';

export interface PodsInput {
  readonly settings: NodeSettings;
}

export interface PodRecord extends PodRef {
  readonly isStatic: boolean;
  /** Keys of the ConfigMaps and Secrets that the pod names. */
  readonly objectKeys: readonly string[];
  readonly desired: boolean;
  readonly held: boolean;
  /** The pod has an actor. */
  readonly alive: boolean;
  readonly crashes: number;
  readonly kill: PodKill | null;
  /** Why the node ended the pod, though it is wanted. */
  readonly verdict: PodKill | null;
  /** The pod was wanted again while it ended. */
  readonly again: boolean;
}

export type Records = Readonly<Record<string, PodRecord>>;

interface Context {
  readonly settings: NodeSettings;
  readonly softState: SoftState;
  /** Why the node has no network for pods; empty if it has one. */
  readonly networkError: string;
  readonly records: Records;
  readonly objects: ConfigObjects;
  /** The runtime was listed completely: a pod that was not reported does not exist there. */
  readonly relisted: boolean;
  /** Every source has published: pods that are not wanted are orphaned. */
  readonly judges: boolean;
  /** The logs of pods that are gone could not be listed. */
  readonly lacksLogs: boolean;
}

/** Leftovers of unknown pods; only log folders have names. */
export type Leftovers = { readonly uids?: readonly string[]; readonly pods?: readonly PodRef[] };

type Event =
  | ConfigMessage
  | ObjectsReported
  | RuntimeMessage
  | PodsMessage
  | PodKillWanted
  | NodeChanged
  | NetworkChanged
  | ImageReport
  | GarbageWanted
  | StatusWanted
  | ObjectFound
  | ObjectsStarted
  | CSIReport
  | AllocationReport
  | PodsWanted
  | Ended
  | { readonly type: 'images.started' }
  | { readonly type: 'softState.loaded'; readonly state: SoftState }
  | { readonly type: 'pod.respawn'; readonly uid: string };

export const podsSetup = setup({
  types: typed<{ input: PodsInput; context: Context; events: Event }>(),
  actors: { pod: podMachine, ...pick(operations, 'volume.podFolders', 'logs.podFolders') },
});

export type Args = ActionArgsOf<typeof podsSetup>;
export type Enqueue = Args['enqueue'];

export const idOf = (uid: string): string => `pod-${uid}`;
export const sendToPod = (
  enqueue: Enqueue,
  uid: string,
  message:
    | PodMessage
    | NodeChanged
    | NetworkChanged
    | RuntimeMessage
    | ImageReport
    | AllocationReport
    | GarbageWanted
    | StatusWanted
    | ObjectFound
    | CSIReport,
): void => enqueue.sendTo<AnyActorRef>(idOf(uid), message);

export const fullName = ({ name, namespace }: PodRef): string => `${name}_${namespace}`;

export const refOf = ({ metadata: { uid, name, namespace } }: Pod): PodRef => ({ uid, name, namespace });

/** The soft state of one pod, by container or by image. */
export const rememberedOf = ({ containers, begun, pulls, probes, resizes, handedOver }: SoftState, uid: string) => ({
  rememberedContainers: ofPod(containers, uid),
  begun: ofPod(begun ?? {}, uid),
  pulls: ofPod(pulls ?? {}, uid),
  probed: ofPod(probes, uid),
  actuated: resizes?.[uid] ?? null,
  ...(handedOver?.[uid] === undefined ? {} : { handedOver: handedOver[uid] }),
});

/** Only the keys of other pods are read: there are many when many pods start. */
function ofPod<Value>(table: Readonly<Record<string, Value>>, uid: string): Record<string, Value> {
  const prefix = `${uid}/`;
  const keys = Object.keys(table).filter((key) => key.startsWith(prefix));
  return Object.fromEntries(keys.map((key) => [key.slice(prefix.length), table[key] as Value]));
}

/** The output of a pod's actor: the number of each container's next instance. */
export type Restarts = Readonly<Record<string, number>>;

/** Restart counts continue when the same pod is wanted again, even if the runtime has nothing of it. */
export function withRestarts(softState: SoftState, uid: string, restarts: Restarts): SoftState {
  const isOfPod = (key: string): boolean => key.startsWith(`${uid}/`);
  const isUnknown = !Object.keys(softState.containers).some(isOfPod);
  if (isUnknown && Object.keys(restarts).length === 0) return softState;
  const others = Object.entries(softState.containers).filter(([key]) => !isOfPod(key));
  const counted = Object.entries(restarts).map(
    ([name, restartCount]) => [`${uid}/${name}`, { restartCount, backoffMs: 0, backoffUntilMs: 0 }] as const,
  );
  return { ...softState, containers: Object.fromEntries([...others, ...counted]) };
}

/** With an API server the objects are read one by one, for as long as the pod exists. */
export function wantObjects({ context, enqueue }: Args, uid: string, keys: readonly string[]): void {
  if (context.settings.apiServer === undefined || keys.length === 0) return;
  enqueue.sendTo(to('objects'), { type: 'objects.wanted', uid, keys } satisfies ObjectsWanted);
}

export const wantObjectsAgain = podsSetup.enqueueActions((args) => {
  for (const { uid, objectKeys } of Object.values(args.context.records)) wantObjects(args, uid, objectKeys);
});

export const forwardObject = podsSetup.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'object.found') return;
  for (const uid of event.uids) if (context.records[uid]?.alive) sendToPod(enqueue, uid, event);
});

/** Sends a pod its objects if they differ from those that it knows. */
export function sendObjects(
  enqueue: Enqueue,
  { uid, objectKeys, alive }: PodRecord,
  objects: ConfigObjects,
  known: ConfigObjects,
) {
  if (alive && differ(withKeys(known, objectKeys), objects))
    sendToPod(enqueue, uid, { type: 'objects.changed', objects });
}

export const handleObjects = podsSetup.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'config.objects') return;
  for (const record of Object.values(context.records)) {
    sendObjects(enqueue, record, withKeys(event.objects, record.objectKeys), context.objects);
  }
  enqueue.assign({ objects: event.objects });
});
