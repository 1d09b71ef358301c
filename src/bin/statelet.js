#!/usr/bin/env node
/**
 * The program's entry: one command, a verb each. Data goes to stdout, diagnostics to stderr; exit codes are in
 * `exit-codes.ts`.
 *
 * Compiled code is kept beside the program, if this user may write there. Node's own choice is a folder of /tmp, which
 * any user can have made first, with code in it for a daemon of root.
 *
 * Plain JavaScript: everything behind it comes from the compile cache, types already stripped. An entry in TypeScript
 * would load the compiler that strips them, for this file alone: 17 MiB and 30 ms in every process.
 */
import module from 'node:module';
import { join } from 'node:path';
import { limitMemory } from './memory-limits.js';

const NODE_MIN = 26;
/** As `couldNotTest` in `exit-codes.ts`. Node's own code for a crash is 1, which says "a difference". */
const CRASHED = 125;
const COMPILED = join(import.meta.dirname, '../../dist/compiled');

if (Number.parseInt(process.versions.node, 10) < NODE_MIN) {
  process.stderr.write(
    `statelet needs Node.js ${NODE_MIN} or newer, this is ${process.version} (${process.execPath}). ` +
      'npm ci has installed one: run `npx statelet`, or node_modules/.bin/node with this file.\n',
  );
  process.exitCode = 2;
} else {
  const isDaemon = process.argv[2] === 'run';
  if (isDaemon) limitMemory();
  else process.on('uncaughtException', crashed);
  module.enableCompileCache(COMPILED);
  const { newestCode } = await import('./newest-code.js');
  const { main } = await newestCode(COMPILED);
  if (isDaemon) await giveBackMemory();
  process.exitCode = await main(process.argv.slice(2));
}

/** Code that cannot even be loaded comes here, too: a commit that `git bisect run` must skip. */
function crashed(error) {
  process.stderr.write(`statelet ${process.argv[2]}: ${error?.stack ?? error}\n`);
  process.exit(CRASHED);
}

async function giveBackMemory() {
  const { keepCompiled } = await import('./compiled-bundle.js');
  const { collectWhenIdle } = await import('./idle-collection.js');
  collectWhenIdle(keepCompiled);
}
