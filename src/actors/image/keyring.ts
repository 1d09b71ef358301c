/**
 * The docker configuration of a node and of pull secrets, and the logins in them for a repository, most specific first.
 * Also compares registries as credentials name them.
 *
 * The node's own file is searched in upstream's order; the first valid one is used. Invariants: the order of logins is
 * upstream's, because they are tried until the registry accepts one; no error quotes the content of a file.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject } from '../../kernel/json.ts';
import { type Parsed, quote } from '../../machines/model/values/go-text.ts';

/** The limit of a file: a file with a thousand registries has about 200 KiB. */
const MAX_CONFIG_BYTES = 1_048_576;
/** Registries of one configuration, and of all pull secrets of a pull: each is compared with the image. */
const LOGINS_MAX = 10_000;
/**
 * The limit of logins for one image: they are tried until the registry accepts one, and each is a secret of the
 * journal.
 */
const MATCHES_MAX = 100;

export interface Login {
  readonly username: string;
  readonly password: string;
  /** Counts for the identity of the login, and is not sent to the runtime. */
  readonly email?: string;
}

/** By registry: a host, or a host with a path prefix. */
export type Logins = Readonly<Record<string, Login>>;

/** `config.json` and `.dockerconfigjson`: logins are below `auths`. */
export function dockerConfigJson(text: string): Logins {
  const value = parsed(text);
  if (!isObject(value)) throw new Error('the docker configuration is not a JSON object');
  return loginsOf(value['auths'] ?? {});
}

/** `.dockercfg`: only logins. */
export const dockercfg = (text: string): Logins => loginsOf(parsed(text));

/** Parses JSON with an error of its own: the parser's message would quote the text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('the docker configuration is not JSON');
  }
}

function loginsOf(value: unknown): Logins {
  if (!isObject(value)) throw new Error('the logins of the docker configuration are not a JSON object');
  const entries = Object.entries(value);
  if (entries.length > LOGINS_MAX)
    throw new Error(
      `the docker configuration has ${entries.length} registries, more than the ${LOGINS_MAX} that are read`,
    );
  return Object.fromEntries(entries.map(([registry, entry]) => [registry, loginOf(entry)]));
}

function loginOf(entry: unknown): Login {
  const fields = isObject(entry) ? entry : {};
  const text = (name: string): string => {
    const value = fields[name] ?? '';
    if (typeof value === 'string') return value;
    throw new Error('a login of the docker configuration has a field that is not text');
  };
  const [username, password, auth, email] = [text('username'), text('password'), text('auth'), text('email')];
  const about = email === '' ? {} : { email };
  if (auth === '') return { username, password, ...about };
  const decoded = Buffer.from(auth, 'base64').toString('utf8');
  const colon = decoded.indexOf(':');
  if (colon < 0) throw new Error('unable to parse auth field, must be formatted as base64(username:password)');
  return { username: decoded.slice(0, colon), password: decoded.slice(colon + 1), ...about };
}

interface Place {
  readonly root: string;
  readonly workingDirectory: string;
  /** `HOME`; empty without one. */
  readonly home: string;
}

/** The logins of the node itself; none if no file can be read. */
export async function nodeLogins(place: Place): Promise<Logins> {
  for (const [path, decode] of candidates(place)) {
    const text = await readable(path);
    if (text === null) continue;
    try {
      return decode(text);
    } catch {
      // The next file may be readable; upstream also continues without a message.
    }
  }
  return {};
}

function candidates({ root, workingDirectory, home }: Place): (readonly [string, (text: string) => Logins])[] {
  const legacy = [root, workingDirectory, home || workingDirectory, '/'];
  const docker = [root, workingDirectory, join(home || workingDirectory, '.docker'), '/.docker'];
  return [
    ...docker.map((folder) => [join(folder, 'config.json'), dockerConfigJson] as const),
    ...legacy.map((folder) => [join(folder, '.dockercfg'), dockercfg] as const),
    ...legacy.map((folder) => [join(folder, '.dockerconfigjson'), dockerConfigJson] as const),
  ];
}

async function readable(path: string): Promise<string | null> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const { size } = await file.stat();
      return size > MAX_CONFIG_BYTES ? null : await file.readFile('utf8');
    } finally {
      await file.close();
    }
  } catch {
    return null;
  }
}

const DEFAULT_REGISTRY = 'index.docker.io';

export interface StoredLogin<Source> {
  readonly login: Login;
  readonly source: Source;
}

export class Keyring<Source> {
  /** By registry, without scheme and API version. */
  readonly #logins = new Map<string, StoredLogin<Source>[]>();
  #count = 0;

  /** An invalid registry URL is skipped, as docker does. */
  add(logins: Logins, source: Source): void {
    const entries = Object.entries(logins);
    this.#count += entries.length;
    if (this.#count > LOGINS_MAX)
      throw new Error(
        `with those before it there are ${this.#count} registries, more than the ${LOGINS_MAX} that are read`,
      );
    for (const [registry, login] of entries) this.#put(keyOf(registry), { login, source });
  }

  #put(key: string | null, login: StoredLogin<Source>): void {
    if (key === null) return;
    const known = this.#logins.get(key);
    if (known) known.push(login);
    else this.#logins.set(key, [login]);
  }

  /** `repository` as in `docker.io/library/busybox`. At most {@link MATCHES_MAX}. */
  lookup(repository: string): readonly StoredLogin<Source>[] {
    const keys = [...this.#logins.keys()].sort().toReversed();
    const found = keys.filter((key) => matches(key, repository)).flatMap((key) => this.#logins.get(key) ?? []);
    const isKnown = found.length > 0 || !isDefaultRegistry(repository);
    return (isKnown ? found : (this.#logins.get(DEFAULT_REGISTRY) ?? [])).slice(0, MATCHES_MAX);
  }
}

function keyOf(registry: string): string | null {
  const parsed = parseRegistryUrl(registry.replace(/^https?:\/\//, ''));
  if (parsed.error !== undefined) return null;
  const path = parsed.value.path.replace(/^\/v[12]\//, '/');
  return path === '/' ? parsed.value.host : `${parsed.value.host}${path}`;
}

/** A first part of a name without dot or port is no registry. */
function isDefaultRegistry(repository: string): boolean {
  const [first = '', ...rest] = repository.split('/');
  if (first === '') return false;
  return rest.length === 0 || first === 'docker.io' || first === DEFAULT_REGISTRY || !/[.:]/.test(first);
}

/**
 * Registries as named by credentials: a host, optionally with port and path prefix, without a scheme.
 *
 * Matching: the same number of host labels, each by a glob (`*.example.com`); the same port; the path is a prefix.
 * Pure; errors are Go's.
 */
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
