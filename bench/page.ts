/**
 * The visualizer's page in Chromium: how soon a journal is of use in it, and whether it stays so with many records.
 *
 *     node bench/page.ts [--records 100000] [--million] [--live 600]
 *
 * The journal is that of a node whose pods come and go, over the world of the tests; `--million` is ten times as long.
 * `--live` follows a daemon's feed that has 500 records a second for so many seconds. Needs Chromium and the bundle.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type Browser, type CDPSession, chromium, type Page } from 'playwright-core';
import { KernelFeed } from '../src/actors/server/visualizer/feed.ts';
import { JournalFiles } from '../src/actors/server/visualizer/journal-files.ts';
import { Visualizer } from '../src/actors/server/visualizer/visualizer.ts';
import { openJournal } from '../src/kernel/journal/index.ts';
import type { KernelRecord } from '../src/kernel/records.ts';
import { ARGV, BootNode } from '../test/machines/startup/boot-node.ts';
import { image, manifest } from '../test/support/pods-node.ts';
import { load, percentile, printTable } from './statistics.ts';

const { values: flags } = parseArgs({
  options: {
    records: { type: 'string', default: '100000' },
    million: { type: 'boolean', default: false },
    live: { type: 'string', default: '60' },
  },
});

/** Pods that are there at once; each is replaced by the next after a while. */
const PODS = 30;
const LIFE_MS = 20_000;
const STEPS = 60;
const LIVE_RECORDS_A_SECOND = 500;
const MEMORY_EVERY_MS = 5_000;

/** The policy of the page would not let this program ask what is drawn. */
const WINDOW = { viewport: { width: 1440, height: 900 }, bypassCSP: true };

const rows: string[][] = [];
const row = (measure: string, aim: string, measured: string): void => void rows.push([measure, aim, measured]);
const ms = (value: number): string => `${value.toFixed(0)} ms`;
const p95 = (values: readonly number[]): string => `${ms(percentile(values, 95))} (p50 ${ms(percentile(values, 50))})`;

/** Writes a journal of about so many records; resolves with their number. */
async function writeJournal(directory: string, records: number): Promise<number> {
  const journal = openJournal({ directory, durability: 'none' });
  let written = 0;
  const node = new BootNode({
    argv: ARGV,
    onTurn: (made: readonly KernelRecord[]) => {
      written += made.length;
      for (const record of made)
        journal.append(record.k === 'header' ? { ...record, incarnation: journal.incarnation } : record);
      journal.commit();
    },
  });
  node.world.pods.registry.set('app:1', image('app:1'));
  const pods = (round: number) =>
    Array.from({ length: PODS }, (_, at) => manifest({ uid: `u${round}-${at}`, name: `web-${round}-${at}` }));
  node.world.pods.setManifests(pods(0));
  node.boot();
  let round = 1;
  const isDone = (): boolean => written >= records;
  while (!isDone()) {
    node.run(LIFE_MS);
    (node.records as KernelRecord[]).length = 0;
    node.world.pods.setManifests(pods(round++));
    await new Promise(setImmediate);
  }
  await journal.close();
  return written;
}

const bytesOf = (directory: string): number =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' }).reduce(
    (sum, name) => sum + statSync(join(directory, name)).size,
    0,
  );

/** Milliseconds from an act until the page has drawn what it asked for. */
async function until(page: Page, act: () => Promise<unknown>, seen: string): Promise<number> {
  const beganMs = performance.now();
  await act();
  await page.waitForFunction(seen, undefined, { polling: 'raf' });
  return performance.now() - beganMs;
}

const text = (selector: string): string => `(document.querySelector('${selector}')?.textContent ?? '')`;

