/**
 * Parses and prints Kubernetes resource quantities (`100Mi`, `0.5`, `1e3`).
 *
 * Arithmetic is exact: a quantity is an integer of nano-units, so that sums never lose a byte. Invariant: a text either
 * parses or gives upstream's error; quantities keep their suffix family.
 */
import type { Parsed } from './go-text.ts';

/** The format in which the number was written and is printed. */
type QuantityFormat = 'binarySI' | 'decimalExponent' | 'decimalSI';

export interface Quantity {
  /** The value times 10^9. */
  readonly nano: bigint;
  readonly format: QuantityFormat;
}

export const QUANTITY_REFUSAL =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX_REFUSAL = "unable to parse quantity's suffix";

const NANO = 1_000_000_000n;
const BINARY_SUFFIXES = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];
const DECIMAL_SUFFIXES = ['n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E'];
const FORM = /^([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]+[+-]?[0-9]*|[+-][0-9]*|)$/;
/**
 * A larger decimal exponent is an error, as no node has such an amount; a smaller negative one counts as the smallest.
 */
const LARGEST_EXPONENT = 30;
/** The maximum of quantities with a binary suffix, as upstream. */
const LARGEST_BINARY = 2n ** 63n - 1n;

/** Digits are optional, as upstream: `Mi` and `.` are zero. */
export function parseQuantity(text: string): Parsed<Quantity> {
  const match = FORM.exec(text);
  if (match === null || text === '') return { error: QUANTITY_REFUSAL };
  const [, sign = '', whole = '', fraction = '', suffix = ''] = match;
  const scaled = scale(suffix);
  if (scaled === null) return { error: SUFFIX_REFUSAL };
  const numerator = BigInt(`${whole}${fraction}` || '0') * NANO * scaled.multiplier;
  const denominator = 10n ** BigInt(fraction.length) * scaled.divisor;
  const exact = numerator / denominator + (numerator % denominator === 0n ? 0n : 1n);
  const { format } = scaled;
  const nano = format === 'binarySI' && exact > LARGEST_BINARY * NANO ? LARGEST_BINARY * NANO : exact;
  return { value: { nano: sign === '-' ? -nano : nano, format } };
}

function scale(suffix: string): { multiplier: bigint; divisor: bigint; format: QuantityFormat } | null {
  const binary = BINARY_SUFFIXES.indexOf(suffix);
  if (binary > 0) return { multiplier: 1024n ** BigInt(binary), divisor: 1n, format: 'binarySI' };
  const decimal = DECIMAL_SUFFIXES.indexOf(suffix);
  if (decimal >= 0) return { ...power((decimal - 3) * 3), format: 'decimalSI' };
  if (!/^[eE][+-]?[0-9]+$/.test(suffix)) return null;
  const exponent = Math.max(-LARGEST_EXPONENT, Number(suffix.slice(1)));
  if (exponent > LARGEST_EXPONENT) return null;
  return { ...power(exponent), format: 'decimalExponent' };
}

function power(exponent: number): { multiplier: bigint; divisor: bigint } {
  return exponent >= 0
    ? { multiplier: 10n ** BigInt(exponent), divisor: 1n }
    : { multiplier: 1n, divisor: 10n ** BigInt(-exponent) };
}

/** The canonical text: no fraction, the largest suffix that keeps the value whole. */
export function formatQuantity({ nano, format }: Quantity): string {
  if (nano === 0n) return '0';
  const sign = nano < 0n ? '-' : '';
  const size = nano < 0n ? -nano : nano;
  if (format === 'binarySI' && size % NANO === 0n && size >= 1024n * NANO) return sign + binaryText(size / NANO);
  let index = 0;
  let value = size;
  while (value % 1000n === 0n && index < DECIMAL_SUFFIXES.length - 1) {
    value /= 1000n;
    index += 1;
  }
  const exponent = (index - 3) * 3;
  if (format !== 'decimalExponent') return `${sign}${value}${DECIMAL_SUFFIXES[index] ?? ''}`;
  return exponent === 0 ? `${sign}${value}` : `${sign}${value}e${exponent}`;
}

function binaryText(units: bigint): string {
  let index = 0;
  let value = units;
  while (value % 1024n === 0n && index < BINARY_SUFFIXES.length - 1) {
    value /= 1024n;
    index += 1;
  }
  return `${value}${BINARY_SUFFIXES[index] ?? ''}`;
}

