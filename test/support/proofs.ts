/** Proofs in tables: a test file, and after `::` words in it. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** A test file, and after `::` words in it. */
export type Proof = string;

/** Why a proof is invalid; `null` if the test exists. */
export function unproved(proof: Proof): string | null {
  const [path, words] = proof.split('::') as [string, string | undefined];
  if (!path.endsWith('.test.ts') || !existsSync(join(ROOT, path))) return `no test ${path}`;
  const text = readFileSync(join(ROOT, path), 'utf8');
  if (!/\b(it|test)(\.\w+)*\(/.test(text)) return `${path} tests nothing`;
  return words === undefined || text.includes(words) ? null : `${path} does not say ${words}`;
}