async function benchOpened(browser: Browser, directory: string, records: number): Promise<void> {
  const visualizer = new Visualizer({ port: 0, token: 't', journal: new JournalFiles(directory) });
  const url = await visualizer.listen();
  const page = await browser.newPage(WINDOW);
  const label = `${records} records`;
  try {
    await page.goto('about:blank');
    const beganMs = performance.now();
    const useful = `${text('#summary')}.startsWith('Ready') && document.querySelectorAll('#phase-list li').length > 10`;
    const painted = await until(page, () => page.goto(url.href), useful);
    row(`${label}: first useful paint`, '1.5 s', ms(painted));
    await watchFrames(page);
    await page.waitForFunction(`${text('#connection')} === 'journal'`, undefined, { timeout: 3_600_000 });
    row(
      `${label}: read to the end, run again, compared`,
      '',
      `${((performance.now() - beganMs) / 1_000).toFixed(1)} s`,
    );
    row(`${label}: longest time without a frame meanwhile`, '', ms(await longestFrame(page)));
    row(`${label}: steps by record`, 'p95 100 ms', p95(await steps(page, ',')));
    row(`${label}: steps by turn`, 'p95 100 ms', p95(await steps(page, '[')));
    row(`${label}: jumps to any moment`, 'p95 100 ms', p95(await jumps(page)));
    row(`${label}: change of the view`, 'p95 100 ms', p95(await views(page)));
    row(`${label}: search, first rows`, 'p95 100 ms', p95(await searches(page)));
    row(`${label}: memory of the page with its worker`, '', `${(await memoryMb(page)).toFixed(0)} MB`);
  } finally {
    await page.close();
    await visualizer.close();
  }
}

/** Has the page note the longest time between two frames. */
const watchFrames = (page: Page): Promise<unknown> =>
  page.evaluate(`{ let last = performance.now(); window.longest = 0;
    const frame = (now) => { window.longest = Math.max(window.longest, now - last); last = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame); }`);
const longestFrame = (page: Page): Promise<number> => page.evaluate('window.longest');

async function steps(page: Page, key: string): Promise<number[]> {
  const took: number[] = [];
  await page.keyboard.press('2');
  for (let i = 0; i < STEPS; i++) {
    const before = await page.locator('#record-title').textContent();
    const seen = `${text('#record-title')} !== ${JSON.stringify(before)} && document.querySelector('#record-body pre') !== null`;
    took.push(await until(page, () => page.keyboard.press(key), seen));
  }
  return took;
}

/** By the address, as a link from elsewhere: the tree, the context and the record of that moment are drawn. */
async function jumps(page: Page): Promise<number[]> {
  const took: number[] = [];
  const last = Number(await page.locator('#scrub').getAttribute('max'));
  for (let i = 1; i <= STEPS; i++) {
    const n = Math.floor(((i * 37) % STEPS) * (last / STEPS)) + 1;
    const act = () => page.evaluate(`location.hash = 'view=actors&actor=kubelet&record=${n}'`);
    const seen = `${text('#record-title')} === 'Record ${n}' && document.querySelector('#record-body pre')?.textContent.includes('"n": ${n},') && ${text('#actor .json')}.length > 100`;
    took.push(await until(page, act, seen));
  }
  return took;
}

async function views(page: Page): Promise<number[]> {
  const took: number[] = [];
  for (let i = 0; i < STEPS; i++) {
    const key = String([1, 2, 4, 3][i % 4]);
    const view = { 1: 'start', 2: 'actors', 3: 'pods', 4: 'records' }[key as '1'];
    took.push(await until(page, () => page.keyboard.press(key), `document.body.dataset.view === '${view}'`));
  }
  return took;
}

async function searches(page: Page): Promise<number[]> {
  const took: number[] = [];
  await page.keyboard.press('4');
  await page.keyboard.press('Escape');
  for (const words of [
    'kind:request',
    'actor:pods',
    'turn:>50',
    'pullImage',
    'kind:state actor:pleg',
    '/cri\\.(stop|start)/',
    'kind:input',
    'web-1-3',
  ]) {
    const act = () => page.locator('#search').fill(words);
    const seen = `!${text('#events-note')}.startsWith('0 of') && ${text('#rows')}.length > 0 && location.hash.includes(${JSON.stringify(new URLSearchParams({ search: words }).toString())})`;
    took.push(await until(page, act, seen));
    await page.waitForFunction(`!${text('#events-note')}.includes('%')`, undefined, { timeout: 600_000 });
  }
  return took;
}

