/**
 * CRI timestamps: nanoseconds since 1970.
 *
 * Invariant: readings in one process strictly increase, so sorting by time preserves creation order even if the system
 * clock is coarse or was set back.
 */
import { steadyNow } from '../../kernel/clock.ts';

const NANOS_PER_MILLI = 1_000_000n;
const NANOS_PER_SECOND = 1_000_000_000n;

let last = 0n;

export function nowNanos(): bigint {
  const now = BigInt(steadyNow()) * NANOS_PER_MILLI;
  last = now > last ? now : last + 1n;
  return last;
}

/** RFC 3339 in UTC with nine digits, as in the lines of a CRI log. */
export function rfc3339Nano(nanos: bigint): string {
  const seconds = new Date(Number(nanos / NANOS_PER_MILLI)).toISOString().slice(0, 19);
  return `${seconds}.${String(nanos % NANOS_PER_SECOND).padStart(9, '0')}Z`;
}
