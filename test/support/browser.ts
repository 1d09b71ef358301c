/**
 * Chromium for tests of the page: it can reach only the page's server, and everything that must not happen is recorded.
 */
import { existsSync } from 'node:fs';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { patient } from './patience.ts';
import { requirement } from './require.ts';

const CHROMIUM = process.env['STATELET_CHROMIUM'] ?? '/usr/bin/chromium';
const missing = existsSync(CHROMIUM) ? null : `there is no ${CHROMIUM}; STATELET_CHROMIUM names another`;
export const { skip: noBrowser } = requirement('browser', missing);

/** A busy machine draws late; what is missing after this time never appears. */
export const PATIENCE_MS = patient(60_000);

/**
 * Chromium aborts requests when an interface of the machine appears or disappears, as those of other tests' sandboxes
 * do.
 */
const CUT_OFF = 'net::ERR_NETWORK_CHANGED';

export const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
    timeout: 2 * PATIENCE_MS,
  });

export interface WatchedPage {
  readonly page: Page;
  /** Errors, warnings, and requests to other places than `origin`. */
  readonly complaints: string[];
  /** Whether requests were aborted since the last call: then the page has to be loaded again. */
  readonly wasCutOff: () => boolean;
}

export async function newPage(
  browser: Browser,
  origin: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  let isCutOff = false;
  page.setDefaultTimeout(PATIENCE_MS);
  page.on('console', (message) => {
    const isComplaint = ['error', 'warning'].includes(message.type());
    if (isComplaint && !message.text().includes(CUT_OFF)) complaints.push(message.text());
  });
  page.on('requestfailed', (request) => {
    isCutOff ||= request.failure()?.errorText === CUT_OFF;
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && !/^(?:data|blob):/.test(request.url())) complaints.push(request.url());
  });
  const wasCutOff = (): boolean => {
    const was = isCutOff;
    isCutOff = false;
    return was;
  };
  return { page, complaints, wasCutOff };
}
