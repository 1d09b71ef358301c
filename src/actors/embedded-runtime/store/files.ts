/**
 * Small JSON files shared by the runtime and the shims it started.
 *
 * Invariants: a reader sees a complete file or none; a claim has exactly one winner. Nothing is synced to disk, because
 * no container survives a crash of the machine.
 */

import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { codeOf } from '../../../kernel/thrown.ts';

/** Records contain commands and environments: readable by the owner only. */
const FILE_MODE = 0o600;

export function writeJson(path: string, value: unknown): void {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, JSON.stringify(value), { mode: FILE_MODE });
  renameSync(temporary, path);
}

/** `undefined` if there is no such file, or its content is not as expected. */
export function readJson<T>(path: string, isExpected: (value: unknown) => value is T): T | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return isExpected(value) ? value : undefined;
  } catch (thrown) {
    if (thrown instanceof SyntaxError || codeOf(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
}

/** Creates the file with this content; false if it exists already. */
export function claim(path: string, value: unknown): boolean {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, JSON.stringify(value), { mode: FILE_MODE });
  try {
    linkSync(temporary, path);
    return true;
  } catch (thrown) {
    if (codeOf(thrown) === 'EEXIST') return false;
    throw thrown;
  } finally {
    rmSync(temporary, { force: true });
  }
}
