/** A page that stops reading for a while: the daemon continues, and the page fetches or counts the missed records. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { assign, setup } from '../../src/kernel/xstate.ts';
import { watched } from '../actors/server/visualizer/support.ts';
import { launch, newPage, noBrowser, PATIENCE_MS } from '../support/browser.ts';
import { stopWorker } from '../support/page-worker.ts';

/** Each message to this actor is a turn of about 16 KiB on the page. */
const talker = setup({
  types: { context: {} as { n: number }, events: {} as { type: 'talk'; words: string[] } },
}).createMachine({
  id: 'talker',
  context: { n: 0 },
  on: { talk: { actions: assign({ n: ({ context }) => context.n + 1 }) } },
});
const WORDS = Array.from({ length: 16 }, () => 'x'.repeat(1_000));

let browser: Browser;
let page: Page;
let node: Awaited<ReturnType<typeof watched>>;

beforeAll(async () => {
  if (noBrowser) return;
  node = await watched({ machine: talker });
  browser = await launch();
  ({ page } = await newPage(browser, node.origin.origin));
  const url = new URL(node.origin);
  url.hash = 'view=records';
  await page.goto(url.href);
  await page.getByText('live', { exact: true }).waitFor();
}, 2 * PATIENCE_MS);

afterAll(async () => {
  await browser?.close();
  await node?.close();
});

async function talk(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    node.kernel.dispatch('talker', { type: 'talk', words: WORDS }, 'test');
    if (turn % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** The number of the page's last record, of its records, and of those that it reports as missing. */
async function shown() {
  const last = Number(await page.locator('#scrub').getAttribute('max'));
  const note = (await page.locator('#events-note').textContent()) ?? '';
  const [, records = '', , missing = '0'] = /of (\d+) records(, (\d+) missing)?$/.exec(note) ?? [];
  return { last, records: Number(records), missing: Number(missing) };
}

describe.skipIf(noBrowser)('a page that stops reading', () => {
  it('fetches all that the daemon still has, and misses nothing', async () => {
    const goOn = await stopWorker(page);
    await talk(600);
    await goOn();
    const last = node.kernel.n - 1;
    await expect.poll(shown, { timeout: PATIENCE_MS }).toEqual({ last, records: last + 1, missing: 0 });
  });

  it('counts what the daemon no longer has, while the daemon goes on', async () => {
    const goOn = await stopWorker(page);
    const before = node.kernel.n;
    await talk(6_000);
    await goOn();
    const last = node.kernel.n - 1;
    expect(last - before).toBeGreaterThan(6_000);
    await expect.poll(async () => (await shown()).last, { timeout: PATIENCE_MS }).toBe(last);
    const { records, missing } = await shown();
    expect(missing).toBeGreaterThan(0);
    expect(records + missing).toBe(last + 1);
    await talk(10);
    await expect.poll(async () => (await shown()).last, { timeout: PATIENCE_MS }).toBe(node.kernel.n - 1);
  });
});
