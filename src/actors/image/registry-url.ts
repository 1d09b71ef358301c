/**
 * Registries as named by credentials: a host, optionally with port and path prefix, without a scheme.
 *
 * Matching: the same number of host labels, each by a glob (`*.example.com`); the same port; the path is a prefix.
 * Pure; errors are Go's.
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
  try {
    return { value: { host: decodeURIComponent(host), path: decodeURIComponent(path) } };
  } catch {
    // Go accepts escaped bytes that are not text; no name of an image has such bytes.
    return refuse('invalid URL escape');
  }
}

/**
 * The first percent sign that is not followed by two hexadecimal digits, with at most two characters after it; `null`
 * if there is none.
 */
function invalidEscape(text: string): string | null {
  const at = /%(?![0-9a-fA-F]{2})/.exec(text)?.index;
  return at === undefined ? null : text.slice(at, at + 3);
}

/** Whether a credential's registry is that of the image. */
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

/** Go's `filepath.Match` for one label; an invalid pattern matches nothing. */
function globMatches(pattern: string, label: string): boolean {
  const parts = partsOf(pattern);
  if (parts === null) return false;
  const characters = Array.from(label);
  let [part, at] = [0, 0];
  // Backtracking to the last star suffices: the length that an earlier star matches makes no difference.
  let star: { readonly part: number; at: number } | null = null;
  while (at < characters.length) {
    const matcher = parts[part];
    if (matcher === STAR) star = { part: ++part, at };
    else if (matcher?.(characters[at]!)) [part, at] = [part + 1, at + 1];
    else if (star !== null && characters[star.at] !== '/') [part, at] = [star.part, ++star.at];
    else return false;
  }
  return parts.slice(part).every((rest) => rest === STAR);
}

const STAR = Symbol('*');
/** A predicate of one character. */
type CharacterTest = (character: string) => boolean;

/** `null` for an invalid pattern. */
function partsOf(pattern: string): readonly (typeof STAR | CharacterTest)[] | null {
  const parts: (typeof STAR | CharacterTest)[] = [];
  const rest = Array.from(pattern).values();
  for (const character of rest) {
    if (character === '*') parts.push(STAR);
    else if (character === '?') parts.push((found) => found !== '/');
    else {
      const part = character === '[' ? setIn(rest) : literalIn(character, rest);
      if (part === null) return null;
      parts.push(part);
    }
  }
  return parts;
}

type Characters = Iterator<string>;

function literalIn(first: string, rest: Characters): CharacterTest | null {
  const character = first === '\\' ? rest.next().value : first;
  return character === undefined ? null : (found) => found === character;
}

/** Characters and ranges up to the closing bracket; at least one. */
function setIn(rest: Characters): CharacterTest | null {
  let character = next(rest);
  const isNegated = character === '^';
  if (isNegated) character = next(rest);
  const ranges: (readonly [string, string])[] = [];
  while (character !== ']' || ranges.length === 0) {
    const low = bound(character, rest);
    let high = low;
    character = next(rest);
    if (character === '-') {
      high = bound(next(rest), rest);
      character = next(rest);
    }
    if (low === null || high === null || character === null) return null;
    ranges.push([low, high]);
  }
  return (found) => ranges.some(([low, high]) => low <= found && found <= high) !== isNegated;
}

const next = (rest: Characters): string | null => (rest.next().value as string | undefined) ?? null;

function bound(character: string | null, rest: Characters): string | null {
  if (character === '-' || character === ']') return null;
  return character === '\\' ? next(rest) : character;
}
