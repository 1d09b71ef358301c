/** Measures a page that follows a daemon's feed: one that keeps up, and one that stops for a while. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Browser, Page } from 'playwright-core';
import { KernelFeed } from '../src/actors/server/visualizer/feed.ts';
import { Visualizer } from '../src/actors/server/visualizer/visualizer.ts';
import type { KernelRecord } from '../src/kernel/records.ts';
import { ARGV, BootNode } from '../test/machines/startup/boot-node.ts';
import { stopWorker } from '../test/support/page-worker.ts';
import { image, manifest } from '../test/support/pods-node.ts';
import { memoryOf } from './page-memory.ts';
import { percentile } from './statistics.ts';

const RECORDS_A_SECOND = 500;
const MEMORY_EVERY_MS = 5_000;

export type Row = (measure: string, aim: string, measured: string) => void;

/** A kernel whose pods come and go, so that its feed has a given number of records per second. */
class BusyNode {
  readonly visualizer: Visualizer;
  made = 0;
  /** Milliseconds that the feed has spent on each turn. */
  turnsMs: number[] = [];
  private readonly node: BootNode;
  private round = 0;
  private beganMs = performance.now();

  constructor() {
    const feed = new KernelFeed();
    this.visualizer = new Visualizer({ port: 0, token: 't', feed });
    this.node = new BootNode({
      argv: ARGV,
      onTurn: (records, kernel) => {
        this.made += records.length;
        const beganMs = performance.now();
        feed.onTurn(records, kernel);
        this.turnsMs.push(performance.now() - beganMs);
      },
    });
    this.node.world.pods.registry.set('app:1', image('app:1'));
    this.node.boot();
    this.node.run(5_000);
  }

  get last(): number {
    return this.node.kernel.n - 1;
  }

  get rate(): number {
    return this.made / ((performance.now() - this.beganMs) / 1_000);
  }

  begin(): void {
    this.made = 0;
    this.turnsMs = [];
    this.beganMs = performance.now();
  }

  /** Makes the records that are due. */
  work(): void {
    const uid = `u${this.round}`;
    this.node.world.pods.setManifests([manifest({ uid, name: `web-${this.round++}` })]);
    while (this.made < ((performance.now() - this.beganMs) / 1_000) * RECORDS_A_SECOND) this.node.run(200);
    (this.node.records as KernelRecord[]).length = 0;
  }
}

async function opened(browser: Browser, node: BusyNode, window: object): Promise<Page> {
  const url = await node.visualizer.listen();
  const page = await browser.newPage(window);
  await page.goto(`${url.href}#view=records`);
  await page.getByText('live', { exact: true }).waitFor();
  return page;
}

const showsRecord = (page: Page, n: number) =>
  page.waitForFunction(`Number(document.querySelector('#scrub').max) >= ${n}`, undefined, {
    polling: 'raf',
    timeout: 120_000,
  });

const missedBy = (page: Page) =>
  page.evaluate<string>(`/(\\d+) missing/.exec(document.querySelector('#events-note')?.textContent ?? '')?.[1] ?? '0'`);

const ms = (value: number): string => `${value.toFixed(value < 10 ? 2 : 0)} ms`;
const p95 = (values: readonly number[]): string => `${ms(percentile(values, 95))} (p50 ${ms(percentile(values, 50))})`;

/** Measures the time from a turn until the frame that shows it, and the memory in thirds of the run. */
export async function benchLive(browser: Browser, seconds: number, window: object, row: Row): Promise<void> {
  const node = new BusyNode();
  const page = await opened(browser, node, window);
  const latencies: number[] = [];
  const memory: { readonly pageMb: number; readonly workerMb: number; readonly daemonMb: number }[] = [];
  node.begin();
  const beganMs = performance.now();
  for (let elapsedMs = 0; elapsedMs < seconds * 1_000; elapsedMs = performance.now() - beganMs) {
    node.work();
    const sentMs = performance.now();
    await showsRecord(page, node.last);
    latencies.push(performance.now() - sentMs);
    if (memory.length < elapsedMs / MEMORY_EVERY_MS)
      memory.push({ ...(await memoryOf(page)), daemonMb: process.memoryUsage().heapUsed / 1_048_576 });
    await pause(50);
  }
  row(`live, ${node.rate.toFixed(0)} records a second for ${seconds} s: event to pixel`, 'p95 250 ms', p95(latencies));
  const third = Math.max(1, Math.floor(memory.length / 3));
  const mean = (of: typeof memory, name: keyof (typeof memory)[number]): string =>
    (of.reduce((sum, each) => sum + each[name], 0) / of.length).toFixed(0);
  for (const [name, whose] of [
    ['pageMb', 'the page'],
    ['workerMb', 'its worker'],
    ['daemonMb', 'the process that feeds it'],
  ] as const) {
    const [first, last] = [memory.slice(0, third), memory.slice(-third)].map((part) => mean(part, name));
    row(`live: heap of ${whose}, first and last third`, 'flat', `${first} MB, ${last} MB`);
  }
  row('live: records the page missed', '0', await missedBy(page));
  await page.close();
  await node.visualizer.close();
}

/** Measures a page that reads nothing for a while: its cost for the feed, and how it catches up. */
export async function benchStopped(browser: Browser, seconds: number, window: object, row: Row): Promise<void> {
  const node = new BusyNode();
  const page = await opened(browser, node, window);
  const workFor = async (): Promise<string> => {
    node.begin();
    const beganMs = performance.now();
    while (performance.now() - beganMs < seconds * 1_000) {
      node.work();
      await pause(50);
    }
    return p95(node.turnsMs);
  };
  const before = await workFor();
  const goOn = await stopWorker(page);
  const stopped = await workFor();
  const wentOnMs = performance.now();
  await goOn();
  await showsRecord(page, node.last);
  row(
    `the feed's part of a turn: a page that reads; one that stops for ${seconds} s`,
    'the same',
    `${before}; ${stopped}`,
  );
  row('until that page has the newest record again', '', ms(performance.now() - wentOnMs));
  row(`records that it missed, of ${node.made}, and the daemon no longer has`, 'counted', await missedBy(page));
  await page.close();
  await node.visualizer.close();
}
