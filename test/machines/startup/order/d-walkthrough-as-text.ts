/**
 * The order in seed D: the text of seed A without its markup. It has the same promises, in a list of its own, so that a
 * change of the list for A is visible here, too.
 */
import { walkthrough, walkthroughNotHere } from './a-walkthrough.ts';
import type { OrderDocument } from './document.ts';

export const walkthroughAsText: OrderDocument = {
  key: 'D',
  title: 'the walk-through of v1.23 as plain text',
  promises: walkthrough.promises,
  notHere: walkthroughNotHere,
};
