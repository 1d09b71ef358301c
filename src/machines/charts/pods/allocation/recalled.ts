/**
 * Pods that an agent before this one took: each is checked once more when an agent begins. It stays whatever room
 * there is, and ends only where the Node has not the labels any more that it asks for, as upstream has it. Part of
 * `allocation.ts`.
 */
import { to } from '../../../../kernel/xstate.ts';
import { judge } from '../../../model/allocation/predicates.ts';
import type { PodKillWanted } from '../../../model/pods/messages.ts';
import { podEvents, podMessages } from '../../../model/reasons/reasons.ts';
import { recordEvent, viewOf, type Wish, type Work, without } from './allocation-setup.ts';

export function judgeRecalled(w: Work, wish: Wish): void {
  const { context, enqueue } = w.args;
  const { request } = wish;
  const { uid } = request;
  if (!w.books.recalled.includes(uid)) return;
  const isEarly = !context.isNodeKnown && !request.rules.isStatic;
  w.books.unjudged = isEarly ? { ...w.books.unjudged, [uid]: wish } : without(w.books.unjudged, uid);
  if (isEarly) return;
  w.books.recalled = w.books.recalled.filter((each) => each !== uid);
  const { mismatch } = judge(request, viewOf(context), []);
  if (mismatch?.reason !== 'NodeAffinity') return;
  const { reason, message } = mismatch;
  recordEvent(w, request, podEvents.rejected(reason, message));
  const verdict = { reason, message: podMessages.rejected(message), said: 'always' } as const;
  enqueue.sendTo(to('pods'), { type: 'pods.kill', uid, graceSeconds: null, verdict } satisfies PodKillWanted);
}
