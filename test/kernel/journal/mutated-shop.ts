/** The shop of the golden journal with another source: what a change of code, or a refactoring, makes of it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AnyStateMachine } from '../../../src/kernel/xstate.ts';

const SHOP = join(import.meta.dirname, 'golden-shop.ts');
const SOURCES = join(import.meta.dirname, '../../../src/');
const SOURCE = readFileSync(SHOP, 'utf8').replaceAll('../../../src/', SOURCES);

/** A piece of the source, and what stands there instead. */
export type Edit = readonly [from: string, to: string];

/** Throws where the source does not have a piece exactly once. */
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
