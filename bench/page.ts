/**
 * The visualizer's page in Chromium: how soon a journal is of use in it, and whether it stays so with many records.
 *
 *     node bench/page.ts [--records 100000,1000000] [--journal FOLDER] [--live 600]
 *
 * The journal is that of a node whose pods come and go, over the world of the tests; or `--journal`, one that is there.
 * `--live` follows a daemon's feed that has 500 records a second for so many seconds. A page that reads too slowly is not
 * measured here: `test/actors/server/visualizer/stream.test.ts` has one.
 * Times of keys are from the key until the frame that shows the answer, by the page's own clock. Needs Chromium and the
 * bundle.
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
    journal: { type: 'string' },
    live: { type: 'string', default: '60' },
  },
});

/** Pods that are there at once; each is replaced by the next after a while. */
const PODS = 30;
const LIFE_MS = 20_000;
const STEPS = 60;
const STEPS_WHILE_READING = 20;
const LIVE_RECORDS_A_SECOND = 500;
const MEMORY_EVERY_MS = 5_000;

/** The policy of the page would not let this program ask what is drawn. */
const WINDOW = { viewport: { width: 1440, height: 900 }, bypassCSP: true };

const rows: string[][] = [];
const row = (measure: string, aim: string, measured: string): void => void rows.push([measure, aim, measured]);
const ms = (value: number): string => `${value.toFixed(0)} ms`;
const p95 = (values: readonly number[]): string => `${ms(percentile(values, 95))} (p50 ${ms(percentile(values, 50))})`;

/** Writes a journal of about so many records. */
async function writeJournal(directory: string, records: number): Promise<void> {
  const journal = openJournal({ directory, durability: 'none' });
  let written = 0;
  const node = new BootNode({
    argv: ARGV,
    onTurn: (made: readonly KernelRecord[], kernel) => {
      written += made.length;
      for (const record of made)
        journal.append(record.k === 'header' ? { ...record, incarnation: journal.incarnation } : record);
      journal.commit();
      if (journal.wantsCheckpoint) journal.writeCheckpoint(kernel.checkpoint());
    },
  });
  node.world.pods.registry.set('app:1', image('app:1'));
  const pods = (round: number) =>
    Array.from({ length: PODS }, (_, at) => manifest({ uid: `u${round}-${at}`, name: `web-${round}-${at}` }));
  node.world.pods.setManifests(pods(0));
  node.boot();
  for (let round = 1, isDone = false; !isDone; isDone = written >= records) {
    node.run(LIFE_MS);
    (node.records as KernelRecord[]).length = 0;
    node.world.pods.setManifests(pods(round++));
    await new Promise<void>((resolve) => journal.whenDurable(resolve));
  }
  await journal.close();
  if (journal.suspension !== undefined) throw new Error(`not all was written: ${journal.suspension}`);
}

const bytesOf = (directory: string): number =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' }).reduce(
    (sum, name) => sum + statSync(join(directory, name)).size,
    0,
  );

const text = (selector: string): string => `(document.querySelector('${selector}')?.textContent ?? '')`;

/** Has the page measure from an event, by its own time, until the frame is drawn in which something is seen. */
const CLOCK = `window.timed = (type, isSeen) => new Promise((resolve) => {
  addEventListener(type, ({ timeStamp }) => {
    const drawn = () => setTimeout(() => resolve(performance.now() - timeStamp));
    const look = () => (isSeen() ? drawn() : requestAnimationFrame(look));
    requestAnimationFrame(look);
  }, { once: true, capture: true });
})`;

/** Milliseconds from the event that an act makes until the page has drawn what it asked for. */
async function until(page: Page, type: string, act: () => Promise<unknown>, seen: string): Promise<number> {
  await page.evaluate(`void (window.answer = timed('${type}', () => ${seen}))`);
  await act();
  return page.evaluate('window.answer');
}

