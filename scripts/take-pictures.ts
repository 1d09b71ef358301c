/**
 * Takes the picture of the README: the report of a golden journal in Chromium, light and dark, into `docs/pictures`.
 *
 *     node scripts/take-pictures.ts
 *
 * Needs Chromium (`STATELET_CHROMIUM` names another) and `npm run bundle`. It is not compared in CI: fonts differ
 * between machines.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium, type Page } from 'playwright-core';

const ROOT = join(import.meta.dirname, '..');
const PICTURES = join(ROOT, 'docs/pictures');
const JOURNAL = join(ROOT, 'test/golden/journals/v3/node');
const VIEWPORT = { width: 1280, height: 860 };
/** Of WebP: letters stay sharp, and the picture takes some 90 KB. */
const QUALITY = 60;

async function take(page: Page): Promise<void> {
  const browser = await page.context().newCDPSession(page);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const { data } = await browser.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
    writeFileSync(join(PICTURES, `start-${colorScheme}.webp`), Buffer.from(data, 'base64'));
  }
}

const folder = mkdtempSync(join(tmpdir(), 'statelet-pictures-'));
const report = join(folder, 'report.html');
mkdirSync(PICTURES, { recursive: true });
execFileSync(process.execPath, [join(ROOT, 'src/bin/statelet.js'), 'view', JOURNAL, '--output', report]);
const browser = await chromium.launch({
  executablePath: process.env['STATELET_CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
try {
  const page = await browser.newPage({ viewport: VIEWPORT });
  await page.goto(pathToFileURL(report).href);
  await page.getByText('journal', { exact: true }).waitFor();
  await page.locator('#phase-list').evaluate('(list) => list.scrollTo(0, 0)');
  await take(page);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
