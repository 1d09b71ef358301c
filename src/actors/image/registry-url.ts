/**
 * Registries as credentials name them: a host, perhaps with a port and the beginning of a path, without a scheme.
 *
 * Owns the matching rules: as many labels in the host, each by a glob (`*.example.com`); the same port; the path is a
 * prefix. Pure; the refusals are Go's.
 */
import type { Parsed } from '../../machines/model/values/go-text.ts';
import { quote } from '../../machines/model/values/go-text.ts';

export interface RegistryUrl {
  /** The host with its port. */
  readonly host: string;
  readonly path: string;
}

export function parseRegistryUrl(text: string): Parsed<RegistryUrl> {
  const refuse = (reason: string) => ({ error: `parse ${quote(`https://${text}`)}: ${reason}` });
  if (/\p{Cc}/u.test(text)) return refuse('net/url: invalid control character in URL');
  const [bare = ''] = text.split(/[?#]/, 1);
  const slash = bare.indexOf('/');
  const authority = slash < 0 ? bare : bare.slice(0, slash);
  const path = slash < 0 ? '' : bare.slice(slash);
  const host = authority.slice(authority.lastIndexOf('@') + 1);
  const badEscape = invalidEscape(host) ?? invalidEscape(path);
  if (badEscape !== null) return refuse(`invalid URL escape ${quote(badEscape)}`);
  const badCharacter = /[ "<>\\^`{|}]/.exec(host.replaceAll(/^\[.*\]/g, ''))?.[0];
  if (badCharacter !== undefined) return refuse(`invalid character ${quote(badCharacter)} in host name`);
  const port = /:(?<port>[^:\]]*)$/.exec(host)?.groups?.['port'] ?? '';
  if (!/^\d*$/.test(port)) return refuse(`invalid port ${quote(`:${port}`)} after host`);
  return { value: { host: decodeURIComponent(host), path: decodeURIComponent(path) } };
}

/** Three characters, or fewer at the end, where a percent sign is not followed by two hexadecimal digits. */
function invalidEscape(text: string): string | null {
  const at = /%(?![0-9a-fA-F]{2})/.exec(text)?.index;
  return at === undefined ? null : text.slice(at, at + 3);
}

/** Whether the registry that a credential names is that of the image. */
export function matches(pattern: string, image: string): boolean {
  const [wanted, found] = [parseRegistryUrl(pattern), parseRegistryUrl(image)];
  if (wanted.error !== undefined || found.error !== undefined) return false;
  const [wantedHost, foundHost] = [splitHost(wanted.value.host), splitHost(found.value.host)];
  return (
    wantedHost.port === foundHost.port &&
    wantedHost.labels.length === foundHost.labels.length &&
    found.value.path.startsWith(wanted.value.path) &&
    wantedHost.labels.every((label, at) => globMatches(label, foundHost.labels[at] ?? ''))
  );
}

function splitHost(host: string): { labels: readonly string[]; port: string } {
  const [, name = host, port = ''] = /^(.*):(\d*)$/.exec(host) ?? [];
  return { labels: name.split('.'), port };
}

/** Go's `filepath.Match` for one label; a pattern that is none matches nothing. */
function globMatches(pattern: string, label: string): boolean {
  const source = pattern.replaceAll(/\\(.)|(\*)|(\?)|(\[[^[\]]+\])|([.+^${}()|[\]\\])/g, (all, ...groups) => {
    const [escaped, star, any, set] = groups as (string | undefined)[];
    if (escaped !== undefined) return `\\u${escaped.charCodeAt(0).toString(16).padStart(4, '0')}`;
    if (star !== undefined) return '[^/]*';
    if (any !== undefined) return '[^/]';
    return set ?? `\\${all}`;
  });
  try {
    return new RegExp(`^${source}$`).test(label);
  } catch {
    return false;
  }
}
