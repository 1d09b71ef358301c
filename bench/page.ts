/**
 * Measures the visualizer's page in Chromium: how soon it shows a journal, and whether it stays fast with many records.
 *
 *     node bench/page.ts [--records 100000,1000000] [--keep FOLDER] [--journal FOLDER] [--live 600] [--slow 60]
 *
 * The journal is that of a node whose pods come and go, in the world of the tests; `--keep` writes it into a folder
 * that stays, `--journal` opens an existing one. The first paint is that in an open window, because Chromium loads
 * pages of its own for a new one. `--live` follows a daemon's feed with 500 records per second for this number of
 * seconds. `--slow` has a page that reads and then reads nothing, each for this number of seconds: its cost for the
 * feed, and the records that it missed. Times of keys last until the frame that shows the answer, by the page's own
 * clock. A search is answered when its own rows are drawn. Requires Chromium and the bundle.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type Browser, chromium, type Page } from 'playwright-core';
import { JournalFiles } from '../src/actors/server/visualizer/journal-files.ts';
import { Visualizer } from '../src/actors/server/visualizer/visualizer.ts';
import { writeJournal } from './page-journal.ts';
import { benchLive, benchStopped } from './page-live.ts';
import { memoryOf } from './page-memory.ts';
import { load, percentile, printTable } from './statistics.ts';

const { values: flags } = parseArgs({
  options: {
    records: { type: 'string', default: '100000' },
    journal: { type: 'string' },
    keep: { type: 'string' },
    slow: { type: 'string', default: '0' },
    live: { type: 'string', default: '60' },
  },
});

const STEPS = 60;
const STEPS_WHILE_READING = 20;
/** The contexts in the middle of a longer journal are not kept (`SNAPSHOTS_MAX` in `execution.ts`). */
const CONTEXTS_MAX_RECORDS = 250_000;
/** The time until Chromium has loaded its own pages in a new window. */
const WINDOW_MS = 3_000;

/** The page's policy would forbid this program to query what is drawn. */
const WINDOW = { viewport: { width: 1440, height: 900 }, bypassCSP: true };

const rows: string[][] = [];
const row = (measure: string, aim: string, measured: string): void => void rows.push([measure, aim, measured]);
const ms = (value: number): string => `${value.toFixed(0)} ms`;
const p95 = (values: readonly number[]): string => `${ms(percentile(values, 95))} (p50 ${ms(percentile(values, 50))})`;

const bytesOf = (directory: string): number =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' }).reduce(
    (sum, name) => sum + statSync(join(directory, name)).size,
    0,
  );

const text = (selector: string): string => `(document.querySelector('${selector}')?.textContent ?? '')`;

/** Makes the page measure, by its own clock, the time from an event until the frame that shows the result. */
const CLOCK = `window.timed = (type, isSeen) => new Promise((resolve) => {
  addEventListener(type, ({ timeStamp }) => {
    const drawn = () => setTimeout(() => resolve(performance.now() - timeStamp));
    const look = () => (isSeen() ? drawn() : requestAnimationFrame(look));
    requestAnimationFrame(look);
  }, { once: true, capture: true });
})`;

/** Milliseconds from the event that `act` causes until the page has drawn the result. */
async function until(page: Page, type: string, act: () => Promise<unknown>, seen: string): Promise<number> {
  await page.evaluate(`void (window.answer = timed('${type}', () => ${seen}))`);
  await act();
  return page.evaluate('window.answer');
}

async function benchOpened(browser: Browser, directory: string): Promise<void> {
  const visualizer = new Visualizer({ port: 0, token: 't', journal: new JournalFiles(directory) });
  const url = await visualizer.listen();
  const page = await browser.newPage(WINDOW);
  await pause(WINDOW_MS);
  try {
    const beganMs = performance.now();
    await page.goto(url.href, { waitUntil: 'commit' });
    await page.waitForFunction(
      `${text('#summary')}.startsWith('Ready') && document.querySelectorAll('#phase-list li').length > 10`,
      undefined,
      { polling: 'raf' },
    );
    const painted = performance.now() - beganMs;
    await page.evaluate(`${CLOCK}; ${TASKS}`);
    const whileReading = await steps(page, ',', STEPS_WHILE_READING);
    const wasReading = await page.evaluate<boolean>(`${text('#connection')} !== 'journal'`);
    await page.waitForFunction(`${text('#connection')} === 'journal'`, undefined, { timeout: 3_600_000 });
    const readS = (performance.now() - beganMs) / 1_000;
    const records = Number(await page.locator('#scrub').getAttribute('max'));
    const rowOf = (measure: string, aim: string, value: string) => row(`${records} records: ${measure}`, aim, value);
    rowOf('bytes on disk', '', `${(bytesOf(directory) / 1_048_576).toFixed(0)} MB`);
    rowOf('first useful paint', '1.5 s', ms(painted));
    rowOf(`steps by record while it is read${wasReading ? '' : ', to its end'}`, 'p95 100 ms', p95(whileReading));
    rowOf('read to the end', '', `${readS.toFixed(1)} s`);
    rowOf('jumps to any moment while it is run again', 'p95 100 ms', p95(await jumps(page, false)));
    await page.keyboard.press('Escape');
    await page.keyboard.press('6');
    await page.waitForFunction(`/same decisions|otherwise/.test(${text('#health-body')})`, undefined, {
      timeout: 3_600_000,
    });
    rowOf('run again, compared', '', `${((performance.now() - beganMs) / 1_000).toFixed(1)} s`);
    rowOf('longest time without an answer to a key until then', '', ms(await page.evaluate('window.longest')));
    rowOf('steps by record', 'p95 100 ms', p95(await steps(page, ',')));
    rowOf('steps by turn', 'p95 100 ms', p95(await steps(page, '[')));
    rowOf('jumps to any moment', 'p95 100 ms', p95(await jumps(page, records <= CONTEXTS_MAX_RECORDS)));
    rowOf('change of the view', 'p95 100 ms', p95(await views(page)));
    rowOf('search, first rows', 'p95 100 ms', p95(await searches(page)));
    const { pageMb, workerMb } = await memoryOf(page);
    rowOf('heap of the page; of its worker', '', `${pageMb.toFixed(0)} MB; ${workerMb.toFixed(0)} MB`);
  } finally {
    await page.close();
    await visualizer.close();
  }
}