/** Upstream's parser does not keep the text of longer numbers. */
const FAST_DIGITS = 18;
const FAST_BINARY_DIGITS = 14;
const SMALLEST_POWER = -9;

/** Upstream's form of a short number: digits, a power of ten, and the factor of a binary suffix. */
interface FastForm {
  readonly digits: string;
  readonly power: number;
  readonly multiplier: bigint;
}

function fastForm(text: string): FastForm | null {
  const [, , whole = '', fraction = '', suffix = ''] = FORM.exec(text) ?? [];
  const digits = `${whole.replace(/^0+/, '') || '0'}${fraction}`;
  const binary = BINARY_SUFFIXES.indexOf(suffix);
  if (binary > 0) {
    const isFast = fraction === '' && digits.length + binary * 3 <= FAST_BINARY_DIGITS;
    return isFast ? { digits, power: 0, multiplier: 1024n ** BigInt(binary) } : null;
  }
  const decimal = DECIMAL_SUFFIXES.indexOf(suffix);
  const power = (decimal >= 0 ? (decimal - 3) * 3 : Number(suffix.slice(1))) - fraction.length;
  return digits.length <= FAST_DIGITS && power >= SMALLEST_POWER ? { digits, power, multiplier: 1n } : null;
}

/** A parsed quantity as upstream prints it: as written if that is nearly canonical. */
export function quantityText(text: string): Parsed<string> {
  const parsed = parseQuantity(text);
  if (parsed.error !== undefined) return parsed;
  return { value: isKept(text) ? text : formatQuantity(parsed.value) };
}

function isKept(text: string): boolean {
  const fast = fastForm(text);
  if (fast === null) return false;
  const { digits, power, multiplier } = fast;
  if (multiplier > 1n) return BigInt(digits) % 8n !== 0n;
  return power % 3 === 0 && !digits.endsWith('000') && !digits.startsWith('0');
}

/** `Quantity.AsInt64` of a text: any fraction is an error, even a whole one. */
export function isPlainInteger(text: string): boolean {
  const fast = fastForm(text);
  if (fast === null || fast.power < 0) return false;
  return BigInt(fast.digits) * fast.multiplier * 10n ** BigInt(fast.power) <= LARGEST_BINARY;
}

/** Rounded up to thousandths, as the API's defaults round a list of resources. */
export function roundedToMilli(text: string): string {
  const { nano, format } = amountOf(text);
  const size = nano < 0n ? -nano : nano;
  if (size % NANO_PER_MILLI === 0n) return text;
  const rounded = divideUp(size, NANO_PER_MILLI) * NANO_PER_MILLI;
  return formatQuantity({ nano: nano < 0n ? -rounded : rounded, format });
}

/** The quantity in a validated text; zero for any other text. */
export function amountOf(text: string): Quantity {
  const parsed = parseQuantity(text);
  return parsed.error === undefined ? parsed.value : { nano: 0n, format: 'decimalSI' };
}

/** An amount in 1e-9 units, so that amounts are added and compared without rounding. */
export type Nano = bigint;

const NANO_PER_MILLI = 1_000_000n;

/** The amount in a validated text. Throws for any other text. */
export function nanoOf(text: string): Nano {
  const parsed = parseQuantity(text);
  if (parsed.error !== undefined) throw new Error(`quantity ${JSON.stringify(text)}: ${parsed.error}`);
  return parsed.value.nano;
}

/** Division of non-negative amounts, rounded up. */
export const divideUp = (amount: bigint, divisor: bigint): bigint => (amount + divisor - 1n) / divisor;

const roundUp = (nano: Nano, unit: bigint): bigint => (nano >= 0n ? divideUp(nano, unit) : nano / unit);

/** Whole units (bytes, counts), rounded up, as by `Quantity.Value()`. */
export const wholeUnits = (nano: Nano): bigint => roundUp(nano, NANO);

/** Thousandths (the unit of CPU), rounded up, as by `Quantity.MilliValue()`. */
export const milliUnits = (nano: Nano): bigint => roundUp(nano, NANO_PER_MILLI);

export const fromMilli = (milli: bigint): Nano => milli * NANO_PER_MILLI;
export const fromWhole = (units: bigint): Nano => units * NANO;

/** The format of CPU and counts: `1500m`, `2`. */
export const formatDecimal = (nano: Nano): string => formatQuantity({ nano, format: 'decimalSI' });

/** The format of bytes: `64Mi`. */
export const formatBinary = (nano: Nano): string => formatQuantity({ nano, format: 'binarySI' });

export const MILLI = 1_000n;
