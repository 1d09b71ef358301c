#!/usr/bin/env node
/**
 * The door: one command, a verb each. Data goes to stdout, diagnostics to stderr; exit codes are in `exit-codes.ts`.
 */
import { enableCompileCache } from 'node:module';

enableCompileCache();
const { main } = await import('./commands/main.ts');
process.exitCode = await main(process.argv.slice(2));
