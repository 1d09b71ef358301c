/**
 * The span that work belongs to, carried from the request of that work to the calls that it makes of other programs
 * (W3C Trace Context: the header `traceparent`).
 *
 * Without tracing nothing is carried, and no call has the header.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { SpanContext } from '@opentelemetry/api';

const carried = new AsyncLocalStorage<string>();

/** Runs `work`, whose calls carry this header. */
export const carrying = <Result>(header: string | null | undefined, work: () => Result): Result =>
  header ? carried.run(header, work) : work();

/** The header of calls that are made now; undefined for work that is not traced. */
export const traceparent = (): string | undefined => carried.getStore();

export const traceparentOf = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;

const HEADER =
  /^(?!ff)(?<version>[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?<rest>-.{0,512})?$/;
const SAMPLED = 1;

/** The span of a client that sent this header; `null` if it is malformed. */
export function remoteSpan(header: string): SpanContext | null {
  const found = HEADER.exec(header);
  if (!found || (found.groups?.['version'] === '00' && found.groups['rest'] !== undefined)) return null;
  const [, , traceId = '', spanId = '', flags = ''] = found;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & SAMPLED, isRemote: true };
}
