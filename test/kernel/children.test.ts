/** What supervisors do after the crash of a child. */
import { expect, it } from 'vitest';
import { childIn, reapChild } from '../../src/kernel/xstate.ts';

it('finds the child in the event of its end and of its crash', () => {
  expect(childIn({ type: 'xstate.done.actor.pod-a' })).toBe('pod-a');
  expect(childIn({ type: 'xstate.error.actor.object-Secret:default:x' })).toBe('object-Secret:default:x');
});

it('frees the id at once, and restarts after the pause', () => {
  const calls: unknown[] = [];
  const enqueue = {
    stopChild: (id: string) => void calls.push(['stop', id]),
    raise: (event: object, options: object) => void calls.push(['raise', event, options]),
  };
  reapChild(enqueue, 'log-app', { type: 'log.respawn' }, 1_000);
  expect(calls).toEqual([
    ['stop', 'log-app'],
    ['raise', { type: 'log.respawn' }, { delay: 1_000, id: 'respawn-log-app' }],
  ]);
});
