/**
 * Every view at three widths, light and dark: nothing is wider than the window or lies over another text. The pictures are
 * kept in a folder for a person to look at: `STATELET_PICTURES` names it, else `.cache/pictures`.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { KernelFeed } from '../../src/actors/server/visualizer/feed.ts';
import { JournalFiles } from '../../src/actors/server/visualizer/journal-files.ts';
import { reportHtml } from '../../src/actors/server/visualizer/report.ts';
import { Visualizer, type VisualizerOptions } from '../../src/actors/server/visualizer/visualizer.ts';
import { ARGV, BootNode } from '../machines/startup/boot-node.ts';
import { launch, newPage, noBrowser, PATIENCE_MS } from '../support/browser.ts';
import { layoutFaults } from '../support/page-layout.ts';
import { startsJournal } from '../support/starts-journal.ts';

const WIDTHS_PX = [360, 900, 1440];
const HEIGHT_PX = 900;
const PICTURES = process.env['STATELET_PICTURES'] ?? join(import.meta.dirname, '../../.cache/pictures');
const GOLDEN = join(import.meta.dirname, '../golden/journals/v4');

const folder = mkdtempSync(join(tmpdir(), 'statelet-pictures-'));
const journal = join(folder, 'journal');
let browser: Browser;
let closing: (() => Promise<void>)[] = [];

beforeAll(async () => {
  if (noBrowser) return;
  mkdirSync(PICTURES, { recursive: true });
  await startsJournal(journal, { isWaiting: true });
  browser = await launch();
}, 2 * PATIENCE_MS);
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});
afterEach(async () => {
  for (const close of closing.toReversed()) await close();
  closing = [];
});

async function served(options: Omit<VisualizerOptions, 'port' | 'token'>, hash: string, state: string): Promise<Page> {
  const visualizer = new Visualizer({ port: 0, token: 'token', ...options });
  const url = await visualizer.listen();
  closing.push(() => visualizer.close());
  const page = await opened(new URL(hash, url).href, url.origin);
  await page.getByText(state, { exact: true }).waitFor();
  return page;
}

const start = (number: number, hash: string): Promise<Page> =>
  served({ journal: new JournalFiles(journal, `00000${number}`) }, hash, 'journal');

async function opened(url: string, origin: string): Promise<Page> {
  const { page } = await newPage(browser, origin);
  closing.push(() => page.context().close());
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await page.goto(url);
  return page;
}

async function live(): Promise<Page> {
  const feed = new KernelFeed({ now: () => node.world.time.now() });
  const node = new BootNode({ argv: ARGV, onTurn: feed.onTurn });
  node.boot().run(5_000);
  const page = await served({ feed }, '', 'live');
  await page.locator('#chain-body .links').waitFor();
  return page;
}

async function openingPage(): Promise<Page> {
  const file = join(folder, 'page.html');
  writeFileSync(file, await reportHtml(undefined));
  const page = await opened(pathToFileURL(file).href, 'file:');
  await page.getByRole('dialog').waitFor();
  return page;
}

/** A start of which a view is ready when an element is there. */
const view = (number: number, hash: string, element: string) => async (): Promise<Page> => {
  const page = await start(number, hash);
  await page.locator(element).first().waitFor();
  return page;
};
const POD = 'kubelet%2Fpods%2Fpod-u1';

/** By the name of the picture. */
const SCENES: Readonly<Record<string, () => Promise<Page>>> = {
  live,
  'start-ready': view(2, '#view=start', '#chain-body .links'),
  'start-waiting': view(3, '#view=start', '#phase-list li[data-entered]'),
  'start-failed': async () => {
    const files = new JournalFiles(join(GOLDEN, 'startup-wrong-configuration'));
    return served({ journal: files }, '', 'journal');
  },
  'actors-root': view(2, '#view=actors', '#sheet .state.active'),
  'actors-pod': view(2, `#view=actors&actor=${POD}`, '#sheet .state.active'),
  'actors-past': view(2, `#view=actors&actor=${POD}%2Fcontainer-app&record=300`, '#moment:not([hidden])'),
  pods: view(2, '#view=pods&pod=u1', '#pod-story .lanes'),
  records: view(2, '#view=records&search=kind%3Arequest', '#rows [role=row]'),
  'records-inspector': view(2, '#view=records&record=300', '#record-body > .chain'),
  'records-sequence': view(2, '#view=records&group=sequence', '#groups .arrow'),
  'records-groups': view(2, '#view=records&group=what', '#groups li'),
  compare: view(2, '#view=compare', '.verdict'),
  health: view(2, '#view=health', '#health-body *'),
  keys: async () => {
    const page = await start(2, '#view=start');
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    return page;
  },
  opening: openingPage,
};

describe.skipIf(noBrowser)('no text is cut off or lies over another', () => {
  it.each(Object.entries(SCENES))('%s', { timeout: 4 * PATIENCE_MS }, async (name, scene) => {
    const page = await scene();
    const faults: string[] = [];
    for (const width of WIDTHS_PX) {
      await page.setViewportSize({ width, height: HEIGHT_PX });
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await page.screenshot({ path: join(PICTURES, `${name}-${width}-${colorScheme}.png`) });
      }
      faults.push(...(await layoutFaults(page)).map((fault) => `${width} px: ${fault}`));
    }
    expect(faults).toEqual([]);
  });
});
