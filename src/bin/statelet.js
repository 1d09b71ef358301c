#!/usr/bin/env node
/**
 * The entry of the program: one command with verbs. Data goes to stdout, diagnostics to stderr; exit codes are in
 * `exit-codes.ts`.
 *
 * Compiled code is stored beside the program, if this user may write there. Node's default is a folder in /tmp, which
 * any user could create first, with malicious code for a daemon that runs as root.
 *
 * This file is plain JavaScript, because everything that it loads comes from the compile cache, with types already
 * stripped. An entry in TypeScript would load the compiler that strips types for this file alone, which takes 17 MiB
 * and 30 ms in every process.
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

/** Also called if code cannot be loaded: `git bisect run` must skip such a commit. */
function crashed(error) {
  process.stderr.write(`statelet ${process.argv[2]}: ${error?.stack ?? error}\n`);
  process.exit(CRASHED);
}

async function giveBackMemory() {
  const { keepCompiled } = await import('./compiled-bundle.js');
  const { collectWhenIdle } = await import('./idle-collection.js');
  collectWhenIdle(keepCompiled);
}
