import { describe, expect, it } from 'vitest';
import {
  dockerConfigJson,
  dockercfg,
  Keyring,
  type Logins,
  matches,
  parseRegistryUrl,
} from '../../../src/actors/image/keyring.ts';

const loginsFor = (...registries: string[]): Logins =>
  Object.fromEntries(registries.map((registry) => [registry, { username: registry, password: 'p' }]));

const LOGIN = { username: 'u', password: 'p' };

function lookup(image: string, ...registries: string[]): string[] {
  const ring = new Keyring<null>();
  ring.add(loginsFor(...registries), null);
  return ring.lookup(image).map(({ login }) => login.username);
}

describe('which login fits an image', () => {
  it.each([
    ['the host', 'a.io/x', ['a.io'], ['a.io']],
    ['a scheme is no part of it', 'a.io/x', ['https://a.io', 'http://a.io/'], ['https://a.io', 'http://a.io/']],
    [
      'the version of the API is no part of it',
      'a.io/x',
      ['https://a.io/v1/', 'a.io/v2/'],
      ['https://a.io/v1/', 'a.io/v2/'],
    ],
    ['the longer path first', 'a.io/x/y', ['a.io', 'a.io/x/y', 'a.io/x'], ['a.io/x/y', 'a.io/x', 'a.io']],
    ['a path is a prefix, not a folder', 'a.io/xyz', ['a.io/x'], ['a.io/x']],
    ['another path', 'a.io/y', ['a.io/x'], []],
    ['another port', 'a.io:5000/x', ['a.io', 'a.io:5001'], []],
    ['the port', 'a.io:5000/x', ['a.io:5000'], ['a.io:5000']],
    ['a glob for one label', 'eu.a.io/x', ['*.a.io', '*.io', '[e-f]u.a.io'], ['[e-f]u.a.io', '*.a.io']],
    ['a glob for the port of a glob', 'eu.a.io:1/x', ['*.a.io'], []],
    ['a pattern that is none', 'eu.a.io/x', ['[.a.io'], []],
    ['Docker Hub by its own name', 'docker.io/library/x', ['docker.io'], ['docker.io']],
    [
      'Docker Hub by its address of old',
      'docker.io/library/x',
      ['https://index.docker.io/v1/'],
      ['https://index.docker.io/v1/'],
    ],
    ['a name without a registry', 'library/x', ['index.docker.io'], ['index.docker.io']],
    ['nothing else falls back to Docker Hub', 'a.io/x', ['index.docker.io'], []],
    ['a registry that is no URL', 'a.io/x', ['a%zz.io', 'a.io'], ['a.io']],
    ['a registry that is no text', 'a.io/x', ['a%ff.io', 'a.io/%c3', 'a.io'], ['a.io']],
  ])('%s', (_, image, registries, expected) => {
    expect(lookup(image, ...registries)).toEqual(expected);
  });

  it('tries two logins of one registry in the order in which they came', () => {
    const ring = new Keyring<string>();
    ring.add({ 'a.io': { username: 'one', password: '' } }, 'first');
    ring.add({ 'https://a.io': { username: 'two', password: '' } }, 'second');
    expect(ring.lookup('a.io/x').map(({ login, source }) => `${login.username} ${source}`)).toEqual([
      'one first',
      'two second',
    ]);
  });
});

describe('logins of one registry under thousands of spellings', () => {
  const spellings = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`a.io?${at}`, LOGIN]));

  it('are tried up to a hundred', () => {
    const ring = new Keyring<null>();
    ring.add(spellings, null);
    expect(ring.lookup('a.io/x')).toHaveLength(100);
  });

  it('are refused when all secrets of a pull have more than one may have', () => {
    const ring = new Keyring<null>();
    ring.add(spellings, null);
    expect(() => ring.add({ 'b.io': LOGIN }, null)).toThrow(
      'with those before it there are 10001 registries, more than the 10000 that are read',
    );
  });
});

describe('registries as URLs', () => {
  it.each([
    ['%%', 'parse "https://%%": invalid URL escape "%%"'],
    ['a b', 'parse "https://a b": invalid character " " in host name'],
    ['a.io:x/y', 'parse "https://a.io:x/y": invalid port ":x" after host'],
    ['a\nb', 'parse "https://a\\nb": net/url: invalid control character in URL'],
    ['a.io/%2', 'parse "https://a.io/%2": invalid URL escape "%2"'],
  ])('%j is refused in the words of Go', (text, error) => {
    expect(parseRegistryUrl(text)).toEqual({ error });
  });

  it.each([
    ['a*c', 'abc', true],
    ['a*c', 'abcd', false],
    ['*a*b*', 'xxaxxbxx', true],
    ['a**', 'a', true],
    ['a[b-y]c', 'aüc', false],
    ['[a-c]1', 'b1', true],
    ['[^a-c]1', 'b1', false],
    ['[^a-c]1', 'd1', true],
    ['[x-]', 'x', false],
    ['[]a]', ']', false],
    ['[a', 'a', false],
    ['a+', 'aa', false],
    ['(a)', '(a)', true],
    ['*'.repeat(30), 'a', true],
    [`${'*a'.repeat(30)}b`, 'a'.repeat(60), false],
  ])('the glob %s matches %s: %s, as in Go', (glob, label, isMatch) => {
    expect(matches(`${glob}.io`, `${label}.io/x`)).toBe(isMatch);
  });

  it('keeps a glob to one label', () => {
    expect(matches('*.io', 'a.b.io/x')).toBe(false);
    expect(matches('*', 'localhost/x')).toBe(true);
  });
});

describe('docker configuration', () => {
  const auth = Buffer.from('user:pass:word').toString('base64');

  it('reads logins in either form; auth wins over user and password', () => {
    const logins = { 'a.io': { username: 'x', password: 'y', auth }, 'b.io': { username: 'u', password: 'p' } };
    const expected = { 'a.io': { username: 'user', password: 'pass:word' }, 'b.io': { username: 'u', password: 'p' } };
    expect(dockercfg(JSON.stringify(logins))).toEqual(expected);
    expect(dockerConfigJson(JSON.stringify({ auths: logins, credsStore: 'desktop' }))).toEqual(expected);
  });

  it.each([
    '{"auths":{"a.io":{"auth":"c2VjcmV0"}}}',
    '{"auths":{"a.io":{"auth":7}}}',
    '{"auths":[]}',
    '"hunter2"',
    '{hunter2',
  ])('refuses %s without quoting it', (text) => {
    expect(() => dockerConfigJson(text)).toThrow(/^(?!.*(hunter2|secret|c2Vj))/);
  });
});
