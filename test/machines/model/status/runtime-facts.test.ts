/** A runtime's statuses of a pod, in the order in which the machines read them. */
import { expect, it } from 'vitest';
import { factsOf, instancesOf, sandboxesOf } from '../../../../src/machines/model/status/runtime-facts.ts';
import { instance, runtime, sandbox } from '../../charts/pods/support.ts';

it('sandboxes are in the order of their making, and one that containerd dates before all times is the oldest', () => {
  const refused = sandbox({ id: 'refused', created_at: '-6795364578871345152' });
  const [first, second] = ['1795250684804078100', '1795250687208485308'].map((created_at, i) =>
    sandbox({ id: `attempt-${i + 1}`, created_at }),
  );
  const listed = runtime([], [first!, second!, refused]);
  expect(sandboxesOf(listed).map(({ id }) => id)).toEqual(['attempt-2', 'attempt-1', 'refused']);
});

it('instances and sandboxes are in the order of their numbers, also when the clock was set back between them', () => {
  const attempts = [2, 1, 0].map((attempt) => ({ attempt, created_at: String(9 - attempt) }));
  const listed = runtime(
    attempts.map(({ attempt, created_at }) =>
      instance({ id: `c${attempt}`, metadata: { name: 'c', attempt }, created_at }),
    ),
    attempts.map(({ attempt, created_at }) =>
      sandbox({ id: `s${attempt}`, metadata: { name: 'p', uid: 'u', namespace: 'n', attempt }, created_at }),
    ),
  );
  expect(instancesOf(listed, 'c').map(({ id }) => id)).toEqual(['c2', 'c1', 'c0']);
  expect(sandboxesOf(listed).map(({ id }) => id)).toEqual(['s2', 's1', 's0']);
});

it.each([
  ['failed to create containerd task: failed to create shim task: context canceled: unknown', 'StartError', '0', true],
  ['failed to create containerd task: failed to create shim task: exec: "x": not found', 'StartError', '0', false],
  ['context canceled', 'Error', '0', false],
  ['context canceled', 'StartError', '1795256253301930220', false],
])('a start with %j (%s, started at %s) was cut off: %s', (message, reason, started_at, expected) => {
  const ended = instance({ state: 'CONTAINER_EXITED', exit_code: 128, message, reason, started_at });
  expect(factsOf(runtime([ended]), 'c')?.cutOff).toBe(expected);
});
