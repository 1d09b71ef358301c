/**
 * Puts the visualizer's page into a few files in `dist/`: `npm run bundle`, and alone `node scripts/bundle-page.ts`.
 *
 *     page.js            the page
 *     worker.js          its worker: records, search, the connection to a daemon
 *     reports.js         what the worker loads on demand: reports on a start,
 *     expressions.js     the engine of regular expressions of a search,
 *     journals.js        the reader of journals,
 *     execution.js       and the kernel with the machines
 *     report-worker.js   worker, reader and machines in one, for a report of one file
 *
 * The kernel runs in the browser as it is; what it uses of Node, `src/visualizer/worker/node` has for it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { InputOptions, OutputOptions, Plugin, rolldown as Rolldown } from 'rolldown';

const ROOT = join(import.meta.dirname, '..');
const PAGE = join(ROOT, 'src/visualizer');
const NODE = join(PAGE, 'worker/node');
const SOURCE_HASHES = join(ROOT, 'src/kernel/source-hashes.ts');
/** Modules that compute plain values from the machines. */
const TABLES = ['src/bin/insight/supervisor.ts', 'src/visualizer/worker/chart-table.ts'].map((file) =>
  join(ROOT, file),
);

/** Node's modules by their names, for a browser. */
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
  // A page from a disk has no origin, and modules are loaded from an origin only.
  await write('report-worker', 'worker/worker.ts', { format: 'iife', codeSplitting: false });
}

/** Of XState's package the kernel asks for its version alone. */
async function shortPackage() {
  const file = join(ROOT, 'node_modules/xstate/package.json');
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string };
  return { name: 'short-package', load: (id: string) => (id === file ? JSON.stringify({ version }) : null) };
}

/** Puts the hashes of the machines, as this process makes them of the sources, in the place of what makes them. */
export async function tableOfHashes(): Promise<Plugin> {
  const { sourceHashes } = await import('../src/kernel/source-hashes.ts');
  const code = `export const sourceHashes = () => (${JSON.stringify(sourceHashes())});`;
  return { name: 'source-hashes', load: (id) => (id === SOURCE_HASHES ? { code } : null) };
}

/** Puts the values of a module in its place: the page then has them without the machines. */
async function tableOfValues(file: string): Promise<Plugin> {
  const own = (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>;
  const values = Object.entries(own).map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`);
  return { name: 'values', load: (id) => (id === file ? { code: values.join('\n') } : null) };
}

if (import.meta.main) {
  const { rolldown } = await import('rolldown');
  await writePage(rolldown, join(ROOT, 'dist'));
}
