/** The digest of a turn covers what changed, in whichever way it changed. */
import { expect, it } from 'vitest';
import { changedPaths, digestOf, sameDigests } from '../../src/kernel/digest.ts';

const pods = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`pod "${at}"`, { at, text: 'x'.repeat(200) }]));
const before = { context: { pods, list: [1, { two: 2 }], name: 'node', none: undefined }, output: undefined };
const withContext = (change: object) => ({ ...before, context: { ...before.context, ...change } });

const digest = (after: object, state?: string): string => digestOf(before, after, state);

it.each<[string, object]>([
  ['the same', before],
  ['a copy', structuredClone(before)],
  ['another order of members', { ...before, context: Object.fromEntries(Object.entries(before.context).toReversed()) }],
  [
    'a member that is not there, where it said nothing',
    { ...before, context: { pods, list: [1, { two: 2 }], name: 'node' } },
  ],
  ['what JSON does not say', withContext({ more: undefined })],
])('of %s is empty', (_how, after) => {
  expect(digest(after)).toBe('');
});

const CHANGES: readonly [string, object][] = [
  ['a text', withContext({ name: 'other' })],
  ['a member more', withContext({ more: null })],
  ['a member less', { ...before, context: { pods, list: [1, { two: 2 }] } }],
  ['a value deep inside', withContext({ pods: { ...pods, 'pod "39"': { at: 39, text: `${'x'.repeat(199)}y` } } })],
  ['an element', withContext({ list: [1, { two: 3 }] })],
  ['an element more', withContext({ list: [1, { two: 2 }, 3] })],
  ['an element less', withContext({ list: [1] })],
  ['a list for an object', withContext({ list: { 0: 1, 1: { two: 2 } } })],
  ['an output', { ...before, output: { done: true } }],
  ['an error', { ...before, error: { message: 'gone' } }],
  ['no context', { ...before, context: undefined }],
];

it.each(CHANGES)('%s is a digest of its own', (_what, after) => {
  expect(digest(after)).toMatch(/^[\w+/]{6}$/);
  expect(digest(structuredClone(after)), 'however it was made').toBe(digest(after));
  const others = CHANGES.filter(([, other]) => other !== after).map(([, other]) => digest(other));
  expect(others).not.toContain(digest(after));
});

it('a state is part of it', () => {
  expect(digest(before, 'active"up"')).not.toBe('');
  expect(digest(before, 'active"up"')).not.toBe(digest(before, 'active"down"'));
});

it('what begins is compared with nothing', () => {
  expect(digestOf(undefined, { context: { name: 'node' } }, 'active{}')).toHaveLength(6);
});

it('paths of what is another are named', () => {
  const after = withContext({ name: 'other', pods: { ...pods, 'pod "1"': { at: 2, text: 'x' } }, list: [1] });
  expect(changedPaths(before.context, after.context, 20)).toEqual([
    '.context.pods.pod "1".at',
    '.context.pods.pod "1".text',
    '.context.list.1',
    '.context.name',
  ]);
  expect(changedPaths(before.context, after.context, 2)).toHaveLength(2);
});

it('digests of a turn are compared one by one', () => {
  expect(sameDigests('aaaaaabbbbbb', 'aaaaaabbbbbb')).toBe(2);
  expect(sameDigests('aaaaaabbbbbb', 'aaaaaacccccc')).toBe(1);
  expect(sameDigests('aaaaaabbbbbb', 'aaaaaa')).toBe(1);
  expect(sameDigests('', 'aaaaaa')).toBe(0);
});
