/** The digest of a turn is that of the JSON of all that changed, however much of its text was made before. */
import { hash } from 'node:crypto';
import { expect, test } from 'vitest';
import { type AnyActorRef, createActor, createMachine } from 'xstate';
import { addressOf } from '../../src/kernel/address.ts';
import { digest } from '../../src/kernel/digest.ts';

const actor: AnyActorRef = createActor(createMachine({}), { id: 'root' });
const dictionary = Object.fromEntries(
  Array.from({ length: 40 }, (_, at) => [`pod "${at}"`, { at, text: 'x'.repeat(200) }]),
);
const shared = { spec: { containers: [{ name: 'c', command: ['sh', undefined] }] }, padding: 'é"\n'.repeat(100) };

const contexts: readonly unknown[] = [
  undefined,
  null,
  {},
  [1, { two: 2 }],
  { a: undefined, b: null, c: Number.NaN, d: 'text', e: false, f: [undefined, () => 1] },
  { shared, again: shared, dictionary },
  { shared, dictionary: { ...dictionary, one: undefined, more: { text: 'y'.repeat(300) } } },
  { dictionary: { ...dictionary, deep: dictionary } },
  { list: Array.from({ length: 50 }, (_, at) => (at % 2 === 0 ? shared : at)), since: new Date(0), empty: {} },
];

const plain = (snapshot: { status: string; value: unknown; context?: unknown; output?: unknown }): string => {
  const { status, value, context, output } = snapshot;
  const text = `${addressOf(actor)} ${JSON.stringify([status, value, context, output, undefined])}\n`;
  return hash('sha1', text, 'base64').slice(0, 12);
};

test.each([...contexts, ...contexts].map((context, at) => ({ at, context })))('of context $at', ({ context }) => {
  const snapshot = { status: 'active', value: { some: 'state' }, context, output: { done: true } };
  expect(digest(new Map([[actor, snapshot]]))).toBe(plain(snapshot));
});

test('an operation has no context', () => {
  expect(digest(new Map([[actor, { status: 'done', output: 1 }]]))).toBe(
    plain({ status: 'done', value: undefined, output: 1 }),
  );
});
