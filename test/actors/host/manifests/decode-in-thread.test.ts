/** Large documents are decoded like small ones, in a thread, so that decisions continue meanwhile. */
import { expect, it } from 'vitest';
import { decodeInThread } from '../../../../src/actors/host/manifests/decode-in-thread.ts';
import { DocumentError, decodeDocument, MAX_DOCUMENT_BYTES } from '../../../../src/actors/host/manifests/document.ts';

const list = (entries: number): Buffer => Buffer.from(Array.from({ length: entries }, (_, i) => `- v${i}`).join('\n'));
const written = Buffer.from(JSON.stringify({ items: Array.from({ length: 50_000 }, (_, i) => `v${i}`) }));

async function outcomeOf(decode: () => unknown): Promise<unknown> {
  try {
    return { value: await decode() };
  } catch (error) {
    // A thread has another stack, so the message ends at another column.
    const message = (error as Error).message.replace(/ at line .*/, '');
    return { refused: error instanceof DocumentError, message };
  }
}

it.each<[string, Buffer]>([
  ['a small list', list(10)],
  ['a large list', list(10_000)],
  ['what a program wrote', written],
  ['what a program wrote, with a key twice', Buffer.from(`{"items":1,${written.toString().slice(1)}`)],
  ['lists without an end', Buffer.from('['.repeat(20_000))],
  ['a large document that is no UTF-8', Buffer.alloc(10_000, 0xff)],
  ['two large documents', Buffer.concat([list(2_000), Buffer.from('\n---\n'), list(2_000)])],
  ['more than is read', Buffer.alloc(MAX_DOCUMENT_BYTES + 1, 'a')],
])('%s comes out the same', async (_what, bytes) => {
  expect(await outcomeOf(() => decodeInThread(bytes))).toEqual(await outcomeOf(() => decodeDocument(bytes)));
});

it('decisions go on while a hostile document is decoded', async () => {
  let turns = 0;
  let longestMs = 0;
  let before = performance.now();
  const counting = setInterval(() => {
    turns++;
    longestMs = Math.max(longestMs, performance.now() - before);
    before = performance.now();
  }, 1);
  const beganMs = performance.now();
  await expect(decodeInThread(Buffer.from('['.repeat(300_000)))).rejects.toThrow('nested deeper than 100 levels');
  const tookMs = performance.now() - beganMs;
  clearInterval(counting);
  expect(turns).toBeGreaterThan(10);
  expect(longestMs / tookMs).toBeLessThan(0.5);
});
