/** Errors of the system in Go's words. */
import { getSystemErrorMap } from 'node:util';
import { OperationError } from '../../kernel/json.ts';
import { errnoOf } from './below-root.ts';

/** Where Node has other words than Go. */
const REASONS: Readonly<Record<string, string>> = {
  EISDIR: 'is a directory',
  ELOOP: 'too many levels of symbolic links',
  ENAMETOOLONG: 'file name too long',
};

/** The bare reason, as Go writes an errno: `no such file or directory`. */
export function reasonOf(error: unknown): string {
  const { errno = 0, message } = error as { errno?: number; message: string };
  const [code = '', text = message] = getSystemErrorMap().get(errno) ?? [];
  return REASONS[code] ?? text;
}

/** As Go writes an error of the system: `open /a/b: no such file or directory`. */
export function goError(call: string, path: string, error: unknown): OperationError {
  return new OperationError(`${call} ${path}: ${reasonOf(error)}`, { code: errnoOf(error) });
}