/** Makes the page record its longest task. A loop of frames would slow the page down. */
const TASKS = `window.longest = 0; new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration);
}).observe({ type: 'longtask', buffered: true })`;

async function steps(page: Page, key: string, count = STEPS): Promise<number[]> {
  const took: number[] = [];
  await page.keyboard.press('2');
  for (let i = 0; i < count; i++) {
    const before = await page.locator('#record-title').textContent();
    const seen = `${text('#record-title')} !== ${JSON.stringify(before)} && document.querySelector('#record-body pre') !== null`;
    took.push(await until(page, 'keydown', () => page.keyboard.press(key), seen));
  }
  return took;
}

/**
 * Opens an address as a link from elsewhere does, until the tree, the record and, if the machines have run, the context
 * of that moment are drawn.
 */
async function jumps(page: Page, hasContexts: boolean): Promise<number[]> {
  const took: number[] = [];
  const last = Number(await page.locator('#scrub').getAttribute('max'));
  for (let i = 1; i <= STEPS; i++) {
    const n = Math.floor(((i * 37) % STEPS) * (last / STEPS)) + 1;
    const act = () => page.evaluate(`location.hash = 'view=actors&actor=kubelet&record=${n}'`);
    const context = hasContexts ? ` && ${text('#actor .json')}.length > 100` : '';
    const seen = `${text('#record-title')} === 'Record ${n}' && document.querySelector('#record-body pre')?.textContent.includes('"n": ${n},')${context}`;
    took.push(await until(page, 'hashchange', act, seen));
  }
  return took;
}

async function views(page: Page): Promise<number[]> {
  const took: number[] = [];
  const shown = {
    1: `document.querySelectorAll('#phase-list li').length > 10`,
    2: `document.querySelector('#sheet svg') !== null`,
    3: `document.querySelector('#pod-story .lanes, #pod-story .dim') !== null`,
    4: `${text('#rows')}.length > 0`,
  };
  for (let i = 0; i < STEPS; i++) {
    const key = ([1, 2, 4, 3] as const)[i % 4]!;
    const view = { 1: 'start', 2: 'actors', 3: 'pods', 4: 'records' }[key];
    const seen = `document.body.dataset.view === '${view}' && ${shown[key]}`;
    took.push(await until(page, 'keydown', () => page.keyboard.press(String(key)), seen));
  }
  return took;
}

async function searches(page: Page): Promise<number[]> {
  const took: number[] = [];
  await page.keyboard.press('4');
  await page.keyboard.press('Escape');
  for (const words of SEARCHES) {
    const hash = JSON.stringify(new URLSearchParams({ search: words }).toString());
    const isDrawn = `document.querySelector('#grid').ariaBusy !== 'true' && ${text('#rows')}.length > 0`;
    const seen = `location.hash.includes(${hash}) && ${isDrawn}`;
    took.push(await until(page, 'input', () => page.locator('#search').fill(words), seen));
    await page.waitForFunction(`!${text('#events-note')}.includes('%')`, undefined, { timeout: 600_000 });
  }
  return took;
}

const SEARCHES = [
  'kind:request',
  'actor:pods',
  'turn:>50',
  'pullImage',
  'kind:state actor:pleg',
  '/cri\\.(stop|start)/',
  'kind:input',
  'web-1-3',
];

const browser = await chromium.launch({
  executablePath: process.env['STATELET_CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
});
const folder = mkdtempSync(join(tmpdir(), 'statelet-bench-page-'));
try {
  if (flags.journal !== undefined) await benchOpened(browser, flags.journal);
  for (const size of flags.journal === undefined ? flags.records.split(',').map(Number).filter(Boolean) : []) {
    const directory = join(flags.keep ?? folder, String(size));
    await writeJournal(directory, size);
    await benchOpened(browser, directory);
  }
  if (Number(flags.live) > 0) await benchLive(browser, Number(flags.live), WINDOW, row);
  if (Number(flags.slow) > 0) await benchStopped(browser, Number(flags.slow), WINDOW, row);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
printTable(['measure', 'aim', 'measured'], rows);
console.log(`load beside it: ${load()}`);
