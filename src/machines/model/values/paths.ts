/** Paths as Go's `path/filepath` joins and cleans them on Linux, and the socket paths in endpoints. Pure. */
import { quote } from './go-text.ts';

/** `filepath.Clean`: no empty or `.` element, `..` resolved if possible. */
export function cleanPath(path: string): string {
  const absolute = path.startsWith('/');
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..' && parts.length > 0 && parts.at(-1) !== '..') parts.pop();
    else if (part !== '..' || !absolute) parts.push(part);
  }
  const joined = parts.join('/');
  if (absolute) return `/${joined}`;
  return joined === '' ? '.' : joined;
}

/** `filepath.Join`. */
export function joinPath(...parts: readonly string[]): string {
  const given = parts.filter((part) => part !== '');
  return given.length === 0 ? '' : cleanPath(given.join('/'));
}

/** `filepath.Dir`. */
export function directoryOf(path: string): string {
  return cleanPath(path.slice(0, path.lastIndexOf('/') + 1) || '.');
}

/** The socket path of a runtime's endpoint; empty if the text after the scheme is no absolute path. */
export type Endpoint = { readonly path: string; readonly error?: undefined } | { readonly error: string };

/** As Go's `url.Parse` reads an endpoint; without a scheme it is `unix`. */
export function parseEndpoint(endpoint: string): Endpoint {
  const [, scheme = 'unix', rest = `//${endpoint}`] = /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(endpoint) ?? [];
  const protocol = scheme.toLowerCase();
  if (protocol === 'tcp') return { error: 'only support unix socket endpoint' };
  if (protocol !== 'unix') return { error: `protocol ${quote(protocol)} not supported` };
  const [place = ''] = rest.split(/[?#]/, 1);
  const path = place.startsWith('//') ? place.replace(/^\/\/[^/]*/, '') : place;
  return { path: path.startsWith('/') ? path : '' };
}
