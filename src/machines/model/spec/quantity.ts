/**
 * Amounts of a pod's resources as plain integers of 1e-9 units, so that they can be added and compared.
 *
 * Owns the step between texts that were validated before and arithmetic. Invariant: no floating point; rounding is up.
 */
import { formatQuantity, milliUnitsOf, parseQuantity as parse, unitsOf } from '../values/quantity.ts';

/** An amount in 1e-9 units. */
export type Nano = bigint;

const NANO = 1_000_000_000n;
const NANO_PER_MILLI = 1_000_000n;

/** Throws on text that is not a quantity: validation has let none of it through. */
export function parseQuantity(text: string): Nano {
  const parsed = parse(text);
  if ('error' in parsed) throw new Error(`quantity ${JSON.stringify(text)}: ${parsed.error}`);
  return parsed.value.nano;
}

export const divideUp = (amount: bigint, divisor: bigint): bigint => (amount + divisor - 1n) / divisor;

/** Whole units: bytes, counts. */
export const wholeUnits = (nano: Nano): bigint => unitsOf({ nano, format: 'decimalSI' });

/** Thousandths: the unit of CPU. */
export const milliUnits = (nano: Nano): bigint => milliUnitsOf({ nano, format: 'decimalSI' });

export const fromMilli = (milli: bigint): Nano => milli * NANO_PER_MILLI;
export const fromWhole = (units: bigint): Nano => units * NANO;

/** `1500m`, `2`: how CPU and counts are written. */
export const formatDecimal = (nano: Nano): string => formatQuantity({ nano, format: 'decimalSI' });

/** `64Mi`: how bytes are written. */
export const formatBinary = (nano: Nano): string => formatQuantity({ nano, format: 'binarySI' });

export const MILLI = 1_000n;
