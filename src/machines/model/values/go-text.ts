/**
 * Formats and parses values as Go does: `%q`, `%v` of numbers, `strconv`, and klog's `err="..."` form.
 *
 * Operators grep for these texts. Invariant: every function is total; an error is a value, never thrown.
 */

/** A parsed value, or Go's error. */
export type Parsed<T> = { readonly value: T; readonly error?: undefined } | { readonly error: string };

const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

const UNPRINTABLE = /["\\]|(?! )[\p{C}\p{Z}]/gu;
const LAST_BASIC_CODE_POINT = 0xff_ff;
const LAST_ASCII = 0x7f;

/** `%q`: the text between double quotes, as `strconv.Quote` escapes it. */
export function quote(text: string): string {
  return `"${text.replace(UNPRINTABLE, escapeCharacter)}"`;
}

function escapeCharacter(character: string): string {
  const short = SHORT_ESCAPES[character];
  if (short !== undefined) return short;
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20 || code === LAST_ASCII) return `\\x${code.toString(16).padStart(2, '0')}`;
  return code > LAST_BASIC_CODE_POINT
    ? `\\U${code.toString(16).padStart(8, '0')}`
    : `\\u${code.toString(16).padStart(4, '0')}`;
}

/** A text quoted as by the package `time`: everything beyond ASCII byte by byte. */
export function quoteBytes(text: string): string {
  const bytes = [...new TextEncoder().encode(text)].map((byte) => {
    if (byte < 0x20 || byte > LAST_ASCII) return `\\x${byte.toString(16).padStart(2, '0')}`;
    const character = String.fromCharCode(byte);
    return character === '"' || character === '\\' ? `\\${character}` : character;
  });
  return `"${bytes.join('')}"`;
}

export const goList = (texts: readonly string[]): string => `[${texts.join(' ')}]`;

/** `%q` of a list: `["a" "b"]`. */
export function quoteList(values: readonly string[]): string {
  return `[${values.map(quote).join(' ')}]`;
}

/** A klog line with one error: quoted, or in the `err=<` form when the error has line breaks. */
export function logLines(message: string, error: string): string[] {
  if (!error.includes('\n')) return [`${quote(message)} err=${quote(error)}`];
  const lines = error.endsWith('\n') ? error.slice(0, -1).split('\n') : error.split('\n');
  return [`${quote(message)} err=<`, ...lines.map((line) => `\t${line}`), ' >'];
}

/** Several errors as printed by `utilerrors.Aggregate`: one bare, several in brackets, without duplicates. */
export function aggregate(errors: readonly string[]): string {
  const unique = [...new Set(errors)];
  return unique.length === 1 ? (unique[0] ?? '') : `[${unique.join(', ')}]`;
}

const TRUE_TEXTS = ['1', 't', 'T', 'TRUE', 'true', 'True'];
const FALSE_TEXTS = ['0', 'f', 'F', 'FALSE', 'false', 'False'];

export function parseBool(text: string): Parsed<boolean> {
  if (TRUE_TEXTS.includes(text)) return { value: true };
  if (FALSE_TEXTS.includes(text)) return { value: false };
  return { error: `strconv.ParseBool: parsing ${quote(text)}: invalid syntax` };
}

const INTEGER_BASES: readonly (readonly [prefix: RegExp, radix: number, digits: RegExp])[] = [
  [/^0[xX]/, 16, /^[0-9a-fA-F]$/],
  [/^0[bB]/, 2, /^[01]$/],
  [/^0[oO]/, 8, /^[0-7]$/],
  [/^0(?=.)/, 8, /^[0-7]$/],
  [/^/, 10, /^[0-9]$/],
];
/** Underscores separate digits, or the prefix from the first digit. */
const SEPARATED = /^(?:0[xXbBoO](?:_?[0-9a-fA-F])+|[0-9](?:_?[0-9])*)$/;

/** Reads digit by digit, as `strconv` does: the first error is reported. */
function magnitudeOf(text: string, bits: number): bigint | 'invalid syntax' | 'value out of range' {
  const base = INTEGER_BASES.find(([prefix]) => prefix.test(text));
  if (base === undefined) return 'invalid syntax';
  const [prefix, radix, digit] = base;
  const digits = text.replace(prefix, '');
  let value = 0n;
  for (const character of digits) {
    if (character === '_') continue;
    if (!digit.test(character)) return 'invalid syntax';
    value = value * BigInt(radix) + BigInt(Number.parseInt(character, radix));
    if (value >= 2n ** BigInt(bits)) return 'value out of range';
  }
  return SEPARATED.test(text) ? value : 'invalid syntax';
}

