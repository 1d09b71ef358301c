/**
 * Kubernetes quantities (`100m`, `1Gi`, `1e3`) as exact integers.
 *
 * Owns parsing, rounding and the canonical text. Invariant: no floating point; an amount is a count of 1e-9 units, the
 * smallest that the API can say.
 */

const NANO = 1_000_000_000n;
const MILLI = 1_000_000n;

/** `10^exponent` by decimal suffix, relative to one unit. */
const DECIMAL_EXPONENTS: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
const BINARY_SUFFIXES = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];
const QUANTITY = /^([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,2}))?$/;
/** An amount above the API's largest (2^63 - 1 units) is capped to it. */
const MAX_NANO = 9_223_372_036_854_775_807n * NANO;

/** An amount in 1e-9 units. */
export type Nano = bigint;

export function isQuantity(text: string): boolean {
  return QUANTITY.test(text);
}

/** Amounts below 1e-9 are rounded up, as the API does. Throws on text that is not a quantity. */
export function parseQuantity(text: string | number): Nano {
  const match = QUANTITY.exec(String(text));
  if (match === null) {
    throw new Error(
      `quantity ${JSON.stringify(text)}: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
    );
  }
  const [, sign, whole = '0', fraction = match[4] ?? '', , binary, decimal = '', exponent] = match;
  const digits = BigInt(whole + fraction);
  const factor = binary === undefined ? 1n : 1n << BigInt(10 * BINARY_SUFFIXES.indexOf(binary));
  const shift = 9 + (exponent === undefined ? (DECIMAL_EXPONENTS[decimal] ?? 0) : Number(exponent)) - fraction.length;
  const scaled = digits * factor;
  const amount = shift >= 0 ? scaled * 10n ** BigInt(shift) : divideUp(scaled, 10n ** BigInt(-shift));
  const capped = amount > MAX_NANO ? MAX_NANO : amount;
  return sign === '-' ? -capped : capped;
}

export function divideUp(amount: bigint, divisor: bigint): bigint {
  const quotient = amount / divisor;
  return amount % divisor === 0n || amount < 0n ? quotient : quotient + 1n;
}

/** Whole units, rounded up: bytes, counts. */
export const wholeUnits = (amount: Nano): bigint => divideUp(amount, NANO);

/** Thousandths, rounded up: the unit of CPU. */
export const milliUnits = (amount: Nano): bigint => divideUp(amount, MILLI);

export const fromMilli = (milli: bigint): Nano => milli * MILLI;
export const fromWhole = (units: bigint): Nano => units * NANO;

/** The shortest text with a decimal suffix: `1500m`, `2`, `12M`. */
export function formatDecimal(amount: Nano): string {
  if (amount === 0n) return '0';
  let rest = amount;
  let exponent = -9;
  while (exponent < 18 && rest % 1000n === 0n) {
    rest /= 1000n;
    exponent += 3;
  }
  const suffix = Object.entries(DECIMAL_EXPONENTS).find(([, value]) => value === exponent)?.[0] ?? '';
  return `${rest}${suffix}`;
}

/** The shortest text with a binary suffix: `64Mi`; bytes are whole. */
export function formatBinary(amount: Nano): string {
  let rest = wholeUnits(amount);
  if (rest === 0n) return '0';
  let power = 0;
  while (power < BINARY_SUFFIXES.length - 1 && rest % 1024n === 0n) {
    rest /= 1024n;
    power += 1;
  }
  return `${rest}${BINARY_SUFFIXES[power]}`;
}
