/** The shop of the golden journal with changed source code: the results of changes and of refactorings. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AnyStateMachine } from '../../../src/kernel/xstate.ts';

const SHOP = join(import.meta.dirname, 'golden-shop.ts');
const SOURCES = join(import.meta.dirname, '../../../src/');
const SOURCE = readFileSync(SHOP, 'utf8').replaceAll('../../../src/', SOURCES);

/** A part of the source, and its replacement. */
export type Edit = readonly [from: string, to: string];

/** Throws if the source does not contain a part exactly once. */
export async function shopWith(...edits: readonly Edit[]): Promise<AnyStateMachine> {
  let source = SOURCE;
  for (const [from, to] of edits) {
    const pieces = source.split(from);
    if (pieces.length !== 2) throw new Error(`the shop has ${pieces.length - 1} times: ${from}`);
    source = pieces.join(to);
  }
  const folder = mkdtempSync(join(tmpdir(), 'statelet-shop-'));
  const file = join(folder, 'shop.ts');
  writeFileSync(file, source);
  try {
    return ((await import(/* @vite-ignore */ file)) as { shopMachine: AnyStateMachine }).shopMachine;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
