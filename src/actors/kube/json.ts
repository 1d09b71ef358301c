/**
 * JSON of the API server, exact: integers beyond 2^53 become their decimal text, as everywhere in this process.
 *
 * Reading each number's source costs five times a plain parse, so it is done only where a long number is.
 */
import type { Json } from '../../kernel/json.ts';

const LONG_NUMBER = /[[:,]\s*-?\d{16,}/;

export function parseExactly(text: string): Json {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text) as Json;
  return JSON.parse(text, (_key, value: unknown, context?: { readonly source?: string }) =>
    typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)
      ? (context?.source ?? String(value))
      : value,
  ) as Json;
}
