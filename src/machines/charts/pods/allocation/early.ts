/**
 * Who cannot be judged yet: what an earlier agent, or another kubelet, gave to pods counts until it is known which of
 * these pods there are, but no other pod is refused for it. Part of `allocation.ts`.
 */
import type { Rejection } from '../../../model/allocation/predicates.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { type AllocationRequest, keeping, type Work, without } from './allocation-setup.ts';

/** It is judged again when more is known. */
export function postpone(w: Work, wanted: AllocationRequest): void {
  w.books.unjudged = { ...w.books.unjudged, [wanted.request.uid]: wanted };
}

/** What an earlier agent gave to pods that have not asked yet may be of pods that are gone, or that end now. */
export const mayLeave = ({ args: { context }, books }: Work, uid: string): boolean =>
  hasBehavior(context.settings, 'resourcesAsKubelet') &&
  [...books.recalled, ...Object.keys(books.handedOver)].some((other) => other !== uid);

const OF_OTHERS = ['NodePorts', 'UnexpectedAdmissionError', 'TopologyAffinityError', 'SMTAlignmentError'];
export const isShortEarly = (w: Work, uid: string, rejection: Rejection | null): boolean =>
  rejection !== null &&
  (OF_OTHERS.includes(rejection.reason) || rejection.reason.startsWith('OutOf')) &&
  mayLeave(w, uid);

/** It is neither asked for nor expected any more. */
export function forgetRecalled(w: Work, uid: string): void {
  w.books.recalled = w.books.recalled.filter((each) => each !== uid);
  w.books.handedOver = without(w.books.handedOver, uid);
}

/** What is remembered of pods that are not on this node any more holds nothing. */
export const forgetOthers = keeping((w) => {
  const { event } = w.args;
  if (event.type !== 'pods.known') return;
  const known = new Set(event.uids);
  const { grants, handedOver, over, rejections } = w.books;
  const remembered = [grants, handedOver, over, rejections].flatMap((table) => Object.keys(table));
  for (const uid of remembered.filter((each) => !known.has(each))) {
    w.books.grants = without(w.books.grants, uid);
    forgetRecalled(w, uid);
    w.books.over = without(w.books.over, uid);
    w.books.rejections = without(w.books.rejections, uid);
  }
});
