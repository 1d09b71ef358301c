/** Chooses the code to run: the bundle of `npm run bundle` if no source has changed since, otherwise the sources. */
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
  // An installed package has no sources, and the times of its files and folders are arbitrary.
  if (!existsSync(join(SOURCES, 'bin/commands/main.ts'))) return true;
  // The removal of a file changes the time of its directory.
  const paths = ['', ...readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })];
  return paths.every((path) => statSync(join(SOURCES, path)).mtimeMs < madeMs);
}
