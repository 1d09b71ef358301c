/**
 * A journal in the browser: served, opened from files and folders, dropped; faults of journals; and the three examples
 * of the documentation for a node that does not start, by keys alone.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { JournalFiles } from '../../src/actors/server/visualizer/journal-files.ts';
import { reportHtml } from '../../src/actors/server/visualizer/report.ts';
import { Visualizer } from '../../src/actors/server/visualizer/visualizer.ts';
import { violations } from '../support/accessibility.ts';
import { launch, newPage, noBrowser, PATIENCE_MS } from '../support/browser.ts';
import { divergingJournal, hostileJournal, startsJournal } from '../support/starts-journal.ts';

/** The limit of keys for one example. */
const KEYS_MAX = 12;

const folder = mkdtempSync(join(tmpdir(), 'statelet-opened-'));
const journal = join(folder, 'journal');
const empty = join(folder, 'page.html');
let browser: Browser;
let page: Page;
let complaints: string[];
let wasCutOff: () => boolean;
let closing: (() => Promise<void>)[] = [];

beforeAll(async () => {
  if (noBrowser) return;
  await startsJournal(journal, { isWaiting: true });
  writeFileSync(empty, await reportHtml(undefined));
  browser = await launch();
}, 2 * PATIENCE_MS);
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});
afterEach(async () => {
  for (const close of closing.toReversed()) await close();
  closing = [];
  expect(complaints).toEqual([]);
});

/** The page of a server with the start of this number. */
async function served(start: number, hash = '', directory = journal): Promise<void> {
  const files = new JournalFiles(directory, `00000${start}`);
  const visualizer = new Visualizer({ port: 0, token: 'token', journal: files });
  const url = await visualizer.listen();
  closing.push(() => visualizer.close());
  await opened(new URL(hash, url).href, url.origin);
  await isRead();
}

/** A page from the disk that opens journals. */
async function fromDisk(): Promise<void> {
  await opened(pathToFileURL(empty).href, 'file:');
  await page.locator('#opening[open]').waitFor();
}

async function opened(url: string, origin: string): Promise<void> {
  const watched = await newPage(browser, origin, origin === 'file:' ? { offline: true } : {});
  ({ page, complaints, wasCutOff } = watched);
  closing.push(() => watched.page.context().close());
  await page.goto(url);
}

const isRead = () =>
  expect
    .poll(
      async () => {
        if (wasCutOff()) await page.reload();
        return await page.getByText('journal', { exact: true }).isVisible();
      },
      { timeout: PATIENCE_MS },
    )
    .toBe(true);
const summary = () => page.locator('#summary').textContent();
const shown = (text: string | RegExp) => expect.poll(summary, { timeout: PATIENCE_MS }).toMatch(text);
const segments = () => readdirSync(journal).filter((name) => name.endsWith('.ndjson'));

/** Presses one key after the other, each after the result of the previous one is drawn. */
async function walk(keys: readonly (readonly [key: string, seen: () => Promise<unknown>])[]): Promise<void> {
  expect(keys.length).toBeLessThanOrEqual(KEYS_MAX);
  for (const [key, seen] of keys) {
    await page.keyboard.press(key);
    await seen();
  }
}

const sees = (selector: string, text: RegExp) => () =>
  expect.poll(() => page.locator(selector).first().textContent(), { timeout: PATIENCE_MS }).toMatch(text);
const focusIs = (text: RegExp) => () =>
  expect.poll(() => page.evaluate('document.activeElement.textContent'), { timeout: PATIENCE_MS }).toMatch(text);

