/**
 * The page of the visualizer and a journal in one file: for an artifact of CI, or beside a report of a fault. It works
 * from a disk without a network.
 *
 * Owns: what is written into the file. Invariants: values that may be secrets are hidden as on the page of a node; the
 * file asks nothing of any other place, and its policy allows no script but its own.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { PACKAGE_DIRECTORY } from '../../package-directory.ts';
import { readAsset, readChart } from './assets.ts';
import type { KernelFeed } from './feed.ts';
import type { ReportView } from './protocol.ts';

/** Made by `npm run bundle`; it comes with the package. */
const SCRIPT = `${PACKAGE_DIRECTORY}/dist/page.js`;
/** Characters of the contexts of all actors together; those after it are left out. */
const CONTEXTS_MAX_CHARS = 32 * 1024 * 1024;
const STYLESHEET = /<link rel="stylesheet" href="\/assets\/([\w.-]+)" \/>/g;
const SCRIPT_TAG = '<script type="module" src="/assets/app.ts"></script>';
const SHEET_LINK = /<a href="([\w.%-]+)\.svg">/g;
const ICON = 'href="/assets/icon.svg"';

/** The HTML of the report. Rejects with what to do where the page's script was not made. */
export async function reportHtml(feed: KernelFeed): Promise<string> {
  const [page, icon, script] = await Promise.all([text('index.html'), text('icon.svg'), pageScript()]);
  const names = [...page.matchAll(STYLESHEET)].map(([, name]) => name!);
  const styles = (await Promise.all(names.map(text))).join('\n');
  const data = gzipSync(JSON.stringify(await reportView(feed))).toString('base64');
  const policy = `default-src 'none'; script-src ${hashOf(script)}; style-src ${hashOf(styles)}; img-src data:`;
  const head = `<meta http-equiv="Content-Security-Policy" content="${policy}" />\n    <style>${styles}</style>`;
  // By functions: what is put in may hold the signs of a replacement.
  return page
    .replaceAll(STYLESHEET, '')
    .replace(ICON, () => `href="data:image/svg+xml;base64,${Buffer.from(icon).toString('base64')}"`)
    .replace(SCRIPT_TAG, () => head)
    .replace('</body>', () => `${dataTag(data)}\n    <script type="module">${script}</script>\n  </body>`);
}

const dataTag = (data: string): string => `<script type="application/octet-stream" id="report">${data}</script>`;

const hashOf = (source: string): string => `'sha256-${createHash('sha256').update(source).digest('base64')}'`;

async function text(name: string): Promise<string> {
  const asset = await readAsset(name);
  if (!asset) throw new Error(`the program has lost src/visualizer/${name}; install it again`);
  return asset.body;
}

async function pageScript(): Promise<string> {
  const script = await readFile(SCRIPT, 'utf8').catch(() => undefined);
  if (script === undefined) throw new Error(`${SCRIPT} is missing; npm run bundle makes it`);
  // An end of a script element would end it; in a text of JavaScript the sign may stand behind a backslash.
  return script.replaceAll('</script', '<\\/script');
}

async function reportView(feed: KernelFeed): Promise<ReportView> {
  const tree = feed.tree();
  const actors: Record<string, ReportView['actors'][string]> = {};
  let room = CONTEXTS_MAX_CHARS;
  for (const { address } of tree.actors) {
    const detail = feed.actor({ address, at: -1 });
    if (!detail) continue;
    const { records: _, context = '', ...facts } = detail;
    room -= context.length;
    actors[address] = { ...facts, ...(context !== '' && room > 0 ? { context } : {}) };
  }
  const charts = await chartsOf(tree.actors.map(({ machine }) => machine));
  return {
    tree,
    phases: feed.phases(),
    pods: feed.podList(),
    records: feed.records({ after: -1, limit: null }),
    actors,
    charts,
  };
}

/** The drawings of machines, with the sheets that their cards lead to. */
async function chartsOf(machines: readonly string[]): Promise<Record<string, string>> {
  const charts: Record<string, string> = {};
  const names = new Set(machines);
  // A set is walked with what is added on the way.
  for (const name of names) {
    const svg = (await readChart(`${name}.svg`))?.body;
    if (svg === undefined) continue;
    charts[name] = svg;
    for (const [, sheet] of svg.matchAll(SHEET_LINK)) names.add(decodeURIComponent(sheet!));
  }
  return charts;
}
