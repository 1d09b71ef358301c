/** Times and durations as the API writes them. Milliseconds are given; nothing here asks a clock. */
import { trimRight } from './go-text.ts';

const NANOSECONDS_PER_MILLISECOND = 1_000_000n;

/** RFC 3339 in UTC, whole seconds, as `metav1.Time`. */
export const rfc3339 = (ms: number): string => new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z');

/** CRI counts nanoseconds since 1970, as decimal text. */
export const milliseconds = (nanoseconds: string): number => Number(BigInt(nanoseconds) / NANOSECONDS_PER_MILLISECOND);

const SECONDS_PER_MINUTE = 60;
const MINUTES_PER_HOUR = 60;
const MILLISECONDS_PER_SECOND = 1000;

/** Go's notation, which the messages of the kubelet use: `1m20s`, `10s`, `500ms`. */
export function goDuration(ms: number): string {
  if (ms === 0) return '0s';
  if (ms < MILLISECONDS_PER_SECOND) return `${ms}ms`;
  const totalSeconds = Math.floor(ms / MILLISECONDS_PER_SECOND);
  const rest = ms % MILLISECONDS_PER_SECOND;
  const fraction = rest === 0 ? '' : `.${trimRight(String(rest).padStart(3, '0'), '0')}`;
  const seconds = `${totalSeconds % SECONDS_PER_MINUTE}${fraction}s`;
  const totalMinutes = Math.floor(totalSeconds / SECONDS_PER_MINUTE);
  if (totalMinutes === 0) return seconds;
  const hours = Math.floor(totalMinutes / MINUTES_PER_HOUR);
  const minutes = `${totalMinutes % MINUTES_PER_HOUR}m${seconds}`;
  return hours === 0 ? minutes : `${hours}h${minutes}`;
}
