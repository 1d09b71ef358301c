import { setImmediate as soon } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { StartingCalls } from '../../../src/actors/cri/calls-in-progress.ts';

const PLACES = 2;
/** Longer than any test here. */
const LONG_MS = 60_000;

/** Calls that end on request, in the order in which they began. */
function calls() {
  const under: { readonly name: string; readonly end: () => void }[] = [];
  const begin = (name: string) => () => new Promise<void>((end) => under.push({ name, end }));
  const end = async (name: string) => {
    under
      .splice(
        under.findIndex((each) => each.name === name),
        1,
      )[0]!
      .end();
    await soon();
  };
  return { begin, end, names: () => under.map(({ name }) => name) };
}

it('lets so many begin at once, and the others one by one in their order', async () => {
  const { begin, end, names } = calls();
  const starts = new StartingCalls(PLACES, LONG_MS);
  const all = ['a', 'b', 'c', 'd'].map((name) => starts.queued(begin(name)));
  expect(names()).toEqual(['a', 'b']);
  await end('b');
  expect(names()).toEqual(['a', 'c']);
  await end('a');
  await end('c');
  await end('d');
  await Promise.all(all);
});

it('counts what does not wait', async () => {
  const { begin, end, names } = calls();
  const starts = new StartingCalls(PLACES, LONG_MS);
  const all = ['x', 'y', 'z'].map((name) => starts.counted(begin(name)));
  all.push(starts.queued(begin('a')));
  expect(names()).toEqual(['x', 'y', 'z']);
  await end('x');
  expect(names()).toEqual(['y', 'z']);
  await end('y');
  expect(names()).toEqual(['z', 'a']);
  await end('z');
  await end('a');
  await Promise.all(all);
});

it('gives the place of one that failed to the next', async () => {
  const starts = new StartingCalls(1, LONG_MS);
  const failing = starts.queued(() => Promise.reject(new Error('no')));
  const next = starts.queued(() => Promise.resolve('came'));
  await expect(failing).rejects.toThrow('no');
  expect(await next).toBe('came');
});

it('waits for none that takes long', async () => {
  const { begin, end, names } = calls();
  const starts = new StartingCalls(1, 20);
  const stuck = starts.queued(begin('stuck'));
  const next = starts.queued(begin('next'));
  await expect.poll(names).toEqual(['stuck', 'next']);
  await end('stuck');
  await end('next');
  await Promise.all([stuck, next]);
});
