/** Errors of the system in Go's words. */
import { getSystemErrorMap } from 'node:util';
import { OperationError } from '../../kernel/json.ts';
import { errnoOf } from './beneath.ts';

/** As Go writes an error of the system: `open /a/b: no such file or directory`. */
export function goError(call: string, path: string, error: unknown): OperationError {
  const { errno } = error as { errno?: number };
  const [code, text] = getSystemErrorMap().get(errno ?? 0) ?? [errnoOf(error), String(error)];
  return new OperationError(`${call} ${path}: ${text}`, { code });
}
