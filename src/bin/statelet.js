#!/usr/bin/env node
/**
 * The door: one command, a verb each. Data goes to stdout, diagnostics to stderr; exit codes are in `exit-codes.ts`.
 *
 * Plain JavaScript: everything behind it comes from the compile cache, types already stripped. A door in TypeScript would
 * load the compiler that strips them, for this file alone: 17 MiB and 30 ms in every process.
 */
import { enableCompileCache } from 'node:module';
import { newestCode } from './newest-code.js';

enableCompileCache();
const { main } = await newestCode();
process.exitCode = await main(process.argv.slice(2));
