/** What a runtime says of a pod, in the order in which the machines read it. */
import { expect, it } from 'vitest';
import { sandboxesOf } from '../../../src/machines/pods/runtime-facts.ts';
import { runtime, sandbox } from './support.ts';

it('sandboxes are in the order of their making, and one that containerd dates before all times is the oldest', () => {
  const refused = sandbox({ id: 'refused', created_at: '-6795364578871345152' });
  const [first, second] = ['1795250684804078100', '1795250687208485308'].map((created_at, i) =>
    sandbox({ id: `attempt-${i + 1}`, created_at }),
  );
  const listed = runtime([], [first!, second!, refused]);
  expect(sandboxesOf(listed).map(({ id }) => id)).toEqual(['attempt-2', 'attempt-1', 'refused']);
});
