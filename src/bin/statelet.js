#!/usr/bin/env node
/**
 * The door: one command, a verb each. Data goes to stdout, diagnostics to stderr; exit codes are in `exit-codes.ts`.
 *
 * Plain JavaScript: everything behind it comes from the compile cache, types already stripped. A door in TypeScript would
 * load the compiler that strips them, for this file alone: 17 MiB and 30 ms in every process.
 */
import module from 'node:module';
import { newestCode } from './newest-code.js';

const NODE_MIN = 26;

if (Number.parseInt(process.versions.node, 10) < NODE_MIN) {
  process.stderr.write(
    `statelet needs Node.js ${NODE_MIN} or newer, this is ${process.version} (${process.execPath}). ` +
      'npm ci has installed one: run `npx statelet`, or node_modules/.bin/node with this file.\n',
  );
  process.exitCode = 2;
} else {
  module.enableCompileCache();
  const { main } = await newestCode();
  process.exitCode = await main(process.argv.slice(2));
}
