/** How long ago, as kubectl prints it. Upstream: apimachinery duration.HumanDuration. */

const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;
const YEAR_S = 365 * DAY_S;

/** Up to `limit` seconds an age has this form; the first that fits counts. */
const FORMS: readonly (readonly [limit: number, form: (s: number) => string])[] = [
  [2 * MINUTE_S, (s) => `${s}s`],
  [10 * MINUTE_S, (s) => `${whole(s, MINUTE_S)}m${rest(s % MINUTE_S, 's')}`],
  [3 * HOUR_S, (s) => `${whole(s, MINUTE_S)}m`],
  [8 * HOUR_S, (s) => `${whole(s, HOUR_S)}h${rest(whole(s % HOUR_S, MINUTE_S), 'm')}`],
  [2 * DAY_S, (s) => `${whole(s, HOUR_S)}h`],
  [8 * DAY_S, (s) => `${whole(s, DAY_S)}d${rest(whole(s % DAY_S, HOUR_S), 'h')}`],
  [2 * YEAR_S, (s) => `${whole(s, DAY_S)}d`],
  [8 * YEAR_S, (s) => `${whole(s, YEAR_S)}y${rest(whole(s % YEAR_S, DAY_S), 'd')}`],
];

const whole = (seconds: number, unit: number): number => Math.floor(seconds / unit);
const rest = (amount: number, unit: string): string => (amount === 0 ? '' : `${amount}${unit}`);

/** @param at RFC 3339; `<unknown>` where there is no time */
export function age(at: string | undefined, nowMs: number): string {
  if (at === undefined) return '<unknown>';
  const seconds = Math.floor((nowMs - Date.parse(at)) / 1_000);
  if (seconds < 0) return '0s';
  const form = FORMS.find(([limit]) => seconds < limit)?.[1];
  return form ? form(seconds) : `${whole(seconds, YEAR_S)}y`;
}
