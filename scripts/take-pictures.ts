/**
 * Takes the pictures of the README in Chromium, light and dark, into `docs/pictures`: the page of a running node, a
 * journal at a moment of the past, and a report that compares two starts.
 *
 *     node scripts/take-pictures.ts
 *
 * The node starts twice on a containerd of its own, or on the embedded runtime if there is no containerd. Requires
 * Chromium (`STATELET_CHROMIUM` names another one) and `npm run bundle`. CI does not compare the pictures, because
 * fonts differ between machines.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium, type Page } from 'playwright-core';
import { BUILT_IN_IMAGE } from '../src/actors/embedded-runtime/store/images.ts';
import { containerdAvailable, startContainerd } from '../test/support/containerd.ts';
import { SLEEP, shellPod, TestNode } from '../test/support/daemon.ts';
import { BUSYBOX_IMAGE } from '../test/support/image.ts';

const ROOT = join(import.meta.dirname, '..');
const PICTURES = join(ROOT, 'docs/pictures');
const VIEWPORT = { width: 1200, height: 760 };
/** The quality of WebP: letters stay sharp, and a picture takes about 60 KB. */
const QUALITY = 50;
const PATIENCE_MS = 120_000;

async function take(page: Page, name: string): Promise<void> {
  const browser = await page.context().newCDPSession(page);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const { data } = await browser.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
    writeFileSync(join(PICTURES, `${name}-${colorScheme}.webp`), Buffer.from(data, 'base64'));
  }
}

/** Shows the page of the running node, once its pod runs. */
async function live(page: Page): Promise<void> {
  const token = readFileSync(join(node.rootDir, 'visualizer.token'), 'utf8').trim();
  await page.goto(`http://127.0.0.1:${node.visualizerPort}/?token=${token}`);
  await page.getByText('live', { exact: true }).waitFor();
  await page.locator('#chain-goal option', { hasText: 'web' }).waitFor({ state: 'attached' });
}

async function report(page: Page, file: string, hash: string): Promise<void> {
  await page.goto('about:blank');
  await page.goto(`${pathToFileURL(file).href}#${hash}`);
  await page.getByText('journal', { exact: true }).waitFor();
}

/** Shows the moment at which a container was requested to start: its chart, its context, its record. */
async function past(page: Page, file: string): Promise<void> {
  await report(page, file, `view=records&search=${encodeURIComponent('kind:result name:createContainer')}`);
  await page.locator('#rows [role=row]', { hasText: 'cri.createContainer answered' }).first().click();
  await page.locator('#record-body > .chain').waitFor();
  await page.locator('#grid').press('Enter');
  await page.locator('#decision li').first().waitFor();
  await page.locator('#actor .json').waitFor();
  await take(page, 'past');
}

async function comparison(page: Page, file: string): Promise<void> {
  await report(page, file, 'view=compare');
  await page.locator('.verdict').waitFor();
  await take(page, 'compare');
}

/** The second start finds the containers of the first one running, so only the first start creates containers. */
function reportOf(journal: string): string {
  const file = join(folder, 'report.html');
  execFileSync(process.execPath, [join(ROOT, 'src/bin/statelet.js'), 'view', journal, '--output', file]);
  return file;
}

const folder = mkdtempSync(join(tmpdir(), 'statelet-pictures-'));
const containerd = containerdAvailable() === null ? await startContainerd() : undefined;
const node = new TestNode(containerd ? { endpoint: containerd.endpoint } : {});
const browser = await chromium.launch({
  executablePath: process.env['STATELET_CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
try {
  mkdirSync(PICTURES, { recursive: true });
  node.write('web.json', shellPod('web', containerd ? BUSYBOX_IMAGE : BUILT_IN_IMAGE, SLEEP));
  const page = await browser.newPage({ viewport: VIEWPORT });
  page.setDefaultTimeout(PATIENCE_MS);
  await node.start();
  await live(page);
  await take(page, 'live');
  await node.stop('SIGTERM');
  await node.start();
  await live(page);
  await node.stop('SIGTERM');
  await past(page, reportOf(`${node.journal}@1`));
  await comparison(page, reportOf(node.journal));
} finally {
  await browser.close();
  await node.close();
  await containerd?.close();
  rmSync(folder, { recursive: true });
}