/** `strconv.ParseInt(text, 0, bits)`: prefixes choose the base, underscores may separate digits. */
export function parseInteger(text: string, bits: 32 | 64): Parsed<bigint> {
  const failed = (why: string) => ({ error: `strconv.ParseInt: parsing ${quote(text)}: ${why}` });
  const magnitude = magnitudeOf(text.replace(/^[+-]/, ''), bits);
  if (typeof magnitude === 'string') return failed(magnitude);
  const value = text.startsWith('-') ? -magnitude : magnitude;
  return BigInt.asIntN(bits, value) === value ? { value } : failed('value out of range');
}

/** `strconv.ParseUint(text, 10, 31)`: a number that fits into a signed 32-bit integer. */
export function parseUnsigned31(text: string): Parsed<number> {
  const failed = (why: string) => ({ error: `strconv.ParseUint: parsing ${quote(text)}: ${why}` });
  const digits = /^[0-9]*/.exec(text)?.[0] ?? '';
  if (digits !== '' && BigInt(digits) >= 2n ** 31n) return failed('value out of range');
  return digits === '' || digits !== text ? failed('invalid syntax') : { value: Number(digits) };
}

/** `strconv.Atoi`: decimal only, a sign allowed. */
export function parseDecimal(text: string): Parsed<number> {
  const failed = (why: string) => ({ error: `strconv.Atoi: parsing ${quote(text)}: ${why}` });
  const digits = /^[+-]?([0-9]*)/.exec(text)?.[1] ?? '';
  const rest = text.slice(text.indexOf(digits) + digits.length);
  if (digits === '') return failed('invalid syntax');
  if (digits.length > DIGITS_MAX) return failed('value out of range');
  const value = text.startsWith('-') ? -BigInt(digits) : BigInt(digits);
  if (rest !== '' && BigInt(digits) < 2n ** 64n) return failed('invalid syntax');
  return BigInt.asIntN(64, value) === value ? { value: Number(value) } : failed('value out of range');
}

/** More digits than any 64-bit number has, even with leading zeros. */
const DIGITS_MAX = 1_000;

/** Go's `strings.TrimRight`. A regular expression would take quadratic time for a long run of these characters. */
export function trimRight(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}

/** Orders like Go's `sort.Strings`: by bytes, not by locale. */
export function byBytes(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

const SPECIAL: readonly (readonly [form: RegExp, value: number])[] = [
  [/^\+?inf(?:inity)?$/i, Number.POSITIVE_INFINITY],
  [/^-inf(?:inity)?$/i, Number.NEGATIVE_INFINITY],
  [/^nan$/i, Number.NaN],
];
const DECIMAL = /^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?$/i;
const HEXADECIMAL = /^([+-]?)0x([0-9a-f]*)(?:\.([0-9a-f]*))?p([+-]?[0-9]+)$/i;
/** Underscores may stand between digits, or after the prefix of a hexadecimal number. */
const LONE_UNDERSCORE = /(?:^|[^0-9])_|_(?:[^0-9]|$)/;
const LONE_HEXADECIMAL_UNDERSCORE = /(?:^|[^0-9a-fx])_|_(?:[^0-9a-f]|$)/i;
const BITS_OF_DIGIT = 4;

/** Go prints an exponent outside of these powers of ten. */
const LARGEST_PLAIN_POWER = 5;
const SMALLEST_PLAIN_POWER = -4;

/** As `strconv.ParseFloat(text, 32)`. */
export function parseFloat32(text: string): Parsed<number> {
  const special = SPECIAL.find(([form]) => form.test(text));
  if (special !== undefined) return { value: special[1] };
  const failed = (why: string) => ({ error: `strconv.ParseFloat: parsing ${quote(text)}: ${why}` });
  const value = /^[+-]?0x/i.test(text) ? hexadecimal(text) : decimal(text);
  if (value === null) return failed('invalid syntax');
  return Number.isFinite(Math.fround(value)) ? { value } : failed('value out of range');
}

function decimal(text: string): number | null {
  if (LONE_UNDERSCORE.test(text)) return null;
  const digits = text.replaceAll('_', '');
  return DECIMAL.test(digits) ? Number(digits) : null;
}

/** The exponent is a power of two, and is required. */
function hexadecimal(text: string): number | null {
  if (LONE_HEXADECIMAL_UNDERSCORE.test(text)) return null;
  const [found, sign = '', whole = '', fraction = '', exponent = ''] = HEXADECIMAL.exec(text.replaceAll('_', '')) ?? [];
  if (found === undefined || whole + fraction === '') return null;
  const size = Number(BigInt(`0x${whole}${fraction}`)) * 2 ** (Number(exponent) - BITS_OF_DIGIT * fraction.length);
  return sign === '-' ? -size : size;
}

/** As `%v`. */
export function printFloat(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';
  const [digits = '', power = '0'] = value.toExponential().split('e');
  const exponent = Number(power);
  if (exponent >= SMALLEST_PLAIN_POWER && exponent <= LARGEST_PLAIN_POWER) return String(value);
  return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Standard base64 with its padding. */
export const isBase64 = (text: string): boolean => BASE64.test(text);
