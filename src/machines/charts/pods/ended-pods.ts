/** What follows the end or the crash of a pod's actor. Part of `pods.ts`. */
import { errorOf, line, outputOf, to } from '../../../kernel/xstate.ts';
import type { PodRef } from '../../model/api/pod.ts';
import type { ObjectsReleased } from '../../model/objects/messages.ts';
import type { MirrorMessage } from '../../model/pods/api-messages.ts';
import { pauseMs, RESPAWN_BACK_OFF } from '../../model/values/back-off.ts';
import { childIn, reapChild } from '../children.ts';
import { released, start } from './pod-start.ts';
import { type Args, type Enqueue, idOf, type Restarts, podsSetup as s, sendToPod, withRestarts } from './pods-setup.ts';

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
    records: context.relisted ? released(enqueue, rest) : rest,
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
  /** `softState` has the soft state that the pod recorded since the agent started. */
  enqueue.sendTo(to('softState'), { type: 'softState.wanted' });
  reapChild(enqueue, idOf(uid), { type: 'pod.respawn', uid }, delay);
});

/** A wanted pod is requested again from its source; for an ending one its name is enough. */
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
  const added = start(args, { uid, name, namespace }, record, {});
  if (record.kill) sendToPod(enqueue, uid, record.kill);
  enqueue.assign({ records: { ...context.records, [uid]: { ...added, desired, again } } });
});
