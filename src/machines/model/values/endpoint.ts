/** The socket path of a runtime's endpoint, as Go's `url.Parse` reads it; without a scheme it is `unix`. */
import { quote } from './go-text.ts';

/** An empty path: the text after the scheme is no absolute path. */
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
