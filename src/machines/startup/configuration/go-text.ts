/**
 * Decides how Go would write a value or refuse a text: `%q`, `strconv`, and klog's `err="..."` form.
 *
 * Owns the texts that operators grep for. Invariant: every function is total; a refusal is a value, never a throw.
 */

/** A parsed value, or the text with which Go would have refused it. */
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

/** How `utilerrors.Aggregate` prints: one error bare, several in brackets, repeated texts once. */
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

const INTEGER_BASES: readonly (readonly [pattern: RegExp, radix: 2 | 8 | 10 | 16])[] = [
  [/^0[xX](_?[0-9a-fA-F])+$/, 16],
  [/^0[bB](_?[01])+$/, 2],
  [/^0[oO](_?[0-7])+$/, 8],
  [/^0(_?[0-7])+$/, 8],
  [/^(0|[1-9](_?[0-9])*)$/, 10],
];

const RADIX_PREFIXES = { 2: '0b', 8: '0o', 10: '', 16: '0x' } as const;

/** `strconv.ParseInt(text, 0, bits)`: prefixes choose the base, underscores may separate digits. */
export function parseInteger(text: string, bits: 32 | 64): Parsed<bigint> {
  const negative = text.startsWith('-');
  const digits = /^[+-]/.test(text) ? text.slice(1) : text;
  const base = INTEGER_BASES.find(([pattern]) => pattern.test(digits));
  if (base === undefined) return { error: `strconv.ParseInt: parsing ${quote(text)}: invalid syntax` };
  const bare = digits.replaceAll('_', '').replace(/^0[xXbBoO]?(?=.)/, '');
  const magnitude = BigInt(`${RADIX_PREFIXES[base[1]]}${bare}`);
  const value = negative ? -magnitude : magnitude;
  if (BigInt.asIntN(bits, value) !== value) {
    return { error: `strconv.ParseInt: parsing ${quote(text)}: value out of range` };
  }
  return { value };
}

const LARGEST_UINT32 = 0xff_ff_ff_ff;

/** `strconv.ParseUint(text, 10, 32)`. */
export function parseUnsigned32(text: string): Parsed<number> {
  if (!/^[0-9]+$/.test(text)) return { error: `strconv.ParseUint: parsing ${quote(text)}: invalid syntax` };
  const value = Number(text);
  if (value > LARGEST_UINT32) return { error: `strconv.ParseUint: parsing ${quote(text)}: value out of range` };
  return { value };
}

/** `strconv.Atoi`: decimal only, a sign allowed. */
export function parseDecimal(text: string): Parsed<number> {
  if (!/^[+-]?[0-9]+$/.test(text)) return { error: `strconv.Atoi: parsing ${quote(text)}: invalid syntax` };
  const value = BigInt(text.replace(/^\+/, ''));
  if (BigInt.asIntN(64, value) !== value) return { error: `strconv.Atoi: parsing ${quote(text)}: value out of range` };
  return { value: Number(value) };
}

/** Orders like Go's `sort.Strings`: by bytes, not by locale. */
export function byBytes(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
