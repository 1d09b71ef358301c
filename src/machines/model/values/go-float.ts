/**
 * Decides how Go reads a number with a fraction, `strconv.ParseFloat(text, 32)`, and how it prints one, `%v`.
 */
import { type Parsed, quote } from './go-text.ts';

const SPECIAL: readonly (readonly [form: RegExp, value: number])[] = [
  [/^\+?inf(?:inity)?$/i, Number.POSITIVE_INFINITY],
  [/^-inf(?:inity)?$/i, Number.NEGATIVE_INFINITY],
  [/^nan$/i, Number.NaN],
];
const DECIMAL = /^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?$/i;
const HEXADECIMAL = /^([+-]?)0x([0-9a-f]*)(?:\.([0-9a-f]*))?p([+-]?[0-9]+)$/i;
/** Underscores stand between digits, or behind the prefix of a hexadecimal number. */
const LONE_UNDERSCORE = /(?:^|[^0-9])_|_(?:[^0-9]|$)/;
const LONE_HEXADECIMAL_UNDERSCORE = /(?:^|[^0-9a-fx])_|_(?:[^0-9a-f]|$)/i;
const BITS_OF_DIGIT = 4;

/** Outside of these powers of ten Go prints an exponent. */
const LARGEST_PLAIN_POWER = 5;
const SMALLEST_PLAIN_POWER = -4;

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

/** The exponent is one of two, and cannot be left out. */
function hexadecimal(text: string): number | null {
  if (LONE_HEXADECIMAL_UNDERSCORE.test(text)) return null;
  const [found, sign = '', whole = '', fraction = '', exponent = ''] = HEXADECIMAL.exec(text.replaceAll('_', '')) ?? [];
  if (found === undefined || whole + fraction === '') return null;
  const size = Number(BigInt(`0x${whole}${fraction}`)) * 2 ** (Number(exponent) - BITS_OF_DIGIT * fraction.length);
  return sign === '-' ? -size : size;
}

export function printFloat(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';
  const [digits = '', power = '0'] = value.toExponential().split('e');
  const exponent = Number(power);
  if (exponent >= SMALLEST_PLAIN_POWER && exponent <= LARGEST_PLAIN_POWER) return String(value);
  return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
}
