/** What the pod workers do about the objects that pods use: who hears of which. Part of `pods.ts`. */
import { to } from '../../../kernel/xstate.ts';
import { type ConfigObjects, differ, withKeys } from '../../model/objects/config-objects.ts';
import type { ObjectsWanted } from '../../model/objects/messages.ts';
import { type Args, type Enqueue, type PodRecord, podsSetup as s, sendToPod } from './pods-setup.ts';

/** With an API server the objects come one by one, and for as long as the pod is there. */
export function wantObjects({ context, enqueue }: Args, uid: string, keys: readonly string[]): void {
  if (context.settings.apiServer === undefined || keys.length === 0) return;
  enqueue.sendTo(to('objects'), { type: 'objects.wanted', uid, keys } satisfies ObjectsWanted);
}

export const wantObjectsAgain = s.enqueueActions((args) => {
  for (const { uid, objectKeys } of Object.values(args.context.records)) wantObjects(args, uid, objectKeys);
});

export const forwardObject = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'object.found') return;
  for (const uid of event.uids) if (context.records[uid]?.alive) sendToPod(enqueue, uid, event);
});

/** A pod hears of its objects only what it does not know. */
export function sendObjects(
  enqueue: Enqueue,
  { uid, objectKeys, alive }: PodRecord,
  objects: ConfigObjects,
  known: ConfigObjects,
) {
  if (alive && differ(withKeys(known, objectKeys), objects))
    sendToPod(enqueue, uid, { type: 'objects.changed', objects });
}

export const takeObjects = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'config.objects') return;
  for (const record of Object.values(context.records)) {
    sendObjects(enqueue, record, withKeys(event.objects, record.objectKeys), context.objects);
  }
  enqueue.assign({ objects: event.objects });
});
