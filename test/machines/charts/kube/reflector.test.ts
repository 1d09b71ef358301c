/** Proves F1 to F5 of the reflector. */
import { expect, it } from 'vitest';
import { type ReflectorInput, reflectorMachine } from '../../../../src/machines/charts/kube/reflector.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';

const input = {
  target: { client: 'kube', apiVersion: 'v1', resource: 'pods' },
  fieldSelector: 'spec.nodeName=node1',
} as const;
const pod = (name: string, resourceVersion: string) => ({ metadata: { name, resourceVersion } });
const page = (items: readonly unknown[], resourceVersion: string, more = '') =>
  ok({ items, resourceVersion, continue: more });

type Asked = {
  readonly limit?: number;
  readonly resourceVersion?: string;
  readonly continue?: string;
  readonly timeoutSeconds?: number;
};

/** A world with lists from `lists`, whose watches stay open; keeps the requests. */
function world(
  lists: readonly (() => ReturnType<typeof ok>)[],
  watch: (() => ReturnType<typeof ok>) | null = null,
  more: Partial<ReflectorInput> = {},
) {
  const listed: Asked[] = [];
  const watched: Asked[] = [];
  const running = runUnder(
    reflectorMachine,
    { ...input, ...more },
    {
      'kube.list': (asked: Asked) => {
        listed.push(asked);
        return (lists[listed.length - 1] ?? lists.at(-1)!)();
      },
      'kube.watch': (asked: Asked) => {
        watched.push(asked);
        return watch ? watch() : 'stream';
      },
    },
  );
  running.time.advanceTo(running.time.now());
  return { ...running, listed, watched };
}

const changed = (change: string, object: unknown) => ({ type: 'watch.changed', change, object });

it('tells a list when all its pages are there, and watches from its version', () => {
  const run = world([() => page([pod('a', '1')], '7', 'next'), () => page([pod('b', '2')], '7')]);
  expect(run.listed).toMatchObject([{ resourceVersion: '0' }, { continue: 'next' }]);
  expect(run.sent()).toEqual([{ to: 'parent', type: 'reflector.listed', items: [pod('a', '1'), pod('b', '2')] }]);
  expect(run.watched).toMatchObject([{ resourceVersion: '7' }]);
  expect(run.watched[0]!.timeoutSeconds).toBeGreaterThanOrEqual(300);
  expect(run.divergence()).toBeNull();
});

it.each(['the same', 'another'])('a list whose every page has %s next one ends, and is tried again later', (next) => {
  let pages = 0;
  let isEndless = true;
  const run = world([() => page([pod('a', '1')], '7', isEndless ? `${next}${next === 'another' ? ++pages : ''}` : '')]);
  expect(run.listed).toHaveLength(200);
  expect(run.sent()).toEqual([]);
  isEndless = false;
  run.time.advanceTo(run.time.now() + 1_600);
  expect(run.listed.at(-1)).toMatchObject({ resourceVersion: '7' });
  expect(run.sent()).toEqual([{ to: 'parent', type: 'reflector.listed', items: [pod('a', '1')] }]);
  expect(run.divergence()).toBeNull();
});

it('tells each change, and goes on after it when the watch fails', () => {
  const run = world([() => page([], '7')]);
  run.emit('kube.watch', changed('ADDED', pod('a', '9')));
  expect(run.sent().at(-1)).toEqual({
    to: 'parent',
    type: 'reflector.changed',
    change: 'ADDED',
    object: pod('a', '9'),
  });
});

it('watches on after a failure from the newest version it told, without a new list', () => {
  let first = true;
  const run = world([() => page([], '7')], () => {
    if (!first) return 'stream' as never;
    first = false;
    return fail('unexpected EOF');
  });
  run.time.advanceTo(run.time.now() + 2_000);
  expect(run.listed).toHaveLength(1);
  expect(run.watched.map(({ resourceVersion }) => resourceVersion)).toEqual(['7', '7']);
  expect(run.logged()).toEqual(['Failed to watch']);
});

