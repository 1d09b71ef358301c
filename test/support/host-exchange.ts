/** Exchanges two names in one step, like an attacker: at no moment is either of them missing. */
import { createRequire } from 'node:module';

const AT_FDCWD = -100;
const RENAME_EXCHANGE = 2;
const koffi: typeof import('koffi') = createRequire(import.meta.url)('koffi');
const renameat2 = koffi
  .load(null)
  .func(
    'int renameat2(int old_folder, const char *old_path, int new_folder, const char *new_path, unsigned int flags)',
  );

export function exchange(one: string, other: string): void {
  if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) !== 0) throw new Error(`cannot exchange ${one}`);
}
