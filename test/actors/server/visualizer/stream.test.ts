/** A page that does not read is disconnected; one that reads receives everything. */
import { get, type IncomingMessage } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { assign, setup } from '../../../../src/kernel/xstate.ts';
import { watched } from './support.ts';

/** Each message to this actor is a turn of about 16 KiB on the page. */
const talker = setup({
  types: { context: {} as { n: number }, events: {} as { type: 'talk'; words: string[] } },
}).createMachine({
  id: 'talker',
  context: { n: 0 },
  on: { talk: { actions: assign({ n: ({ context }) => context.n + 1 }) } },
});
const WORDS = Array.from({ length: 16 }, () => 'x'.repeat(1_000));
const TURNS = 2_000;

async function connect() {
  const watch = await watched({ machine: talker });
  onTestFinished(() => watch.close());
  const url = new URL('/events', watch.origin);
  url.search = watch.origin.search;
  const page = await new Promise<IncomingMessage>((resolve, reject) => get(url, resolve).on('error', reject));
  page.on('error', () => {});
  const turn = async (): Promise<void> => {
    watch.kernel.dispatch('talker', { type: 'talk', words: WORDS }, 'test');
    await new Promise((resolve) => setTimeout(resolve, 1));
  };
  return { page, turn };
}

it('disconnects a page that does not read, before its buffer grows', async () => {
  const { page, turn } = await connect();
  const gone = { is: false };
  page.socket.once('close', () => (gone.is = true));
  page.pause();
  for (let sent = 0; sent < TURNS; sent++) await turn();
  // The data that waits on the page's side of the connection is read before the end is noticed.
  let bytes = 0;
  page.on('data', (chunk: Buffer) => void (bytes += chunk.length)).resume();
  await expect.poll(() => gone.is).toBe(true);
  expect(bytes).toBeGreaterThan(0);
  expect(bytes).toBeLessThan((TURNS * WORDS.join('').length) / 2);
});

it('keeps a page that reads', async () => {
  const { page, turn } = await connect();
  let bytes = 0;
  page.on('data', (chunk: Buffer) => void (bytes += chunk.length));
  for (let i = 0; i < 300; i++) await turn();
  await expect.poll(() => bytes).toBeGreaterThan(300 * 16_000);
  expect(page.socket.destroyed).toBe(false);
});
