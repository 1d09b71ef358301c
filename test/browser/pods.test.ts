/** The view of pods on the page of a running daemon, by keys alone, while pods come, wait and end. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BUILT_IN_IMAGE } from '../../src/actors/embedded-runtime/store/images.ts';
import { violations } from '../support/accessibility.ts';
import { SLEEP, shellPod, TestNode } from '../support/daemon.ts';
import { requirement } from '../support/require.ts';

const CHROMIUM = process.env['STATELET_CHROMIUM'] ?? '/usr/bin/chromium';
const missing = existsSync(CHROMIUM) ? null : `there is no ${CHROMIUM}; STATELET_CHROMIUM names another`;
const { skip } = requirement('browser', missing);
const PATIENCE_MS = 60_000;

let node: TestNode;
let browser: Browser;
let page: Page;
const complaints: string[] = [];

beforeAll(async () => {
  if (skip) return;
  node = new TestNode();
  node.write('first.json', shellPod('first', BUILT_IN_IMAGE, SLEEP));
  await node.start();
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
  page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.setDefaultTimeout(PATIENCE_MS);
  const token = readFileSync(join(node.rootDir, 'visualizer.token'), 'utf8').trim();
  await page.goto(`http://127.0.0.1:${node.visualizerPort}/?token=${token}`);
  await page.getByText('live', { exact: true }).waitFor();
}, 2 * PATIENCE_MS);

afterAll(async () => {
  await browser?.close();
  await node?.close();
});

const answer = () => page.locator('#pod-story .answer').textContent();
const shows = (pattern: RegExp) => expect.poll(answer, { timeout: PATIENCE_MS }).toMatch(pattern);

it.skipIf(skip)('says of a pod that it runs, since when', async () => {
  await page.keyboard.press('o');
  await shows(/^Running and ready, ran [\d.]+ m?s after it was seen(?:, \d+% of it while .+ \([\d.]+ m?s\))?$/);
  expect(await page.locator('#pod-list button').count()).toBe(1);
});

it.skipIf(skip)('says of a new one why it does not run; the list is walked with arrows', async () => {
  const spec = shellPod('second', 'absent:1', SLEEP);
  const containers = spec.spec.containers.map((container) => ({ ...container, imagePullPolicy: 'Never' }));
  node.write('second.json', { ...spec, spec: { ...spec.spec, containers } });
  await expect.poll(() => page.locator('#pod-list button').count(), { timeout: PATIENCE_MS }).toBe(2);
  await page.locator('#pod-list button', { hasText: 'first' }).focus();
  await page.keyboard.press('ArrowUp');
  await shows(/^Pending for .+ \(.*ErrImageNeverPull/);
  await page.keyboard.press('ArrowDown');
  await shows(/^Running and ready/);
});

it.skipIf(skip)('says of one that is removed that it is gone', async () => {
  node.remove('first.json');
  await shows(/^Gone after /);
});

it.skipIf(skip)('has nothing that axe complains of, and no error', async () => {
  expect(await violations(page)).toEqual([]);
  expect(complaints).toEqual([]);
});