async function memoryMb(page: Page): Promise<number> {
  const session: CDPSession = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  const workers = await Promise.all(
    page.workers().map((worker) => worker.evaluate<number>('performance.memory?.usedJSHeapSize ?? 0')),
  );
  return (usedSize + workers.reduce((sum, bytes) => sum + bytes, 0)) / 1_048_576;
}

/** A kernel whose pods come and go, so that its feed has so many records a second. */
async function benchLive(browser: Browser, seconds: number): Promise<void> {
  const feed = new KernelFeed();
  const visualizer = new Visualizer({ port: 0, token: 't', feed });
  const url = await visualizer.listen();
  let made = 0;
  const node = new BootNode({
    argv: ARGV,
    onTurn: (records, kernel) => {
      made += records.length;
      feed.onTurn(records, kernel);
    },
  });
  node.world.pods.registry.set('app:1', image('app:1'));
  node.boot();
  node.run(5_000);
  const page = await browser.newPage(WINDOW);
  await page.goto(`${url.href}#view=records`);
  await page.getByText('live', { exact: true }).waitFor();
  const latencies: number[] = [];
  const memory: number[] = [];
  const beganMs = performance.now();
  made = 0;
  for (let round = 0; performance.now() - beganMs < seconds * 1_000; round++) {
    node.world.pods.setManifests([manifest({ uid: `u${round}`, name: `web-${round}` })]);
    while (made < ((performance.now() - beganMs) / 1_000) * LIVE_RECORDS_A_SECOND) node.run(200);
    (node.records as KernelRecord[]).length = 0;
    const n = node.kernel.n - 1;
    const sentMs = performance.now();
    await page.waitForFunction(`Number(document.querySelector('#scrub').max) >= ${n}`, undefined, { polling: 'raf' });
    latencies.push(performance.now() - sentMs);
    if (memory.length < (performance.now() - beganMs) / MEMORY_EVERY_MS) memory.push(await memoryMb(page));
    await pause(50);
  }
  const rate = made / ((performance.now() - beganMs) / 1_000);
  row(`live, ${rate.toFixed(0)} records a second for ${seconds} s: event to pixel`, 'p95 250 ms', p95(latencies));
  const third = Math.max(1, Math.floor(memory.length / 3));
  const mean = (values: readonly number[]): string => (values.reduce((a, b) => a + b, 0) / values.length).toFixed(0);
  row(
    'live: memory in the first and the last third',
    'flat',
    `${mean(memory.slice(0, third))} MB, ${mean(memory.slice(-third))} MB`,
  );
  row(
    'live: records the page missed',
    '0',
    await page.evaluate(`/(\\d+) not held/.exec(${text('#events-note')})?.[1] ?? '0'`),
  );
  await page.close();
  await visualizer.close();
}

const browser = await chromium.launch({
  executablePath: process.env['STATELET_CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--enable-precise-memory-info'],
});
const folder = mkdtempSync(join(tmpdir(), 'statelet-bench-page-'));
try {
  const sizes = [Number(flags.records), ...(flags.million ? [1_000_000] : [])];
  for (const size of sizes) {
    const directory = join(folder, String(size));
    const records = await writeJournal(directory, size);
    row(`journal of ${records} records`, '', `${(bytesOf(directory) / 1_048_576).toFixed(0)} MB on disk`);
    await benchOpened(browser, directory, records);
  }
  if (Number(flags.live) > 0) await benchLive(browser, Number(flags.live));
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
printTable(['measure', 'aim', 'measured'], rows);
console.log(`load beside it: ${load()}`);
