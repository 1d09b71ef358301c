/** The start of a pod takes no more decisions than before: a change that adds one is explained here. */
import { expect, it } from 'vitest';
import { type Decisions, decisionsOf } from '../../../support/decisions.ts';

const ONE_POD: Decisions = {
  inputs: 9,
  records: 67,
  messages: 23,
  states: 14,
  requests: 7,
  criCalls: 4,
  criReads: 1,
  journalBytes: 16_500,
  macrosteps: 46,
  microsteps: 39,
  digested: 42,
  digestedUnchanged: 1,
};
/** Work that pods share (a portion of ten manifests, the image, the soft state) is done once for all of them. */
const EACH_OF_THIRTY: Decisions = {
  inputs: 5.2,
  records: 49,
  messages: 19.3,
  states: 9.2,
  requests: 5.2,
  criCalls: 3.1,
  criReads: 0.1,
  journalBytes: 9_000,
  macrosteps: 34.7,
  microsteps: 29.6,
  digested: 28.9,
  digestedUnchanged: 1.1,
};

it.each([
  [1, ONE_POD],
  [30, EACH_OF_THIRTY],
])('of %i pods that begin at once each takes at most', (pods, most) => {
  const { each } = decisionsOf(pods);
  const above = Object.entries(each).filter(([name, count]) => !(count <= most[name as keyof Decisions]));
  expect(above).toEqual([]);
});

it('counts the three writes of a start, and each pod once', () => {
  const { each, kinds } = decisionsOf(2);
  expect(each.criCalls - each.criReads).toBe(3);
  expect(kinds.get('effect cri.startContainer')?.count).toBe(2);
});