async function benchOpened(browser: Browser, directory: string): Promise<void> {
  const visualizer = new Visualizer({ port: 0, token: 't', journal: new JournalFiles(directory) });
  const url = await visualizer.listen();
  const page = await browser.newPage(WINDOW);
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
    rowOf('read to the end, run again, compared', '', `${readS.toFixed(1)} s`);
    rowOf('longest time without an answer to a key until then', '', ms(await page.evaluate('window.longest')));
    rowOf('steps by record', 'p95 100 ms', p95(await steps(page, ',')));
    rowOf('steps by turn', 'p95 100 ms', p95(await steps(page, '[')));
    rowOf('jumps to any moment', 'p95 100 ms', p95(await jumps(page)));
    rowOf('change of the view', 'p95 100 ms', p95(await views(page)));
    rowOf('search, first rows', 'p95 100 ms', p95(await searches(page)));
    rowOf('memory of the page with its worker', '', `${(await memoryMb(page)).toFixed(0)} MB`);
  } finally {
    await page.close();
    await visualizer.close();
  }
}

/** Has the page note the longest stretch in which it answers to nothing. A loop of frames would itself make it slow. */
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

/** By the address, as a link from elsewhere: the tree, the context and the record of that moment are drawn. */
async function jumps(page: Page): Promise<number[]> {
  const took: number[] = [];
  const last = Number(await page.locator('#scrub').getAttribute('max'));
  for (let i = 1; i <= STEPS; i++) {
    const n = Math.floor(((i * 37) % STEPS) * (last / STEPS)) + 1;
    const act = () => page.evaluate(`location.hash = 'view=actors&actor=kubelet&record=${n}'`);
    const seen = `${text('#record-title')} === 'Record ${n}' && document.querySelector('#record-body pre')?.textContent.includes('"n": ${n},') && ${text('#actor .json')}.length > 100`;
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
    const seen = `!${text('#events-note')}.startsWith('0 of') && ${text('#rows')}.length > 0 && location.hash.includes(${hash})`;
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

/** The live heaps of the page and of its worker, with the bytes of their buffers. */
async function memoryMb(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  const heap = async (ask: (method: 'HeapProfiler.collectGarbage' | 'Runtime.getHeapUsage') => Promise<unknown>) => {
    await ask('HeapProfiler.collectGarbage');
    const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = (await ask('Runtime.getHeapUsage')) as Heap;
    return usedSize + embedderHeapUsedSize + backingStorageSize;
  };
  let bytes = await heap((method) => session.send(method));
  for (const worker of await workersOf(session)) bytes += await heap((method) => askWorker(session, worker, method));
  await session.detach();
  return bytes / 1_048_576;
}

interface Heap {
  readonly usedSize: number;
  readonly embedderHeapUsedSize?: number;
  readonly backingStorageSize?: number;
}

/** Sessions of the workers of a page: a worker is asked through its page. */
async function workersOf(session: CDPSession): Promise<string[]> {
  const found: string[] = [];
  session.on('Target.attachedToTarget', ({ sessionId, targetInfo }) => {
    if (targetInfo.type === 'worker') found.push(sessionId);
  });
  await session.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: false });
  return found;
}

async function askWorker(session: CDPSession, sessionId: string, method: string): Promise<unknown> {
  const id = ++questions;
  const answer = new Promise((resolve) => {
    session.on('Target.receivedMessageFromTarget', (event) => {
      const told = JSON.parse(event.message) as { readonly id: number; readonly result: unknown };
      if (event.sessionId === sessionId && told.id === id) resolve(told.result);
    });
  });
  await session.send('Target.sendMessageToTarget', { sessionId, message: JSON.stringify({ id, method }) });
  return answer;
}

let questions = 0;

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
  args: ['--no-sandbox', '--disable-gpu'],
});
const folder = mkdtempSync(join(tmpdir(), 'statelet-bench-page-'));
try {
  if (flags.journal !== undefined) await benchOpened(browser, flags.journal);
  for (const size of flags.journal === undefined ? flags.records.split(',').map(Number).filter(Boolean) : []) {
    const directory = join(folder, String(size));
    await writeJournal(directory, size);
    await benchOpened(browser, directory);
  }
  if (Number(flags.live) > 0) await benchLive(browser, Number(flags.live));
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
printTable(['measure', 'aim', 'measured'], rows);
console.log(`load beside it: ${load()}`);
