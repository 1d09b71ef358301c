/** The page in a real browser: what users see and can do, and that a hostile log can do nothing. */
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Browser, chromium, type Page, type Request } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { assign, line, setup } from '../../src/kernel/xstate.ts';
import { TOKEN, watched } from '../actors/server/visualizer/support.ts';
import { header } from '../kernel/support.ts';
import { violations } from '../support/accessibility.ts';
import { freePort } from '../support/ports.ts';
import { requirement } from '../support/require.ts';

const CHROMIUM = process.env['STATELET_CHROMIUM'] ?? '/usr/bin/chromium';
const missing = existsSync(CHROMIUM) ? null : `there is no ${CHROMIUM}; STATELET_CHROMIUM names another`;
const OFFLINE = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** A browser aborts requests when a network of the machine appears or disappears, as those of other tests do. */
const NETWORK_CHANGED = 'ERR_NETWORK_CHANGED';
const LOAD_MS = 30_000;
/** A busy machine draws late; what is missing after this time never appears. */
const PATIENCE_MS = 60_000;

describe.skipIf(requirement('browser', missing).skip)('the visualizer', () => {
  let browser: Browser;
  let page: Page;
  let node: Awaited<ReturnType<typeof watched>>;
  /** What must not happen: errors, warnings, dialogs, requests to other places. */
  let complaints: string[];

  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: OFFLINE, timeout: 2 * PATIENCE_MS });
  });
  afterAll(() => browser?.close());

  beforeEach(async () => {
    complaints = [];
    page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    page.setDefaultTimeout(PATIENCE_MS);
    page.on('console', (message) => {
      if (!['error', 'warning'].includes(message.type())) return;
      if (!message.text().includes(NETWORK_CHANGED)) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('dialog', (dialog) => {
      complaints.push(`dialog ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('request', (request) => {
      if (new URL(request.url()).origin !== node.origin.origin) complaints.push(`asked ${request.url()}`);
    });
  });
  afterEach(async () => {
    await page.close();
    await node.close();
    expect(complaints).toEqual([]);
  });

  async function open(overrides: Parameters<typeof watched>[0] = {}, port = 0) {
    node = await watched(overrides, port);
    await load('#view=actors');
  }
  /** Loads again if the network of another test aborted the requests. */
  async function load(hash: string) {
    const url = new URL(hash, node.origin).href;
    const live = page.getByText('live', { exact: true });
    const isBrokenOff = (request: Request) => request.failure()?.errorText.includes(NETWORK_CHANGED) === true;
    const once = async () => {
      await page.goto('about:blank');
      const brokenOff = page.waitForEvent('requestfailed', { predicate: isBrokenOff, timeout: LOAD_MS });
      const loaded = page.goto(url).then(() => live.waitFor({ timeout: LOAD_MS }));
      return await Promise.any([loaded.then(() => true), brokenOff.then(() => false)]);
    };
    await expect.poll(once, { timeout: 4 * LOAD_MS }).toBe(true);
  }
  const hire = (name: string) => node.kernel.dispatch('boss', { type: 'hire', name }, 'test');
  const actor = (name: string) => page.getByRole('treeitem', { name: new RegExp(`^${name},`) });
  const activeIds = () =>
    page
      .locator('#sheet .state.active')
      .evaluateAll((states) => states.map((state) => state.getAttribute('data-id') ?? ''));

  it('shows the actors as a tree, and the root first', async () => {
    await open();
    await expect.poll(() => page.getByRole('treeitem').allTextContents()).toEqual(['▾boss opening', 'ledger ']);
    await expect.poll(() => actor('boss').getAttribute('aria-selected')).toBe('true');
    await expect.poll(activeIds).toEqual(['boss', 'boss.opening']);
    await expect.poll(() => page.locator('#actor').textContent()).toContain('answer to world.look');
  });

  it('lights a new state while one looks, without loading again', async () => {
    await open();
    await expect.poll(activeIds).toEqual(['boss', 'boss.opening']);
    await page.evaluate('window.notReloaded = true');
    node.world.answer('world.look', { output: { seen: 'rain' } });
    await expect.poll(activeIds).toEqual(['boss', 'boss.open']);
    await expect.poll(() => page.locator('.edge.taken').getAttribute('data-event')).toContain('xstate.done.actor.look');
    expect(await page.evaluate('window.notReloaded')).toBe(true);
    await page.keyboard.press('1');
    await expect.poll(() => page.locator('#phase-list li[data-entered]').count()).toBe(2);
  });

  it('shows the chart of the actor that is chosen', async () => {
    await open();
    hire('ann');
    await actor('worker-ann').click();
    await expect.poll(activeIds).toEqual(['worker', 'worker.idle']);
    await expect.poll(() => page.locator('#actor .json').textContent()).toContain('"name": "ann"');
    node.kernel.dispatch('boss', { type: 'order', name: 'ann' }, 'test');
    await expect.poll(activeIds).toEqual(['worker', 'worker.making']);
    expect(page.url()).toContain('actor=boss%2Fworker-ann');
  });

  it('lights the causes of a record, back to the first input', async () => {
    await open();
    hire('ann');
    node.kernel.dispatch('boss', { type: 'order', name: 'ann' }, 'test');
    await page.getByRole('row', { name: /worker-ann making/ }).click();
    const steps = page.locator('#record-body > .chain button');
    await expect.poll(() => steps.count()).toBe(3);
    expect((await steps.allTextContents()).map((text) => text.replace(/ .*/, ''))).toEqual([
      'stateworker-ann:',
      'messageworker-ann:',
      'inputboss:',
    ]);
    await expect.poll(() => page.locator('#rows .because').count()).toBe(2);
    await page.getByRole('grid').press('c');
    await expect.poll(() => page.locator('#record-title').textContent()).not.toBe('');
    await expect.poll(() => page.locator('#rows .followed').count()).toBeGreaterThan(0);
  });

  it('goes back to any moment, and to the present again', async () => {
    await open();
    hire('ann');
    node.kernel.dispatch('boss', { type: 'order', name: 'ann' }, 'test');
    node.world.answer('world.make', { output: { made: 'shoe' } });
    await actor('worker-ann').click();
    await expect.poll(activeIds).toEqual(['worker', 'worker.idle']);
    await page.getByRole('row', { name: /worker-ann making/ }).click();
    await expect.poll(activeIds).toEqual(['worker', 'worker.making']);
    await expect.poll(() => actor('worker-ann').textContent()).toContain('making');
    await expect.poll(() => page.locator('#actor').textContent()).toContain('answer to world.make');
    await expect.poll(() => page.locator('#moment-text').textContent()).toContain('turn 2 of 3');
    const shown = () =>
      page.locator('.sequence button').evaluateAll((arrows) => arrows.map((arrow) => arrow.getAttribute('aria-label')));
    await expect
      .poll(shown)
      .toEqual(['world to boss: order', 'boss to worker-ann: work', 'worker-ann to world: world.make']);
    await page.keyboard.press('Home');
    await page.keyboard.press('e');
    await page.keyboard.press('Home');
    await expect.poll(() => actor('worker-ann').count()).toBe(0);
    await page.getByText('worker-ann is not there at this moment').first().waitFor();
    await page.keyboard.press('.');
    await page.keyboard.press('Escape');
    await expect.poll(activeIds).toEqual(['worker', 'worker.idle']);
    await expect.poll(() => page.locator('#moment').isVisible()).toBe(false);
  });

  it('scrolls to the state that is active, and nothing but the chart', async () => {
    await page.setViewportSize({ width: 700, height: 600 });
    await open();
    await page.getByRole('button', { name: 'Zoom in' }).click({ clickCount: 5 });
    node.world.answer('world.look', { output: { seen: 'rain' } });
    await expect.poll(activeIds).toEqual(['boss', 'boss.open']);
    const [title, sheet] = ['[data-id="boss.open"] .title', '#sheet'].map((one) => page.locator(one).first());
    const [inner, outer] = [await title!.boundingBox(), await sheet!.boundingBox()];
    expect(inner!.x).toBeGreaterThanOrEqual(outer!.x);
    expect(inner!.y).toBeGreaterThanOrEqual(outer!.y);
    expect(inner!.x + inner!.width).toBeLessThanOrEqual(outer!.x + outer!.width);
    expect(inner!.y + inner!.height).toBeLessThanOrEqual(outer!.y + outer!.height);
    expect(await page.evaluate('scrollX')).toBe(0);
  });

  it('says of a start that failed which phase it was, and why', async () => {
    await open({ machine: broken });
    node.kernel.dispatch('broken', { type: 'heard' }, 'test');
    await page.getByText(/^Failed after \d+ ms in runtime: no socket$/).waitFor();
    await page.keyboard.press('1');
    await expect.poll(() => page.locator('#phase-list .bar.failed').count()).toBe(1);
    await expect.poll(() => page.locator('#phase-list .error').textContent()).toBe('failed: no socket');
    await page.keyboard.press('2');
    await expect.poll(() => actor('broken').getAttribute('aria-label')).toBe('broken, failed, done, failed');
  });

  it('has nothing that axe complains of while a node runs', async () => {
    await open();
    hire('ann');
    await actor('worker-ann').click();
    await expect.poll(activeIds).toEqual(['worker', 'worker.idle']);
    expect(await violations(page)).toEqual([]);
  });

  it('has nothing that axe complains of when a start failed', async () => {
    await open({ machine: broken });
    node.kernel.dispatch('broken', { type: 'heard' }, 'test');
    await page.getByText(/^Failed after /).waitFor();
    expect(await violations(page)).toEqual([]);
  });

  it('can be used with keys alone', async () => {
    await open();
    hire('ann');
    hire('bob');
    await actor('worker-bob').waitFor();
    await page.keyboard.press('t');
    await page.keyboard.press('End');
    await expect.poll(() => actor('worker-bob').getAttribute('aria-selected')).toBe('true');
    await page.keyboard.press('ArrowLeft');
    await expect.poll(() => actor('boss').getAttribute('aria-selected')).toBe('true');
    await page.keyboard.press('ArrowLeft');
    await expect.poll(() => page.getByRole('treeitem').count()).toBe(1);
    await page.keyboard.press('/');
    await page.keyboard.type('ann');
    await expect.poll(() => page.getByRole('treeitem').count()).toBe(2);
    await page.keyboard.press('Enter');
    await page.keyboard.press('ArrowDown');
    await expect.poll(() => actor('worker-ann').getAttribute('aria-selected')).toBe('true');
    await page.keyboard.press('e');
    await page.keyboard.press('ArrowUp');
    await page.getByRole('heading', { name: /^Record \d+$/ }).waitFor();
    await page.keyboard.press('Escape');
    await expect.poll(() => page.locator('#record').isVisible()).toBe(false);
    await page.keyboard.press('?');
    await expect.poll(() => page.getByRole('dialog').textContent()).toContain('Go to the actors');
    await page.keyboard.press('Escape');
    await expect.poll(() => page.getByRole('dialog').isVisible()).toBe(false);
  });

  it('shows hostile text as text, wherever it comes in', async () => {
    await open({ machine: echo });
    node.kernel.dispatch('echo', { type: 'say', text: HOSTILE }, HOSTILE);
    await page.getByRole('row', { name: /"again"/ }).click();
    await expect.poll(activeIds).toEqual(['echo', 'hostile']);
    await expect.poll(() => page.locator('#sheet .active .title').allTextContents()).toEqual(['echo', HOSTILE]);
    await expect.poll(() => actor('echo').textContent()).toContain('onerror');
    await expect.poll(() => page.locator('#actor .json').textContent()).toContain('onerror');
    await expect.poll(() => page.locator('#rows').textContent()).toContain(HOSTILE);
    await expect.poll(() => page.locator('#record-body .json').textContent()).toContain('onerror');
    await load(`#view=actors&actor=${encodeURIComponent(HOSTILE)}&record=1`);
    expect(await page.locator('img, iframe, script:not([src])').count()).toBe(0);
    expect(await page.evaluate('window.pwned')).toBeUndefined();
  });

  it('keeps its token from the address, and from other ports of the machine', async () => {
    const heard: (string | undefined)[] = [];
    const other = createServer(({ headers }, response) => {
      heard.push(headers.cookie, headers.referer);
      response.setHeader('content-type', 'text/html').end('<title>other</title><link rel="icon" href="data:,">');
    });
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    await open();
    expect(page.url()).not.toContain(TOKEN);
    await page.reload();
    await page.getByText('live', { exact: true }).waitFor();
    await page.goto(`http://127.0.0.1:${port}/`);
    await page.goBack();
    await page.getByText('live', { exact: true }).waitFor();
    await page.evaluate(`location.href = 'http://127.0.0.1:${port}/'`);
    await expect.poll(() => page.title()).toBe('other');
    expect(heard.length).toBeGreaterThanOrEqual(4);
    expect(heard.filter((each) => each !== undefined)).toEqual([]);
    complaints = complaints.filter((text) => text !== `asked http://127.0.0.1:${port}/`);
    await new Promise((resolve) => other.close(resolve));
  });

  it('follows a busy node without growing', async () => {
    await open();
    for (let i = 0; i < 900; i++) node.kernel.dispatch('boss', { type: 'order', name: '' }, 'test');
    await expect.poll(() => page.locator('#counts').textContent()).toBe('2 actors, turn 900');
    const last = page.getByRole('row', { name: `${node.kernel.n - 2}`, exact: false }).last();
    await expect.poll(() => last.isVisible()).toBe(true);
    expect(await page.locator('#rows > *').count()).toBeLessThan(60);
  });

  it('loads the present again when the daemon comes back as another incarnation', async () => {
    const port = await freePort();
    await open({}, port);
    await node.visualizer.close();
    await page.getByText('lost, trying again').waitFor();
    await page.getByText(/^The agent does not answer; when it was last there: /).waitFor();
    const other = { ...header(), incarnation: 'i2', node: 'reborn' };
    const again = await watched({ header: other }, port);
    await page.getByText('reborn', { exact: true }).waitFor();
    await page.getByText('live', { exact: true }).waitFor();
    await again.close();
    await page.getByText('lost, trying again').waitFor();
    complaints = complaints.filter((text) => !text.includes('net::ERR_'));
  });
});

const HOSTILE = '<img src=x onerror="pwned=1"><script>pwned=1</script>';

/** Fails in its first phase, in the turn in which the phase began. */
const broken = setup({}).createMachine({
  id: 'broken',
  initial: 'command',
  states: {
    command: { meta: { waitsFor: 'the flags' }, on: { heard: 'runtime' } },
    runtime: { meta: { waitsFor: 'the runtime' }, always: 'failed' },
    failed: { type: 'final', entry: line('error', ['command failed', { err: 'no socket', phase: 'runtime' }]) },
  },
});

/** Logs and stores what it receives, in a state with a hostile name. */
const echo = setup({
  types: { context: {} as { heard: string }, events: {} as { type: 'say'; text: string } },
}).createMachine({
  id: 'echo',
  context: { heard: '' },
  initial: 'quiet',
  states: { quiet: {}, [HOSTILE]: { id: 'hostile' } },
  on: {
    say: {
      target: '#hostile',
      actions: [
        line('info', ({ event }) => [event.text, { again: event.text }]),
        assign({ heard: ({ event }) => event.text }),
      ],
    },
  },
});