describe.skipIf(noBrowser)('a journal opens', () => {
  it('from the server of the page, with its other starts to compare with', async () => {
    await served(2);
    await shown(/^Ready after 52 ms/);
    await page.keyboard.press('6');
    await sees('#health-body', /run again.*same decisions/)();
  });

  it('from files that a person chose, on a page without a server or a network', async () => {
    await fromDisk();
    await page.locator('#open-files').setInputFiles(join(journal, segments()[1]!));
    await isRead();
    await shown(/^Ready after 52 ms/);
  });

  it('from a folder', async () => {
    await fromDisk();
    await page.locator('#open-folder').setInputFiles(journal);
    await isRead();
    await shown(/^Not ready for .+ run\.runtimeService waits for the container runtime to answer/);
  });

  it('that was dropped', async () => {
    await fromDisk();
    const [name] = segments();
    const text = readFileSync(join(journal, name!), 'utf8');
    const data = await page.evaluateHandle(
      `(() => { const data = new DataTransfer(); data.items.add(new File([${JSON.stringify(text)}], '${name}')); return data; })()`,
    );
    await page.locator('body').dispatchEvent('drop', { dataTransfer: data });
    await isRead();
    await shown(/^Ready after 52 ms/);
  });
});

describe.skipIf(noBrowser)('how its agent ended', () => {
  const golden = (name: string) => join(import.meta.dirname, '../golden/journals/v4', name);
  const note = () => page.locator('#note').textContent();

  it('is in the journal when it was stopped, or failed', async () => {
    await served(1, '', golden('startup-signal'));
    await shown(/^Ended after /);
    expect(await note()).toBe('');
    await served(1, '', golden('startup-wrong-configuration'));
    await shown(/^Failed after /);
    expect(await note()).toBe('');
  });

  it('is not known when the journal just ends: it may still run', async () => {
    await served(2);
    await sees('#note', /^The journal ends at \+\d.+ without an end of the agent: it went on, or was killed$/)();
  });
});

describe.skipIf(noBrowser)('what is wrong with a journal is said', () => {
  const give = async (name: string, bytes: string | Buffer) => {
    const path = join(folder, name);
    writeFileSync(path, bytes);
    await fromDisk();
    await page.locator('#open-files').setInputFiles(path);
  };
  const whole = () => readFileSync(join(journal, segments()[1]!), 'utf8');

  it('when no file is of one', async () => {
    await give('notes.json', '{}');
    await sees('#open-error', /no file of a journal is among them: open the folder/)();
  });

  it('when it is not what was written', async () => {
    await give('j-000009-000000000000.ndjson', Buffer.alloc(5_000, 'x'));
    await sees('#open-error', /j-000009-000000000000\.ndjson/)();
  });

  it('in the first line, when the page was to show it', async () => {
    const directory = join(folder, 'bad');
    mkdirSync(directory);
    writeFileSync(join(directory, 'j-000001-000000000000.ndjson'), 'x'.repeat(4_000));
    const visualizer = new Visualizer({ port: 0, token: 'token', journal: new JournalFiles(directory) });
    const url = await visualizer.listen();
    closing.push(() => visualizer.close());
    await opened(url.href, url.origin);
    await shown(/^Nothing is open: j-000001-000000000000\.ndjson: it does not begin with the header of a journal$/);
    await sees('#connection', /^not open$/)();
  });

  it.each([
    ['200,000 levels deep', '['.repeat(200_000)],
    ['32 MB long', `{"k":"header","node":"${'x'.repeat(32 * 1_048_576)}"}`],
  ])('when a line is %s', async (_, line) => {
    await give('j-000009-000000000000.ndjson', `00000000 ${line}\n`);
    await sees('#open-error', /j-000009-000000000000\.ndjson/)();
  });

  it('when compressed bytes are damaged', async () => {
    await give('j-000009-000000000000.ndjson.zst', Buffer.alloc(5_000, 7));
    await sees('#open-error', /it cannot be decompressed/)();
  });

  it('in the middle: what is before it is shown', async () => {
    const lines = whole().split('\n');
    lines[200] = lines[200]!.replace(/"k":/, '"K":');
    await give('j-000002-000000000000.ndjson', lines.join('\n'));
    await sees('#note', /cannot be read further: .*line 201.*was changed after it was written/)();
    await shown(/^Ready after|^Not ready|^Starting/);
  });

  it('at the end: a turn that is not whole is left out', async () => {
    await give('j-000002-000000000000.ndjson', whole().slice(0, -700));
    await isRead();
    await sees('#note', /^The last \d+ bytes are not a whole turn and were left out$/)();
  });
});

