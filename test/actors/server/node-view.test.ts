/** How far a pod has ended, as clients of the node see it. */
import { expect, it } from 'vitest';
import { KernelView } from '../../../src/actors/server/node-view.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';

const KILL = { remove: false };

/** The end of a pod whose machine has this context. */
function endingOf(context: object) {
  const address = 'kubelet/pods/pod-u';
  const pod = { uid: 'u', namespace: 'n', name: 'a', pod: null, kill: null, stage: 'sync', rejection: null };
  const snapshotOf = (at: string) =>
    at === address ? { status: 'active', context: { ...pod, claims: null, ...context } } : undefined;
  const view = new KernelView();
  view.onTurn([], { addresses: [address], snapshotOf } as unknown as Kernel);
  return view.pods()[0]?.ending;
}

it('a pod that runs is not ending', () => {
  expect(endingOf({})).toBeUndefined();
});

it.each([
  ['is being ended', { kill: KILL }, { isOrphan: false, isStopped: false, isRejected: false }],
  ['is not wanted any more', { kill: { remove: true } }, { isOrphan: true, isStopped: false, isRejected: false }],
  ['ended before this start of the agent', { stage: 'terminated' }, { isStopped: true, isRejected: false }],
  ['was rejected', { stage: 'terminated', rejection: {} }, { isStopped: true, isRejected: true }],
  ['was rejected and is being deleted', { stage: 'terminated', rejection: {}, kill: KILL }, { isRejected: false }],
])('a pod that %s', (_how, context, ending) => {
  expect(endingOf(context)).toMatchObject(ending);
});
