/**
 * Every view of the page of a running node, of a journal and of a report, at three widths, light and dark: nothing is
 * wider than the window or overlaps other text, and axe finds no violation. The pictures are kept in a folder to look
 * at: `STATELET_PICTURES` names it, otherwise `.cache/pictures`.
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
import { violations } from '../support/accessibility.ts';
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

/** A view of a running node. */
const live = (hash: string, element: string) => async (): Promise<Page> => {
  const feed = new KernelFeed({ now: () => node.world.time.now() });
  const node = new BootNode({ argv: ARGV, onTurn: feed.onTurn });
  node.boot().run(5_000);
  const page = await served({ feed }, hash, 'live');
  await page.locator(element).first().waitFor();
  return page;
};

/** A view of a report in one file. */
const report = (hash: string, element: string) => async (): Promise<Page> => {
  const file = join(folder, 'report.html');
  writeFileSync(file, await reportHtml(new JournalFiles(journal, '000002')));
  const page = await opened(`${pathToFileURL(file).href}${hash}`, 'file:');
  await page.getByText('journal', { exact: true }).waitFor();
  await page.locator(element).first().waitFor();
  return page;
};

async function openingPage(): Promise<Page> {
  const file = join(folder, 'page.html');
  writeFileSync(file, await reportHtml(undefined));
  const page = await opened(pathToFileURL(file).href, 'file:');
  await page.getByRole('dialog').waitFor();
  return page;
}

/** A view of a start, which is ready when an element exists. */
const view = (number: number, hash: string, element: string) => async (): Promise<Page> => {
  const page = await start(number, hash);
  await page.locator(element).first().waitFor();
  return page;
};
const POD = 'kubelet%2Fpods%2Fpod-u1';

/** The element that exists when a view is drawn. */
const VIEWS = {
  start: '#chain-body .links',
  actors: '#sheet .state.active',
  pods: '#pod-story .lanes',
  records: '#rows [role=row]',
  compare: '.verdict',
  health: '#health-body dl',
};
/** A running node is compared by its journal, and reports this; its pod appears later. */
const LIVE_VIEWS = { ...VIEWS, pods: '#pod-list', compare: '#compare-body *' };

const named = (name: string, views: Readonly<Record<string, string>>, scene: typeof live) =>
  Object.fromEntries(
    Object.entries(views).map(([view, element]) => [`${name}-${view}`, scene(`#view=${view}&pod=u1`, element)]),
  );

/** By the name of the picture. */
const SCENES: Readonly<Record<string, () => Promise<Page>>> = {
  ...named('live', LIVE_VIEWS, live),
  ...named('journal', VIEWS, (hash, element) => view(2, hash, element)),
  ...named('report', VIEWS, report),
  'start-waiting': view(3, '#view=start', '#phase-list li[data-entered]'),
  'start-failed': async () => {
    const files = new JournalFiles(join(GOLDEN, 'startup-wrong-configuration'));
    return served({ journal: files }, '', 'journal');
  },
  'actors-pod': view(2, `#view=actors&actor=${POD}`, '#sheet .state.active'),
  'actors-past': view(2, `#view=actors&actor=${POD}%2Fcontainer-app&record=470`, '#moment:not([hidden])'),
  'records-inspector': view(2, '#view=records&record=300', '#record-body > .chain'),
  'records-sequence': view(2, '#view=records&group=sequence', '#groups .arrow'),
  'records-groups': view(2, '#view=records&group=what', '#groups li'),
  keys: async () => {
    const page = await start(2, '#view=start');
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    return page;
  },
  opening: openingPage,
};

describe.skipIf(noBrowser)('no text lies over another, and axe complains of nothing', () => {
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
    faults.push(...(await violations(page)));
    expect(faults).toEqual([]);
  });
});
