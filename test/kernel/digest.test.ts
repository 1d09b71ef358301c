/**
 * The digest of a turn is that of the JSON of all that changed, long members replaced by their own digests, however much
 * of its text was made before.
 */
import { hash } from 'node:crypto';
import { expect, it } from 'vitest';
import { type AnyActorRef, createActor, createMachine } from 'xstate';
import { addressOf } from '../../src/kernel/address.ts';
import { digest } from '../../src/kernel/digest.ts';

const actor: AnyActorRef = createActor(createMachine({}), { id: 'root' });
const dictionary = Object.fromEntries(
  Array.from({ length: 40 }, (_, at) => [`pod "${at}"`, { at, text: 'x'.repeat(200) }]),
);
const shared = { spec: { containers: [{ name: 'c', command: ['sh', undefined] }] }, padding: 'é"\n'.repeat(100) };

const short: readonly unknown[] = [
  undefined,
  null,
  {},
  [1, { two: 2 }],
  { a: undefined, b: null, c: Number.NaN, d: 'text', e: false, f: [undefined, () => 1] },
  { shared, since: new Date(0), empty: {} },
];
const long: readonly unknown[] = [
  { shared, again: shared, dictionary },
  { shared, dictionary: { ...dictionary, one: undefined, more: { text: 'y'.repeat(300) } } },
  { dictionary: { ...dictionary, deep: dictionary } },
  { list: Array.from({ length: 50 }, (_, at) => (at % 2 === 0 ? shared : at)) },
];

const snapshotOf = (context: unknown) => ({
  status: 'active',
  value: { some: 'state' },
  context,
  output: { done: true },
});
const digestOf = (context: unknown): string => digest(new Map([[actor, snapshotOf(context)]]));
const plain = (snapshot: { status: string; value?: unknown; context?: unknown; output?: unknown }): string => {
  const { status, value, context, output } = snapshot;
  const text = `${addressOf(actor)} ${JSON.stringify([status, value, context, output, undefined])}\n`;
  return hash('sha1', text, 'base64').slice(0, 12);
};

it.each([...short, ...short].map((context, at) => ({ at, context })))('of short context $at', ({ context }) => {
  expect(digestOf(context)).toBe(plain(snapshotOf(context)));
});

it.each(long.map((context, at) => ({ at, context })))('of long context $at, seen before or not', ({ context }) => {
  const known = digestOf(context);
  expect(digestOf(context)).toBe(known);
  expect(digestOf({ ...(context as object) })).toBe(known);
  expect(digestOf(structuredClone(JSON.parse(JSON.stringify(context))))).toBe(known);
});

it('a long member stands as its digest', () => {
  const text = JSON.stringify(dictionary);
  const member = `#${hash('sha1', text, 'base64').slice(0, 12)}`;
  const whole = `${addressOf(actor)} ["active",{"some":"state"},{"dictionary":${member}},{"done":true},null]\n`;
  expect(text.length).toBeGreaterThan(1_024);
  expect(digestOf({ dictionary })).toBe(hash('sha1', whole, 'base64').slice(0, 12));
});

it('a change anywhere in a long member is another digest', () => {
  const changed = { ...dictionary, 'pod "39"': { at: 39, text: `${'x'.repeat(199)}y` } };
  expect(digestOf({ dictionary: changed })).not.toBe(digestOf({ dictionary }));
});

it('an operation has no context', () => {
  expect(digest(new Map([[actor, { status: 'done', output: 1 }]]))).toBe(
    plain({ status: 'done', value: undefined, output: 1 }),
  );
});
