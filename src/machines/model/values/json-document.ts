/**
 * Decodes JSON text with the errors of Go's `encoding/json`, and records duplicate keys.
 *
 * Numbers that JavaScript cannot hold as written are texts with a mark as prefix: integers beyond 2^53, and in JSON
 * every number whose text is not canonical (`-1e0`), because Go's decoder validates and quotes the text. No field may
 * have a text with this prefix: it would be read as a number.
 *
 * Invariants: the last of two equal keys wins, but two objects are merged; keys keep the document's order; size is
 * limited by the caller and depth by {@link MAX_DEPTH}, so that no text can exhaust the stack.
 */
import type { Json } from '../../../kernel/json.ts';
import { isObject } from '../../../kernel/xstate.ts';
import { quote } from './go-text.ts';

export type JsonDocument =
  | { readonly value: Json; readonly duplicates: readonly string[]; readonly error?: undefined }
  | { readonly error: string };

/** Levels of nesting; a configuration needs six. */
const MAX_DEPTH = 100;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
/** Characters below it are control characters, which a string must escape. */
const SPACE = 0x20;
const WORDS: Readonly<Record<string, Json>> = { true: true, false: false, null: null };

class JsonRefusal extends Error {}

interface Reader {
  readonly text: string;
  position: number;
  readonly duplicates: string[];
}

export function decodeJson(text: string): JsonDocument {
  const reader: Reader = { text, position: 0, duplicates: [] };
  try {
    const value = readValue(reader, '', 0);
    skipSpace(reader);
    if (reader.position < text.length) refuse(reader, 'after top-level value');
    return { value, duplicates: reader.duplicates };
  } catch (error) {
    if (error instanceof JsonRefusal) return { error: error.message };
    throw error;
  }
}

function refuse(reader: Reader, where: string): never {
  const code = reader.text.codePointAt(reader.position);
  if (code === undefined) throw new JsonRefusal('unexpected end of JSON input');
  const character = String.fromCodePoint(code);
  const quoted =
    character === "'" ? "'\\''" : character === '"' ? `'"'` : `'${JSON.stringify(character).slice(1, -1)}'`;
  throw new JsonRefusal(`invalid character ${quoted} ${where}`);
}

function skipSpace(reader: Reader): void {
  while (/[ \t\r\n]/.test(reader.text[reader.position] ?? '')) reader.position += 1;
}

function peek(reader: Reader): string {
  skipSpace(reader);
  return reader.text[reader.position] ?? '';
}

function readValue(reader: Reader, path: string, depth: number): Json {
  if (depth > MAX_DEPTH) throw new JsonRefusal(`exceeded max depth of ${MAX_DEPTH}`);
  const first = peek(reader);
  if (first === '{') return readObject(reader, path, depth);
  if (first === '[') return readArray(reader, path, depth);
  if (first === '"') return readString(reader);
  if (first === '-' || /[0-9]/.test(first)) return numberOf(match(NUMBER, reader, 'in numeric literal'));
  return readWord(reader);
}

function readWord(reader: Reader): Json {
  for (const [word, value] of Object.entries(WORDS)) {
    if (!reader.text.startsWith(word[0] ?? '', reader.position)) continue;
    for (const letter of word) {
      if (reader.text[reader.position] !== letter) refuse(reader, `in literal ${word} (expecting '${letter}')`);
      reader.position += 1;
    }
    return value;
  }
  return refuse(reader, 'looking for beginning of value');
}

function match(pattern: RegExp, reader: Reader, where: string): string {
  pattern.lastIndex = reader.position;
  const found = pattern.exec(reader.text)?.[0];
  if (found === undefined) return refuse(reader, where);
  reader.position += found.length;
  return found;
}

/** Reports the character that makes the escape invalid. */
function readEscape(reader: Reader): void {
  ESCAPE.lastIndex = reader.position;
  const found = ESCAPE.exec(reader.text)?.[0];
  if (found !== undefined) {
    reader.position += found.length;
    return;
  }
  reader.position += 1;
  if (reader.text[reader.position] !== 'u') refuse(reader, 'in string escape code');
  do reader.position += 1;
  while (/[0-9a-fA-F]/.test(reader.text[reader.position] ?? ''));
  refuse(reader, String.raw`in \u hexadecimal character escape`);
}

function readString(reader: Reader): string {
  const start = reader.position;
  reader.position += 1;
  while (reader.text[reader.position] !== '"') {
    const code = reader.text.charCodeAt(reader.position);
    if (Number.isNaN(code) || code < SPACE) refuse(reader, 'in string literal');
    if (reader.text[reader.position] === '\\') readEscape(reader);
    else reader.position += 1;
  }
  reader.position += 1;
  return String(JSON.parse(reader.text.slice(start, reader.position)));
}

function readObject(reader: Reader, path: string, depth: number): Json {
  reader.position += 1;
  const entries = new Map<string, Json>();
  if (peek(reader) === '}') {
    reader.position += 1;
    return {};
  }
  for (;;) {
    if (peek(reader) !== '"') refuse(reader, 'looking for beginning of object key string');
    const key = readString(reader);
    const place = path === '' ? key : `${path}.${key}`;
    if (entries.has(key)) reader.duplicates.push(`duplicate field ${quote(place)}`);
    if (peek(reader) !== ':') refuse(reader, 'after object key');
    reader.position += 1;
    entries.set(key, mergeDuplicate(entries.get(key), readValue(reader, place, depth + 1)));
    const next = peek(reader);
    if (next !== ',' && next !== '}') refuse(reader, 'after object key:value pair');
    reader.position += 1;
    if (next === '}') return Object.fromEntries(entries);
  }
}

/** Merges a duplicate object into the first one; another duplicate replaces it. */
export function mergeDuplicate(before: Json | undefined, value: Json): Json {
  if (!isObject(before) || !isObject(value)) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, mergeDuplicate(before[key], item ?? null)] as const);
  return { ...before, ...Object.fromEntries(entries) };
}

function readArray(reader: Reader, path: string, depth: number): Json {
  reader.position += 1;
  const items: Json[] = [];
  if (peek(reader) === ']') {
    reader.position += 1;
    return items;
  }
  for (;;) {
    items.push(readValue(reader, `${path}[${items.length}]`, depth + 1));
    const next = peek(reader);
    if (next !== ',' && next !== ']') refuse(reader, 'after array element');
    reader.position += 1;
    if (next === ']') return items;
  }
}

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
