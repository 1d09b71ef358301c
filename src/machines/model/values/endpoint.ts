/** Decides where the socket of a runtime is, as Go's `url.Parse` reads an endpoint; without a scheme it is `unix`. */
import { quote } from './go-text.ts';

/** An empty path: what follows the scheme names none. */
export type Endpoint = { readonly path: string; readonly error?: undefined } | { readonly error: string };

export function parseEndpoint(endpoint: string): Endpoint {
  const [, scheme = 'unix', rest = `//${endpoint}`] = /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(endpoint) ?? [];
  const protocol = scheme.toLowerCase();
  if (protocol === 'tcp') return { error: 'only support unix socket endpoint' };
  if (protocol !== 'unix') return { error: `protocol ${quote(protocol)} not supported` };
  const [place = ''] = rest.split(/[?#]/, 1);
  const path = place.startsWith('//') ? place.replace(/^\/\/[^/]*/, '') : place;
  return { path: path.startsWith('/') ? path : '' };
}
