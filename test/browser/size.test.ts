/**
 * The compressed size of what the page loads for each use: at most 250 KB for a running node, and for everything in the
 * records of a journal. The machines, which are larger, are loaded later.
 */
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KernelFeed } from '../../src/actors/server/visualizer/feed.ts';
import { JournalFiles } from '../../src/actors/server/visualizer/journal-files.ts';
import { Visualizer, type VisualizerOptions } from '../../src/actors/server/visualizer/visualizer.ts';
import { ARGV, BootNode } from '../machines/startup/boot-node.ts';
import { launch, newPage, noBrowser, PATIENCE_MS } from '../support/browser.ts';

const KB = 1_000;
/** The first screen of a running node: markup, styles, page, worker, reports on the start. */
const LIVE_FIRST_MAX = 80 * KB;
/** With charts and the engine of regular expressions: everything that the page of a running node loads. */
const LIVE_MAX = 150 * KB;
/** The first screen of an opened journal: the above with the reader of journals. */
const OPENED_FIRST_MAX = 105 * KB;
/**
 * With charts and the engine of regular expressions: everything that the page of a journal loads, except the machines.
 */
const OPENED_MAX = 170 * KB;
/** The machines and the kernel. */
const MACHINES_MAX = 320 * KB;

let browser: Browser;

beforeAll(async () => {
  if (!noBrowser) browser = await launch();
}, 2 * PATIENCE_MS);

afterAll(() => browser?.close());

/** A page of a server, and the compressed bytes that it has loaded so far, without the data of the node. */
async function served(options: Omit<VisualizerOptions, 'port' | 'token'>) {
  const visualizer = new Visualizer({ port: 0, token: 'token', ...options });
  const url = await visualizer.listen();
  const { page } = await newPage(browser, url.origin);
  const parts = new Map<string, Promise<number>>();
  page.context().on('response', (response) => {
    // The path without the folder of the page.
    const pathname = new URL(response.url()).pathname.replace(/^\/[\da-f]{32}(?=\/)/, '');
    if (/^\/(api|events|journal)/.test(pathname)) return;
    const size = response.body().then((body) => gzipSync(body, { level: 9 }).length);
    // The last response may be cut off by the end of the page.
    size.catch(() => undefined);
    parts.set(pathname, size);
  });
  const loaded = async () => (await Promise.all(parts.values())).reduce((sum, bytes) => sum + bytes, 0);
  const close = async () => {
    await page.context().close();
    await visualizer.close();
  };
  return { page, url, parts, loaded, close };
}

describe.skipIf(noBrowser)('what the page loads', () => {
  it('of a running node is small', async () => {
    const feed = new KernelFeed();
    const node = new BootNode({ argv: ARGV, onTurn: feed.onTurn });
    node.boot().run(5_000);
    const { page, url, parts, loaded, close } = await served({ feed });
    await page.goto(url.href);
    await page.locator('#chain-body .links').waitFor();
    expect([...parts.keys()]).toContain('/assets/reports.js');
    expect(await loaded()).toBeLessThan(LIVE_FIRST_MAX);
    await page.keyboard.press('2');
    await page.locator('#sheet svg').waitFor();
    await page.keyboard.press('s');
    await page.keyboard.type('/cri.+/');
    await expect.poll(() => [...parts.keys()], { timeout: PATIENCE_MS }).toContain('/assets/expressions.js');
    expect(await loaded()).toBeLessThan(LIVE_MAX);
    expect([...parts.keys()]).not.toContain('/assets/execution.js');
    await close();
  });

  it('of a journal is small before the machines come, and shows all that records tell', async () => {
    const journal = new JournalFiles(join(import.meta.dirname, '../golden/journals/v4/node'));
    const { page, url, parts, loaded, close } = await served({ journal });
    let letIn = (): void => {};
    const isLetIn = new Promise<void>((resolve) => (letIn = resolve));
    await page.context().route('**/execution.js', async (route) => {
      await isLetIn;
      await route.continue();
    });
    await page.goto(url.href);
    await page.locator('#chain-body .links').waitFor();
    await page.getByText('journal', { exact: true }).waitFor();
    const text = (selector: string) => page.locator(selector).first().textContent();
    expect(await text('#summary')).toMatch(/^Ready after 52 ms/);
    expect(await page.locator('#phase-list li[data-entered]').count()).toBeGreaterThan(10);
    expect(await page.locator('#blame-body li').count()).toBeGreaterThan(5);
    expect(await loaded()).toBeLessThan(OPENED_FIRST_MAX);
    await page.keyboard.press('2');
    await page.locator('#sheet .state.active').first().waitFor();
    await expect.poll(() => text('#actor .json'), { timeout: PATIENCE_MS }).toBe('… (the machines do not run yet)');
    await page.keyboard.press('3');
    await expect.poll(() => text('#pod-story .answer'), { timeout: PATIENCE_MS }).toMatch(/^Running and ready/);
    await page.keyboard.press('4');
    await page.keyboard.press('s');
    await page.keyboard.type('/cri.+/');
    await expect.poll(() => text('#events-note'), { timeout: PATIENCE_MS }).toMatch(/^\d\d of \d+ records$/);
    expect(await loaded()).toBeLessThan(OPENED_MAX);
    expect([...parts.keys()]).not.toContain('/assets/execution.js');
    await page.keyboard.press('Enter');
    await page.keyboard.press('2');
    const before = await loaded();
    letIn();
    await expect.poll(() => text('#actor .json'), { timeout: PATIENCE_MS }).toMatch(/^\{\n/);
    expect((await loaded()) - before).toBeLessThan(MACHINES_MAX);
    await close();
  });

  it('of a journal is enough where the machines cannot be loaded', async () => {
    const journal = new JournalFiles(join(import.meta.dirname, '../golden/journals/v4/node'));
    const { page, url, close } = await served({ journal });
    await page.context().route('**/execution.js', (route) => route.abort());
    await page.goto(url.href);
    const text = (selector: string) => page.locator(selector).first().textContent();
    await expect.poll(() => text('#note'), { timeout: PATIENCE_MS }).toMatch(/^This build cannot run it again: /);
    expect(await text('#summary')).toMatch(/^Ready after 52 ms/);
    await page.keyboard.press('2');
    await expect.poll(() => text('#actor .json'), { timeout: PATIENCE_MS }).toMatch(/^Not known: /);
    await close();
  });
});