it('goes on where a watch ended that the server closed in time', () => {
  const run = world([() => page([], '7')], () => ok({ reason: 'closed', resourceVersion: '12' }));
  run.time.advanceTo(run.time.now() + 1_600);
  expect(run.watched.map(({ resourceVersion }) => resourceVersion).slice(0, 2)).toEqual(['7', '12']);
  // Each watch was closed at once: the reflector must pause nevertheless.
  expect(run.watched.length).toBeLessThan(4);
});

it('lists anew, and asks for the newest, when the version is forgotten', () => {
  let first = true;
  const run = world([() => page([pod('a', '1')], '7'), () => page([], '90')], () => {
    if (!first) return 'stream' as never;
    first = false;
    return ok({ reason: 'expired', resourceVersion: '7' });
  });
  run.time.advanceTo(run.time.now() + 100);
  expect(run.listed.map(({ resourceVersion }) => resourceVersion)).toEqual(['0', '']);
  expect(run.sent().at(-1)).toEqual({ to: 'parent', type: 'reflector.listed', items: [] });
  expect(run.divergence()).toBeNull();
});

it('a list whose continuation is forgotten begins anew without what it had', () => {
  const run = world([
    () => page([pod('a', '1')], '7', 'next'),
    () => fail('The provided continue parameter is too old', 'Expired'),
    () => page([pod('b', '2')], '8'),
  ]);
  run.time.advanceTo(run.time.now() + 2_000);
  expect(run.listed.map((asked) => asked.continue ?? asked.resourceVersion)).toEqual(['0', 'next', '']);
  expect(run.sent()).toEqual([{ to: 'parent', type: 'reflector.listed', items: [pod('b', '2')] }]);
});

it('waits longer and longer while the server is away, and is there when it is back', () => {
  let isAway = true;
  const run = world([() => (isAway ? fail('connect ECONNREFUSED', 'ECONNREFUSED') : page([], '7'))]);
  run.time.advanceTo(run.time.now() + 600_000);
  const tries = run.listed.length;
  // With the longest pauses, at most one attempt in 30 s and at least one in 60 s.
  expect(tries).toBeGreaterThan(12);
  expect(tries).toBeLessThan(30);
  isAway = false;
  run.time.advanceTo(run.time.now() + 60_000);
  expect(run.sent()).toEqual([{ to: 'parent', type: 'reflector.listed', items: [] }]);
  expect(run.divergence()).toBeNull();
});

it('waits as long as a busy server asks', () => {
  const busy = {
    error: { name: 'Error', message: 'busy', retriable: true, code: 'TooManyRequests', retryAfterMs: 60_000 },
  };
  const answers = [() => busy as never, () => page([], '7')];
  const run = world(answers);
  run.time.advanceTo(run.time.now() + 59_000);
  expect(run.listed).toHaveLength(1);
  run.time.advanceTo(run.time.now() + 62_000);
  expect(run.listed).toHaveLength(2);
});

it.each([
  { more: { splitsLongLists: true as const }, asked: { limit: 25, resourceVersion: '' } },
  { more: {}, asked: { limit: 500, resourceVersion: '0' } },
])('asks again with $asked for a list that is too long for an answer, given $more', ({ more, asked }) => {
  const tooLong = () => fail('the answer has more than 268435456 bytes', 'TooLarge');
  const run = world([tooLong, () => page([pod('a', '1')], '7', 'next'), () => page([pod('b', '2')], '7')], null, more);
  run.time.advanceTo(run.time.now() + 1_600);
  expect(run.listed).toMatchObject([{ limit: 500, resourceVersion: '0' }, asked, { continue: 'next' }]);
  expect(run.listed.at(-1)?.limit).toBe(asked.limit);
  expect(run.sent()).toMatchObject([{ type: 'reflector.listed', items: [pod('a', '1'), pod('b', '2')] }]);
  expect(run.divergence()).toBeNull();
});
