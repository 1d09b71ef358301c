/**
 * The visualizer's page and a journal in one file, for CI artifacts or bug reports. It works from disk without a
 * network and contains the worker with the machines, and all charts.
 *
 * Owns: the content of the file. Invariants: the file loads nothing from elsewhere, and its policy allows only its own
 * script. The caller redacts a journal with plain values.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { PACKAGE_DIRECTORY } from '../../package-directory.ts';
import { readAsset, readChart, readScript } from './assets.ts';
import type { JournalFiles } from './journal-files.ts';

/** Bytes of a journal that a browser can load in one file; view larger ones with `statelet view` without a file. */
const REPORT_MAX_BYTES = 128 * 1024 * 1024;
const DIAGRAMS = `${PACKAGE_DIRECTORY}/docs/diagrams`;
const STYLESHEET = /<link rel="stylesheet" href="\/assets\/([\w.-]+)" \/>/g;
const SCRIPT_TAG = '<script type="module" src="/assets/page.js"></script>';
const ICON = 'href="/assets/icon.svg"';

/** The HTML of the report; without files a page that opens journals. */
export async function reportHtml(files: JournalFiles | undefined): Promise<string> {
  const [page, icon, script, worker] = await Promise.all([
    text('index.html'),
    text('icon.svg'),
    readScript('page.js').then(withoutEnd),
    readScript('report-worker.js'),
  ]);
  const names = [...page.matchAll(STYLESHEET)].map(([, name = '']) => name);
  const styles = (await Promise.all(names.map(text))).join('\n');
  const tags = [
    dataTag('worker', Buffer.from(worker)),
    dataTag('charts', Buffer.from(JSON.stringify(await charts()))),
    ...(files ? [dataTag('journal', await packed(files))] : []),
  ];
  const sources = { default: "'none'", script: hashOf(script), worker: 'blob:', style: hashOf(styles), img: 'data:' };
  const policy = Object.entries(sources)
    .map(([kind, source]) => `${kind}-src ${source}`)
    .join('; ');
  const head = `<meta http-equiv="Content-Security-Policy" content="${policy}" />\n    <style>${styles}</style>`;
  // Inserted by functions, because an inserted text may contain replacement patterns.
  return page
    .replaceAll(STYLESHEET, '')
    .replace(ICON, () => `href="data:image/svg+xml;base64,${Buffer.from(icon).toString('base64')}"`)
    .replace(SCRIPT_TAG, () => head)
    .replace('</body>', () => `${tags.join('\n    ')}\n    <script type="module">${script}</script>\n  </body>`);
}

const dataTag = (id: string, data: Buffer): string =>
  `<script type="application/octet-stream" id="${id}">${gzipSync(data, { level: 9 }).toString('base64')}</script>`;

const hashOf = (source: string): string => `'sha256-${createHash('sha256').update(source).digest('base64')}'`;

/** The end tag of a script element would end it; in JavaScript text it may follow a backslash. */
const withoutEnd = (script: string): string => script.replaceAll('</script', '<\\/script');

async function text(name: string): Promise<string> {
  const asset = await readAsset(name);
  if (!asset) throw new Error(`the program has lost src/visualizer/${name}; install it again`);
  return asset.body;
}

/** A line of JSON with each file's name and length, followed by their bytes. */
async function packed(files: JournalFiles): Promise<Buffer> {
  const paths = files.names().map((name) => [name, files.pathOf(name)!] as const);
  const sizes = await Promise.all(paths.map(async ([, path]) => (await stat(path)).size));
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (bytes > REPORT_MAX_BYTES)
    throw new Error(`the journal has ${bytes} bytes, a report takes ${REPORT_MAX_BYTES}: look at it without --output`);
  const contents = await Promise.all(paths.map(([, path]) => readFile(path)));
  const names = paths.map(([name], at) => [name, contents[at]?.length]);
  return Buffer.concat([Buffer.from(`${JSON.stringify(names)}\n`), ...contents]);
}

/** All diagrams by sheet name: only running the journal shows which ones it needs. */
async function charts(): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const file of await readdir(DIAGRAMS)) {
    const chart = file.endsWith('.svg') ? await readChart(file) : undefined;
    if (chart) found[file.slice(0, -'.svg'.length)] = chart.body;
  }
  return found;
}