describe.skipIf(noBrowser)('a journal of a stranger', () => {
  /** Markup, a terminal's escape sequence, and a mark that changes the direction of reading. */
  const HOSTILE = '<img src=x onerror="pwned=1"><script>pwned=1</script>\u001b]0;x\u0007\u202etxt';
  const directory = join(folder, 'hostile');
  beforeAll(() => hostileJournal(directory, HOSTILE));

  it('is text, whatever is in it, in every view', async () => {
    await served(1, '', directory);
    expect(await page.locator('#node').textContent()).toBe(HOSTILE);
    for (const key of ['1', '2', '3', '4', '5', '6']) {
      await page.keyboard.press(key);
      await expect.poll(() => page.locator('#views [aria-current]').textContent()).toContain(key);
    }
    await page.keyboard.press('4');
    await page.keyboard.press('s');
    await page.keyboard.type('onerror');
    const rows = page.locator('#rows [role=row]');
    const areFound = async () => (await rows.allTextContents()).every((text) => text.includes('onerror'));
    await expect.poll(areFound, { timeout: PATIENCE_MS }).toBe(true);
    await page.keyboard.press('Enter');
    await page.keyboard.press('End');
    await sees('#record-body .json', /onerror/)();
    expect(await page.locator('img, iframe, body script:not([src])').count()).toBe(0);
    expect(await page.evaluate('window.pwned')).toBeUndefined();
  });
});

