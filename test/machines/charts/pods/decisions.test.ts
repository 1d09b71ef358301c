/** The start of a pod takes no more decisions than it did: what adds one says here for what. */
import { expect, it } from 'vitest';
import { type Decisions, decisionsOf } from '../../../support/decisions.ts';

const ONE_POD: Decisions = {
  inputs: 14,
  records: 97,
  messages: 38,
  states: 17,
  requests: 9,
  criCalls: 6,
  criReads: 3,
  journalBytes: 23_000,
  macrosteps: 70,
  microsteps: 62,
  digested: 63,
  digestedUnchanged: 11,
};
/** What pods share (the list of manifests, the image, the soft state) is done once for all of them. */
const EACH_OF_THIRTY: Decisions = {
  inputs: 10.2,
  records: 78,
  messages: 33.2,
  states: 12.2,
  requests: 7.1,
  criCalls: 5.1,
  criReads: 2.1,
  journalBytes: 14_000,
  macrosteps: 57.5,
  microsteps: 51.4,
  digested: 48.5,
  digestedUnchanged: 10.1,
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
