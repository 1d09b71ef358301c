/**
 * Represents numbers of a document that JavaScript cannot hold as written: integers beyond 2^53, and in JSON every
 * number whose text is not canonical (`-1e0`), because Go's decoder validates and quotes the text.
 *
 * Such a number is a text with a mark as prefix. No field may have a text with this prefix: it would be read as a
 * number.
 */
import type { Json } from '../../../kernel/json.ts';

const MARK = '\0number ';

/** The number if JavaScript prints it with the same text; otherwise the marked text. */
export function numberOf(text: string): Json {
  const value = Number(text);
  const isExact = String(value) === text && (Number.isSafeInteger(value) || !/^-?[0-9]+$/.test(text));
  return isExact ? value : MARK + text;
}

export const isNumber = (value: Json): value is number | string => textOfNumber(value) !== null;

/** The text of a number, or null if the value is none. A number beyond 2^64 is a float, and printed as one. */
export function textOfNumber(value: Json): string | null {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value.startsWith(MARK) ? value.slice(MARK.length) : null;
}

/** The kind of a JSON value, as Go's decoding errors name it. */
export function jsonKind(value: Json): string {
  if (Array.isArray(value)) return 'array';
  if (value === null) return 'null';
  if (isNumber(value)) return 'number';
  return typeof value === 'boolean' ? 'bool' : typeof value;
}
