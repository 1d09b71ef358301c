/**
 * Bundles the visualizer's page into `dist/`: a part of `npm run bundle`, and alone `node scripts/bundle-page.ts`.
 *
 *     page.js            the page
 *     worker.js          its worker: records, search, the connection to a daemon
 *     reports.js         what the worker loads on demand: reports on a start,
 *     expressions.js     the engine of regular expressions of a search,
 *     journals.js        the reader of journals,
 *     execution.js       and the kernel with the machines
 *     report-worker.js   worker, reader and machines in one, for a report of one file
 *
 * The kernel runs in the browser unchanged; `src/visualizer/worker/node` replaces the modules of Node that it imports.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { InputOptions, OutputOptions, Plugin, rolldown as Rolldown } from 'rolldown';

const ROOT = join(import.meta.dirname, '..');
const PAGE = join(ROOT, 'src/visualizer');
const NODE = join(PAGE, 'worker/node');
const SOURCE_HASHES = join(ROOT, 'src/kernel/source-hashes.ts');
/** Modules with values that are computed from the machines: the page gets the values instead of the machines. */
const TABLES = ['src/bin/insight/supervisor.ts', 'src/visualizer/worker/chart-table.ts'].map((file) =>
  join(ROOT, file),
);

/** Replacements of Node's modules for a browser, by the modules' names. */
const STAND_INS = Object.fromEntries(
  ['crypto', 'fs', 'fs/promises', 'path', 'zlib'].map((name) => [
    `node:${name}`,
    join(NODE, `${name.replace('/', '-')}.ts`),
  ]),
);

const FOR_BROWSER = {
  platform: 'browser',
  resolve: { alias: STAND_INS },
  transform: {
    inject: { Buffer: [join(NODE, 'buffer.ts'), 'Buffer'] },
    define: { 'process.version': JSON.stringify('browser') },
  },
} satisfies InputOptions;

export async function writePage(rolldown: typeof Rolldown, target: string): Promise<void> {
  const plugins = [await shortPackage(), await tableOfHashes(), ...(await Promise.all(TABLES.map(tableOfValues)))];
  const write = async (name: string, source: string, output: OutputOptions): Promise<void> => {
    const bundle = await rolldown({ ...FOR_BROWSER, input: { [name]: join(PAGE, source) }, plugins });
    const names = { entryFileNames: '[name].js', chunkFileNames: '[name].js' };
    await bundle.write({ dir: target, ...names, minify: true, ...output });
    await bundle.close();
  };
  await write('page', 'app.ts', { format: 'esm' });
  await write('worker', 'worker/worker.ts', { format: 'esm' });
  // A page opened from a disk has no origin, and browsers load modules only from an origin.
  await write('report-worker', 'worker/worker.ts', { format: 'iife', codeSplitting: false });
}

/** Replaces XState's `package.json`, of which the kernel uses only the version. */
async function shortPackage() {
  const file = join(ROOT, 'node_modules/xstate/package.json');
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string };
  return { name: 'short-package', load: (id: string) => (id === file ? JSON.stringify({ version }) : null) };
}

/** Replaces the module that hashes the machines with the hashes that this process computes from the sources. */
export async function tableOfHashes(): Promise<Plugin> {
  const { sourceHashes } = await import('../src/kernel/source-hashes.ts');
  const code = `export const sourceHashes = () => (${JSON.stringify(sourceHashes())});`;
  return { name: 'source-hashes', load: (id) => (id === SOURCE_HASHES ? { code } : null) };
}

/** Replaces a module with its values, so that the page does not contain the machines. */
async function tableOfValues(file: string): Promise<Plugin> {
  const own = (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>;
  const values = Object.entries(own).map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`);
  return { name: 'values', load: (id) => (id === file ? { code: values.join('\n') } : null) };
}

if (import.meta.main) {
  const { rolldown } = await import('rolldown');
  await writePage(rolldown, join(ROOT, 'dist'));
}
