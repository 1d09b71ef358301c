/** Which code to run: the sources, or the one piece that `npm run bundle` made of them when nothing was changed since. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { loadBundle } from './compiled-bundle.js';

const ROOT = join(import.meta.dirname, '../..');
const SOURCES = join(ROOT, 'src');
const BUNDLE = join(ROOT, 'dist/main.cjs');

/** @returns {Promise<typeof import('./commands/main.ts')>} */
export const newestCode = async (compiledDirectory) =>
  bundleIsCurrent() ? loadBundle(BUNDLE, compiledDirectory) : import('./commands/main.ts');

function bundleIsCurrent() {
  const madeMs = statSync(BUNDLE, { throwIfNoEntry: false })?.mtimeMs;
  if (madeMs === undefined) return false;
  // An installed package has no sources, and times of its files and folders that say nothing.
  if (!existsSync(join(SOURCES, 'bin/commands/main.ts'))) return true;
  // A file that was taken away shows in the time of its directory.
  const paths = ['', ...readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })];
  return paths.every((path) => statSync(join(SOURCES, path)).mtimeMs < madeMs);
}
