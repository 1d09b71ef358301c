/**
 * The order in seed D: the text of seed A without its markup. It promises the same, and it is held on its own, so that
 * a change of what A is taken to promise shows here, too.
 */
import { walkthrough, walkthroughNotHere } from './a-walkthrough.ts';
import type { OrderDocument } from './document.ts';

export const walkthroughAsText: OrderDocument = {
  key: 'D',
  title: 'the walk-through of v1.23 as plain text',
  promises: walkthrough.promises,
  notHere: walkthroughNotHere,
};
