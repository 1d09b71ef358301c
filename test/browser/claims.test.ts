/** Dynamic resources on the page: what a pod waits for, and the drivers of the node with the claims of pods. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KernelFeed } from '../../src/actors/server/visualizer/feed.ts';
import { Visualizer } from '../../src/actors/server/visualizer/visualizer.ts';
import { violations } from '../support/accessibility.ts';
import { launch, newPage, noBrowser, PATIENCE_MS } from '../support/browser.ts';
import { ClaimingPod, DRIVER } from '../support/claiming-pod.ts';

let browser: Browser;
let page: Page;
let pod: ClaimingPod;
let visualizer: Visualizer;
let complaints: string[];

beforeAll(async () => {
  if (noBrowser) return;
  const feed = new KernelFeed({ now: () => pod.cluster.node.world.time.now() });
  pod = new ClaimingPod({ hasDriver: false, onTurn: feed.onTurn });
  pod.cluster.node.run(20_000);
  visualizer = new Visualizer({ port: 0, token: 'token', feed });
  const url = await visualizer.listen();
  browser = await launch();
  ({ page, complaints } = await newPage(browser, url.origin));
  await page.goto(url.href);
  await page.getByText('live', { exact: true }).waitFor();
}, 2 * PATIENCE_MS);

afterAll(async () => {
  await browser?.close();
  await visualizer?.close();
});

const shows = (selector: string, pattern: RegExp) =>
  expect.poll(() => page.locator(selector).textContent(), { timeout: PATIENCE_MS }).toMatch(pattern);

describe.skipIf(noBrowser)('dynamic resources', () => {
  it("a pod's story says which claim of which driver it waits for, since when, the last error and the next try", async () => {
    await page.keyboard.press('o');
    const wait = `waits for ResourceClaim default/mine to be prepared by driver ${DRIVER} for`;
    await shows(
      '#pod-story .answer',
      new RegExp(`^Pending.*: ${wait} .*DRA driver ${DRIVER} is not registered; next try`),
    );
    await shows('#pod-story', /waits for the next try to prepare its ResourceClaims/);
    expect(await violations(page)).toEqual([]);
  });

  it('the health of the node names its drivers, and the claims with their pods', async () => {
    pod.register();
    pod.cluster.node.run(30_000);
    await page.keyboard.press('6');
    await shows('.drivers', new RegExp(`${DRIVER}v1.DRAPlugin at /dra.sock, listens`));
    await shows('.drivers', /ResourceClaim default\/mine: prepared, node\/mine-device default\/p$/);
    expect(await violations(page)).toEqual([]);
    await page.locator('.drivers button').click();
    await shows('#pod-story .answer', /^Running and ready/);
    expect(complaints).toEqual([]);
  });
});
