/** A report of one file in a real browser, from the disk and without a network: it loads nothing else. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { violations } from '../support/accessibility.ts';
import { requirement } from '../support/require.ts';

const CHROMIUM = process.env['STATELET_CHROMIUM'] ?? '/usr/bin/chromium';
const missing = existsSync(CHROMIUM) ? null : `there is no ${CHROMIUM}; STATELET_CHROMIUM names another`;
const { skip } = requirement('browser', missing);
const ROOT = join(import.meta.dirname, '../..');
const JOURNAL = join(ROOT, 'test/golden/journals/v4/node');
const PATIENCE_MS = 60_000;

const folder = mkdtempSync(join(tmpdir(), 'statelet-report-'));
const report = join(folder, 'report.html');
const statelet = (...argv: readonly string[]) =>
  execFileSync(process.execPath, [join(ROOT, 'src/bin/statelet.js'), ...argv], { encoding: 'utf8', stdio: 'pipe' });

let browser: Browser;
let page: Page;
/** Errors, warnings, and requests to any other place. */
const complaints: string[] = [];

beforeAll(async () => {
  if (skip) return;
  statelet('view', JOURNAL, '--output', report);
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
  const context = await browser.newContext({ offline: true, viewport: { width: 1440, height: 900 } });
  page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('request', (request) => {
    // Its worker is created from a text in the page.
    if (!/^(?:file|data|blob):/.test(request.url())) complaints.push(request.url());
  });
  await page.goto(pathToFileURL(report).href);
  await page.getByText('journal', { exact: true }).waitFor();
}, 2 * PATIENCE_MS);

afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

it.skipIf(skip)('says in its first line how the start went', async () => {
  await expect.poll(() => page.locator('#summary').textContent(), { timeout: PATIENCE_MS }).toMatch(/^Ready after /);
  expect(await page.locator('#phase-list li[data-entered]').count()).toBeGreaterThan(10);
});

it.skipIf(skip)('shows an actor, its context and its records', async () => {
  await page.keyboard.press('/');
  await page.keyboard.type('pod-u1');
  await page.getByRole('treeitem', { name: /pod-/ }).first().click();
  await expect.poll(() => page.locator('#actor').textContent(), { timeout: PATIENCE_MS }).toContain('"uid": "u1"');
});

it.skipIf(skip)('draws the chart of the chosen actor', async () => {
  await expect.poll(() => page.locator('#sheet svg').count(), { timeout: PATIENCE_MS }).toBe(1);
});

it.skipIf(skip)('opens the sheet of a card, and goes back, by keys alone', async () => {
  await page.keyboard.press('/');
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.type('pod-u1');
  await page.getByRole('treeitem', { name: /^pod-/ }).first().click();
  const title = page.locator('#sheet .state .title').first();
  await expect.poll(() => title.textContent(), { timeout: PATIENCE_MS }).toBe('pod');
  await page.locator('#sheet a', { hasText: 'sync' }).focus();
  await page.keyboard.press('Enter');
  await expect.poll(() => title.textContent(), { timeout: PATIENCE_MS }).toBe('‹ sync');
  await expect.poll(() => page.locator('#sheet .state.active').count(), { timeout: PATIENCE_MS }).toBeGreaterThan(0);
  await page.keyboard.press('Enter');
  await expect.poll(() => title.textContent(), { timeout: PATIENCE_MS }).toBe('pod');
});

it.skipIf(skip)('tells the story of a pod, and goes to its records and its actor', async () => {
  await page.keyboard.press('Escape');
  await page.keyboard.press('o');
  const answer = page.locator('#pod-story .answer');
  await expect
    .poll(() => answer.textContent(), { timeout: PATIENCE_MS })
    .toMatch(/^Running and ready, ran \d+ ms after/);
  expect(await page.locator('#pod-story .lanes .name').allTextContents()).toContain('container-app');
  await page.locator('#pod-story button.line', { hasText: 'Started' }).click();
  await expect.poll(() => page.locator('#moment').isVisible(), { timeout: PATIENCE_MS }).toBe(true);
  expect(new URL(page.url()).hash).toContain('pod=u1');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Show its actor' }).click();
  await expect.poll(() => page.locator('#pods').isHidden(), { timeout: PATIENCE_MS }).toBe(true);
  await expect.poll(() => page.locator('#actor').textContent(), { timeout: PATIENCE_MS }).toContain('"uid": "u1"');
});

it.skipIf(skip)('goes back to a moment of the past, and to the end again', async () => {
  await page.keyboard.press('e');
  await page.keyboard.press(',');
  await expect
    .poll(() => page.locator('#moment-text').textContent(), { timeout: PATIENCE_MS })
    .toMatch(/^turn (\d+) of \1,/);
  await page.keyboard.press('Escape');
  await expect.poll(() => page.locator('#moment').isHidden(), { timeout: PATIENCE_MS }).toBe(true);
});

it.skipIf(skip).each([
  ['the first screen', []],
  ['the keys', ['?']],
  ['the pods', ['Escape', 'o']],
  ['a record and the past', ['Escape', 'e', 'End', ',', 'Enter']],
])('has nothing that axe complains of: %s', async (_, keys) => {
  for (const key of keys) await page.keyboard.press(key);
  expect(await violations(page)).toEqual([]);
});

it.skipIf(skip)('asks nothing of any other place, and its policy allows no script but its own', () => {
  expect(complaints).toEqual([]);
  const html = readFileSync(report, 'utf8');
  expect(html).toMatch(
    /Content-Security-Policy" content="default-src 'none'; script-src 'sha256-[\w+/=]+'; worker-src blob:;/,
  );
  expect(html).not.toMatch(/(?:src|href)="(?!data:)/);
});

it('that cannot be written is said, with the reason', () => {
  const file = join(folder, 'missing', 'report.html');
  expect(() => statelet('view', JOURNAL, '-o', file)).toThrow(/no report in .*missing\/report\.html: ENOENT/);
});
