/**
 * Parses a request's target, as upstream's two routers do. Pure.
 *
 * The outer router sees the path as sent: it cleans it (`//`, `.` and `..` lead to a redirect) and matches segment by
 * segment, so that an encoded slash never separates. Below some prefixes a second router works on the decoded path,
 * where an encoded slash separates and trailing slashes are ignored.
 */
import { trimRight } from '../../../machines/model/values/go-text.ts';

/** Prefixes below which the decoded path is matched. */
const DECODED = new Set([
  'pods',
  'runningpods',
  'stats',
  'containerLogs',
  'run',
  'exec',
  'attach',
  'portForward',
  'logs',
  'checkpoint',
]);

export type Target =
  | { readonly kind: 'malformed' }
  | { readonly kind: 'redirect'; readonly location: string; readonly path: string }
  | {
      readonly kind: 'resource';
      /** The path as sent, decoded: `/logs/apt/`. */
      readonly path: string;
      /** The path for the router: each segment encoded once, without a trailing slash if that slash is ignored. */
      readonly route: string;
      /** The text after the `?`, as sent. */
      readonly query: string;
    };

const MALFORMED: Target = { kind: 'malformed' };

/** `slashed`: paths that exist only with a trailing slash: without it they are redirected. */
export function targetOf(url: string, slashed: ReadonlySet<string> = new Set()): Target {
  const origin = originForm(url);
  if (origin === null) return MALFORMED;
  const mark = origin.indexOf('?');
  const escaped = mark < 0 ? origin : origin.slice(0, mark);
  const query = mark < 0 ? '' : origin.slice(mark + 1);
  const path = decoded(escaped);
  if (path === null) return MALFORMED;
  const cleaned = clean(escaped);
  const canonical = slashed.has(cleaned) ? `${cleaned}/` : cleaned;
  if (canonical !== escaped) {
    const location = escapedOnceMore(canonical);
    return { kind: 'redirect', location: query === '' ? location : `${location}?${query}`, path };
  }
  return { kind: 'resource', path, route: routeOf(escaped, path), query };
}

/** A target in absolute form repeats the host; any other form is invalid. */
function originForm(url: string): string | null {
  if (url.startsWith('/')) return url;
  const absolute = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*(?<rest>[/?].*)?$/i.exec(url);
  if (!absolute) return null;
  const rest = absolute.groups?.['rest'] ?? '/';
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** `null` for an invalid escape. Bytes that are not UTF-8 become U+FFFD. */
function decoded(escaped: string): string | null {
  if (/%(?![0-9a-f]{2})/i.test(escaped)) return null;
  const bytes = Buffer.from(
    escaped.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
  return bytes.toString('utf8');
}

/** Go's path.Clean, keeping a trailing slash. */
function clean(path: string): string {
  const kept: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '' || segment === '.') continue;
    if (segment === '..') kept.pop();
    else kept.push(segment);
  }
  const joined = `/${kept.join('/')}`;
  return path.endsWith('/') && joined !== '/' ? `${joined}/` : joined;
}

/** As upstream's redirects: what was escaped already is taken for a path, and escaped again. */
const escapedOnceMore = (path: string): string =>
  Buffer.from(path.toWellFormed(), 'utf8')
    .toString('latin1')
    .replace(/[^\w\-.~$&+,/:;=@]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);

function routeOf(escaped: string, path: string): string {
  const [, first = ''] = escaped.split('/');
  const isDecoded = DECODED.has(decoded(first) ?? '');
  const segments = isDecoded ? trimRight(path, '/').split('/') : escaped.split('/').map((part) => decoded(part) ?? '');
  return segments.map((segment) => encodeURIComponent(segment.toWellFormed())).join('/') || '/';
}

/**
 * The parameters of a query as Go parses them: a pair with a semicolon or a bad escape is dropped, `+` is a space, the
 * first value counts.
 */
export function queryOf(text: string): ReadonlyMap<string, readonly string[]> {
  const parameters = new Map<string, string[]>();
  for (const pair of text.split('&')) {
    if (pair === '' || pair.includes(';')) continue;
    const equals = pair.indexOf('=');
    const key = decoded((equals < 0 ? pair : pair.slice(0, equals)).replaceAll('+', ' '));
    const value = decoded((equals < 0 ? '' : pair.slice(equals + 1)).replaceAll('+', ' '));
    if (key === null || value === null) continue;
    const values = parameters.get(key);
    if (values) values.push(value);
    else parameters.set(key, [value]);
  }
  return parameters;
}