describe.skipIf(noBrowser)('a journal that this build decides otherwise', () => {
  const directory = join(folder, 'diverging');
  /** In the middle of the start. */
  const TURN = 10;
  let from: number;
  beforeAll(async () => {
    from = await divergingJournal(directory, TURN);
  });
  const firstScreen = async () => {
    await shown(/^Ready after 52 ms/);
    await sees('#note', new RegExp(`^From record ${from} on this build decides otherwise .* is from the records`))();
    const phases = await page.locator('#phase-list li[data-entered]').allTextContents();
    expect(phases.some((text) => text.includes('synchronizing'))).toBe(true);
    await sees('#blame-body', /cri\.pullImage/)();
    await sees('#chain-body', /waited .* for answers, .* for timers and events/)();
    expect(await violations(page)).toEqual([]);
  };

  it('has its first screen and its pods from the records, and says where contexts end', async () => {
    await served(1, '', directory);
    await firstScreen();
    await page.keyboard.press('3');
    await sees('#pod-story .answer', /^Running and ready, ran \d+ ms after/)();
    await page.keyboard.press('2');
    await sees('#actor .json', new RegExp(`^Not known: from record ${from} on the machines do not run here`))();
    await page.evaluate(`location.hash = 'view=actors&actor=kubelet&record=${from - 20}'`);
    await sees('#actor .json', /"/)();
  });

  it('has it so in a report of one file', async () => {
    const report = join(folder, 'diverging.html');
    writeFileSync(report, await reportHtml(new JournalFiles(directory, '000001')));
    await opened(pathToFileURL(report).href, 'file:');
    await isRead();
    await firstScreen();
  });
});

describe.skipIf(noBrowser)('by keys alone one', () => {
  it('finds the slow step', async () => {
    await served(2);
    await walk([
      ['b', focusIs(/^4\.50 s.*cri\.pullImage/)],
      ['Enter', sees('#moment-text', /^turn \d+ of \d+/)],
      ['i', sees('#record-body', /Because of.*request.*cri\.pullImage/)],
    ]);
  });

  it('finds why it waits', async () => {
    await served(3);
    await shown(/waits for the container runtime to answer \(runtime\.connect of unix:\S+ has not answered/);
    await walk([
      ['w', sees('#record-body', /Because of.*request.*runtimeService: runtime\.connect/)],
      ['i', focusIs(/runtime\.connect/)],
      ['e', () => Promise.resolve()],
      ['Enter', sees('#actor', /waits for|answer to runtime\.connect/)],
    ]);
  });

  it('finds what differs from the last good boot', async () => {
    await served(2);
    await walk([
      ['5', sees('.verdict', /^Start 000002 took/)],
      ['x', focusIs(/^\+4\.00 s.*cri\.pullImage answered/)],
      ['Enter', sees('#record-title', /^Record \d+$/)],
    ]);
    await sees('#record-body', /cri\.pullImage answered/)();
  });
});

describe.skipIf(noBrowser)('any moment', () => {
  it('is there with the contexts of then, by record and by turn', async () => {
    await served(1, '#view=actors&actor=kubelet%2Fpods%2Fpod-u1%2Fcontainer-app');
    const context = () => page.locator('#actor .json').textContent();
    await expect.poll(context, { timeout: PATIENCE_MS }).toContain('"state": "running"');
    await page.keyboard.press('4');
    await page.keyboard.press('s');
    await page.keyboard.type('kind:request name:createContainer');
    await page.keyboard.press('Enter');
    await sees('#events-note', /^\d of /)();
    await page.keyboard.press('End');
    await sees('#record-body', /cri\.createContainer/)();
    await page.keyboard.press('2');
    await sees('#decision', /Heard container\.permitted/)();
    await sees('#actor', /answer to cri\.createContainer/)();
    await page.keyboard.press(']');
    await sees('#decision', /Heard create is done.*✓ taken/)();
    await sees('#record-body', /Changed in the context of container-app/)();
    await page.keyboard.press('Escape');
    await expect.poll(() => page.locator('#moment').isHidden(), { timeout: PATIENCE_MS }).toBe(true);
  });

  it('is in the address, with the search', async () => {
    await served(1, '#view=records&record=200&search=kind%3Astate&group=actor');
    await sees('#record-title', /^Record 200$/)();
    await sees('#groups', /kubelet/)();
    expect(await page.locator('#search').inputValue()).toBe('kind:state');
    await page.locator('#groups button', { hasText: 'kubelet/pleg' }).first().click();
    await expect.poll(() => page.locator('#search').inputValue()).toContain('actor:"kubelet/pleg"');
    expect(new URL(page.url()).hash).toContain('search=kind%3Astate+actor');
    await page.evaluate("location.hash = 'view=records&group=sequence'");
    await page.locator('#groups .arrow').first().waitFor();
    await page.evaluate("location.hash = 'view=records'");
    await expect.poll(() => page.locator('#grid').isVisible(), { timeout: PATIENCE_MS }).toBe(true);
    expect(await page.locator('#groups').isHidden()).toBe(true);
  });
});

describe.skipIf(noBrowser)('nothing that axe knows is wrong', () => {
  it.each(['start', 'actors', 'pods', 'records', 'compare', 'health'])(
    'with the view: %s',
    async (view) => {
      await served(2, `#view=${view}&record=150`);
      await page.getByText(/^turn \d+ of/).waitFor();
      if (view === 'compare') await page.locator('.verdict').waitFor();
      expect(await violations(page)).toEqual([]);
    },
    4 * PATIENCE_MS,
  );

  it('with the page that opens journals, and a sequence', async () => {
    await fromDisk();
    await page.getByRole('dialog').waitFor();
    expect(await violations(page)).toEqual([]);
    await page.locator('#open-folder').setInputFiles(journal);
    await isRead();
    await page.keyboard.press('4');
    await page.locator('#group').selectOption('sequence');
    await page.locator('#groups .arrow').first().waitFor();
    expect(await violations(page)).toEqual([]);
  });

  it('with the colours of the system, and without motion', async () => {
    await served(2, '#view=start');
    await page.emulateMedia({ forcedColors: 'active', reducedMotion: 'reduce' });
    const style = (property: string) =>
      `getComputedStyle(document.querySelector('#phase-list .bar')).getPropertyValue('${property}')`;
    expect(await page.evaluate(style('border-top-style'))).toBe('solid');
    expect(await page.evaluate(style('transition-duration'))).toMatch(/^0s/);
    expect(await violations(page)).toEqual([]);
  });
});
