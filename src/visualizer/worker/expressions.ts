/** Regular expressions of a search, on an engine whose cost is linear in the text (RE2). */
import { RE2JS } from 're2js';
import { messageOf } from '../../kernel/thrown.ts';

/** Whether a text matches. Throws the reason if the pattern is invalid. */
export function expressionTest(pattern: string): (text: string) => boolean {
  try {
    const compiled = RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE);
    return (text) => compiled.test(text);
  } catch (error) {
    throw new Error(`/${pattern}/ is no expression: ${messageOf(error)}`, { cause: error });
  }
}
